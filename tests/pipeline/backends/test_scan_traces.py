"""Traces of a scan are made once for all copies, and change nothing."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch.overrides import TorchFunctionMode

from rnncheck.pipeline.backends.case import Case, standard_cases
from rnncheck.pipeline.backends.facts import Facts, new_module
from rnncheck.pipeline.backends.scan_traces import scan_traces_kept
from rnncheck.pipeline.backends.trial import TrialOutcome, run_trial
from rnncheck.results.variant import Variant, parse_variant

SCAN = parse_variant("scan")


class Partitioner:
    """torch's own, which counts what it traces."""

    def __init__(self, owner: Any) -> None:
        self.owner, self.original, self.made = owner, owner.create_partitioned_graph, 0

    def __call__(self, step: Any, given: Any, **options: Any) -> Any:
        eager = torch._guards.active_fake_mode() is None  # the compiler traces for itself
        self.made += eager
        return self.original(step, given, **options)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Partitioner]:
    scan = importlib.import_module("torch._higher_order_ops.scan")
    owner = getattr(scan, "HopGraphMinCutPartitioner", None)
    if owner is None:
        pytest.skip("this torch traces scans another way")
    count = Partitioner(owner)
    monkeypatch.setattr(owner, "create_partitioned_graph", staticmethod(count))
    yield count


def ran(facts: Facts, seeds: list[int], case: Case) -> list[TrialOutcome]:
    made = []
    for seed in seeds:
        torch.manual_seed(seed)
        made.append(run_trial(new_module(facts, Variant()), SCAN, case))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2])
def test_other_weights_on_the_same_shapes_share_a_trace(counted: Partitioner, layers: int) -> None:
    facts = Facts("lstm", 3, 5, num_layers=layers)
    case = standard_cases(facts)[0]
    ran(facts, [1], case)  # the first one of a process is tried on a small case besides
    counted.made = 0
    plainly = ran(facts, [1, 2, 1], case)
    each, counted.made = counted.made, 0
    with scan_traces_kept():
        kept = ran(facts, [1, 2, 1], case)
    assert (each, counted.made) == (3, 1)
    assert not torch.equal(kept[0].values["output"], kept[1].values["output"])
    for one, other in zip(plainly, kept, strict=True):
        for left, right in ((one.values, other.values), (one.gradients, other.gradients)):
            assert left.keys() == right.keys()
            assert all(torch.equal(left[name], right[name]) for name in left)


def test_another_shape_is_another_trace(counted: Partitioner) -> None:
    cases = [standard_cases(facts)[0] for facts in (Facts("lstm", 3, 5), Facts("lstm", 4, 5))]
    with scan_traces_kept():
        for case, size in zip(cases, (3, 4), strict=True):
            ran(Facts("lstm", size, 5), [1, 2], case)
    assert counted.made == 2


def squares(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    new = carry * x
    return new, new * new


def cubes(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    new = carry * x
    return new, new * new * new


def test_another_step_or_frozen_inputs_are_not_taken_for_the_same() -> None:
    scan = importlib.import_module("torch._higher_order_ops.scan").scan

    def gradients(step: Any, frozen: bool) -> list[torch.Tensor]:
        start = torch.tensor([2.0], requires_grad=not frozen)
        xs = torch.tensor([[3.0], [5.0]], requires_grad=True)
        _, out = scan(step, start, xs)
        return list(torch.autograd.grad(out.sum(), [xs] if frozen else [start, xs]))

    asked = [(squares, False), (cubes, False), (squares, True), (squares, False), (cubes, True)]
    for context in (scan_traces_kept(), nullcontext()):
        with context:
            found = [gradients(step, frozen) for step, frozen in asked]
        # d/dx at x = 2 of (3x)² + (15x)², and of (3x)³ + (15x)³
        assert [float(one[0]) for one in found[:2]] == [936.0, 40824.0]
        assert all(map(torch.equal, found[0], found[3]))
        assert torch.equal(found[2][0], found[0][1])
        assert torch.equal(found[4][0], found[1][1])


def backward_twice(step: Any, sizes: tuple[int, ...] = (2, 2)) -> list[torch.Tensor]:
    """The gradients of a scan over as many steps, one after the other."""
    scan = importlib.import_module("torch._higher_order_ops.scan").scan
    found = list[torch.Tensor]()
    for number, size in enumerate(sizes):
        start = torch.tensor([2.0 + number], requires_grad=True)
        xs = torch.arange(1.0, size + 1).view(-1, 1).requires_grad_()
        _, out = scan(step, start, xs)
        found += torch.autograd.grad(out.sum(), [start, xs])
    return found


def test_steps_back_are_traced_once_and_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("torch._higher_order_ops.scan")
    original, traced = module.materialize_as_graph, list[Any]()

    def counted(step: Any, *args: Any, **options: Any) -> Any:
        traced.append(step)
        return original(step, *args, **options)

    monkeypatch.setattr(module, "materialize_as_graph", counted)
    plainly = backward_twice(squares, (2, 2, 3))
    each = len(traced)
    traced.clear()
    with scan_traces_kept():
        kept = backward_twice(squares, (2, 2, 3))
        once = len(traced)
        others = backward_twice(cubes)
    assert (each, once, len(traced)) == (3, 1, 2)  # one step is like another, of how many there be
    assert all(map(torch.equal, plainly, kept))
    assert not torch.equal(others[0], kept[0])


class Sees(TorchFunctionMode):
    """Counts what it sees; a second one has nothing to see in scans."""

    def __init__(self, *, overlooks_scans: bool) -> None:
        super().__init__()
        self.overlooks_scans, self.seen = overlooks_scans, list[str]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("overlooks", [True, False])
def test_a_mode_that_overlooks_scans_is_set_aside_in_them(
    overlooks: bool,
) -> None:
    with scan_traces_kept():
        plainly = backward_twice(squares)
        compiled = counters["stats"]["unique_graphs"]
        with Sees(overlooks_scans=overlooks) as mode:
            found = backward_twice(squares)
            torch.ones(1).sum()
        assert torch._C._len_torch_function_stack() == 0
    assert (counters["stats"]["unique_graphs"] == compiled) is overlooks
    assert mode.seen[-1] == "sum"
    assert all(map(torch.equal, plainly, found))


PATCHED = [("HopGraphMinCutPartitioner", "create_partitioned_graph"), ("ScanOp", "gen_schema")]


@pytest.mark.parametrize(("owner", "name"), PATCHED)
def test_what_was_there_is_there_again(owner: str, name: str) -> None:
    found = getattr(importlib.import_module("torch._higher_order_ops.scan"), owner)
    before = found.__dict__[name]
    with pytest.raises(KeyError), scan_traces_kept():
        assert found.__dict__[name] is not before
        raise KeyError
    assert found.__dict__[name] is before


def adds_in_place(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x.add_(1.0)
    new = carry * x
    return new, new.clone()


def test_a_step_that_writes_its_inputs_is_refused_as_without() -> None:
    scan = importlib.import_module("torch._higher_order_ops.scan").scan
    start = torch.tensor([2.0], requires_grad=True)

    def message(step: Any) -> str:
        try:
            scan(step, start, torch.tensor([[3.0], [5.0]]))
        except Exception as error:
            return str(error).splitlines()[0]
        return ""

    asked = (squares, adds_in_place, squares, adds_in_place)
    plainly = [message(step) for step in asked]
    with scan_traces_kept():
        kept = [message(step) for step in asked]
    assert kept == plainly
    assert [bool(one) for one in kept] == [False, True, False, True]
