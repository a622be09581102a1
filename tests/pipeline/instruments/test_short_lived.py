"""Modules that live for one call: none is taken for another that had its address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn

from rnncheck.pipeline.instruments.memoryless import Memoryless
from rnncheck.pipeline.instruments.module_calls import ModuleCalls
from rnncheck.pipeline.instruments.target_calls import Calls

ROUNDS = 20  # of two modules each: the second of a round usually gets the address of the first


class Sums(nn.Module):
    """``y`` is the sum of ``x`` so far; ``carries``: it declares that it has a state."""

    def __init__(self, *, carries: bool) -> None:
        super().__init__()
        self.in_keys = ["x", "h"] if carries else ["x"]
        self.out_keys = ["y", ("next", "h")] if carries else ["y"]

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        y = td["x"].cumsum(1)
        return td.set("y", y).set(("next", "h"), y)


class Bare(nn.Module):
    """The negative of ``x``: without keys and without a parameter, so no network."""

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        return td.set("y", -td["x"])


def batch() -> TensorDict:
    return TensorDict({"x": torch.ones(2, 3, 1), "h": torch.zeros(2, 3, 1)}, [2, 3])


def kinds() -> Iterator[bool]:
    """Whether the next short-lived module carries: no and yes in turn."""
    for _ in range(ROUNDS):
        yield from (False, True)


def test_every_pass_of_a_carrying_module_is_noted_and_no_other() -> None:
    with ModuleCalls() as inside:
        noted = []
        for carries in kinds():
            before = len(inside.passes)
            Sums(carries=carries)(batch())
            noted.append(len(inside.passes) > before)
            inside.passes.clear()  # a pass holds its module
    assert noted == list(kinds())


def test_every_carrying_module_forgets_and_no_other() -> None:
    last = []
    with Memoryless():
        for carries in kinds():
            out = Sums(carries=carries)(batch())
            last.append(float(out["y"][0, -1, 0]))
    assert last == [1.0 if carries else 3.0 for carries in kinds()]


@pytest.mark.parametrize("network_first", [False, True])
def test_every_network_is_numbered_and_no_other(network_first: bool) -> None:
    with Calls() as calls:
        for other in kinds():
            module = Sums(carries=True) if other == network_first else Bare()
            module(batch())
            del module
    assert len(calls.given) == ROUNDS
