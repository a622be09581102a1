"""In what a script holds its steps: found by what is in it, and made again of another batch."""

from __future__ import annotations

from collections import deque, namedtuple
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict, TensorDictBase

from rnncheck.watching.forms.plain_calls import Slot, ToldCall
from rnncheck.watching.forms.plain_loss import run_lines
from rnncheck.watching.forms.recognised import Storages, storages_in
from rnncheck.watching.forms.storages import Spoilt

STEPS, HIDDEN = 12, 3
TOLD = ToldCall(
    {("h",): Slot(("h",), 0, (HIDDEN,), torch.float32)},
    {("1",): Slot(("next", "h"), 0, (HIDDEN,), torch.float32)},
)
Step = namedtuple("Step", "x action reward done")


@dataclass
class Kept:
    x: torch.Tensor
    note: str = ""


class Agent:
    """Holds a buffer, and other things."""

    def __init__(self, **held: Any) -> None:
        self.buffer, self.name = SimpleNamespace(**held), "agent"

    def learn(self) -> Any:
        return self.buffer.x


def batch_of(seed: int, rows: int = 2) -> TensorDictBase:
    draw = torch.Generator().manual_seed(seed)
    done = torch.rand(rows, STEPS, 1, generator=draw) < 0.3
    done[0, 1] = True
    starts = torch.cat([torch.ones(rows, 1, 1, dtype=torch.bool), done[:, :-1]], 1)
    shown = torch.randn(rows, STEPS + 1, 4, generator=draw)
    state = torch.randn(rows, STEPS + 1, HIDDEN, generator=draw)
    entries = {
        "observation": shown[:, :-1],
        ("next", "observation"): shown[:, 1:],
        ("next", "reward"): torch.randn(rows, STEPS, 1, generator=draw),
        ("next", "done"): done,
        ("next", "terminated"): done,
        ("next", "truncated"): torch.zeros_like(done),
        "is_init": starts,
        "action": torch.randint(3, (rows, STEPS), generator=draw),
        "h": state[:, :-1],
        ("next", "h"): state[:, 1:],
    }
    return TensorDict(entries, [rows, STEPS])


def column(batch: TensorDictBase, *key: str) -> torch.Tensor:
    """``[steps, rows, ...]``."""
    return batch[key].transpose(0, 1).clone()


def held(value: Any, batch: TensorDictBase, stepped: frozenset[str] = frozenset()) -> Storages:
    return storages_in({"data": value}, batch, TOLD, stepped)


def shown_by(value: Any, found: Storages, batch: TensorDictBase) -> Any:
    """What a line that reads ``data`` sees for a batch."""
    parts = {path[1:]: one for path, one in found.parts.items()}
    return run_lines(reading, [("data", value, parts)], None, (), batch)  # type: ignore[arg-type]


def reading(_batch: Any, *, data: Any = None) -> Any:
    return data


def forms(batch: TensorDictBase) -> dict[str, Any]:
    """The same steps, held in many ways; one env where things are listed one by one."""
    x, reward, done = (
        column(batch, *key) for key in (("observation",), ("next", "reward"), ("next", "done"))
    )
    action, starts = column(batch, "action"), column(batch, "is_init")
    after = torch.cat([x, column(batch, "next", "observation")[-1:]])
    numbers = [float(one) for one in reward[:, 0, 0]]
    steps = [Step(x[t], action[t], reward[t], done[t]) for t in range(STEPS)]
    return {
        "tensor": x,
        "rows first": x.transpose(0, 1),
        "list": list(x),
        "tuple": tuple(x),
        "deque": deque(x, maxlen=STEPS),
        "array": x.numpy(),
        "dict of lists": {"x": list(x), "done": list(done)},
        "records": steps,
        "dicts": [step._asdict() for step in steps],
        "tuples": [tuple(step) for step in steps],
        "dicts of each env": [
            [{"x": one.numpy(), "note": ""} for one in x[t]] for t in range(STEPS)
        ],
        "last dicts": [{"x": one.numpy(), "note": ""} for one in after[-1]],
        "last mask": {"alive": (1.0 - done[-1].float()).reshape(-1)},
        "dataclasses": [Kept(x[t]) for t in range(STEPS)],
        "object": Agent(x=x, done=list(done)),
        "method": Agent(x=x).learn,
        "one longer": after,
        "masks": 1.0 - done.float(),
        "start masks": torch.cat([1.0 - starts.float(), 1.0 - done[-1:].float()]),
        "scaled": 0.1 * reward - 2,
        "numbers": numbers if batch.shape[0] == 1 else reward,
    }


NAMES = list(forms(batch_of(0)))


def told(value: Any) -> list[torch.Tensor]:
    """All numbers in it."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (np.ndarray, float, int, bool)):
        return [torch.as_tensor(value)]
    if callable(value):
        return told(value())
    if isinstance(value, dict):
        return [x for one in value.values() for x in told(one)]
    if isinstance(value, (list, tuple, deque)):
        return [x for one in value for x in told(one)]
    return [x for one in getattr(value, "__dict__", {}).values() for x in told(one)]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_what_holds_steps_holds_those_of_another_batch(name: str, rows: int) -> None:
    batch, other = batch_of(1, rows), batch_of(2, rows)
    value = forms(batch)[name]
    found = held(value, batch)
    assert found.parts
    assert not found.doubts
    for wanted in (batch, other):
        mine = told(shown_by(value, found, wanted))
        theirs = told(forms(wanted)[name])
        assert len(mine) == len(theirs)
        assert all(
            torch.allclose(a.double(), b.double()) for a, b in zip(mine, theirs, strict=True)
        )
    assert all(
        torch.equal(a, b) for a, b in zip(told(value), told(forms(batch)[name]), strict=True)
    )


@pytest.mark.parametrize(
    "value",
    [
        torch.randn(STEPS, 2),
        list(np.random.default_rng(0).normal(size=STEPS)),
        [{"v": float(n * n)} for n in range(STEPS)],
    ],
)
def test_what_nobody_knows_is_doubted(value: Any) -> None:
    found = held(value, batch_of(3))
    assert [type(one) for one in found.doubts.values()] == [Spoilt]
    assert not any(torch.isfinite(one).all() for one in told(found.doubts["data",].of(batch_of(3))))


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(STEPS),
        np.arange(2 * STEPS).reshape(STEPS, 2),
        0.9 ** torch.arange(STEPS, dtype=torch.float64),
        ["a"] * STEPS,
        [None] * STEPS,
        [3, 4],
        torch.ones(5, 5),
    ],
)
def test_what_no_env_gave_is_left_alone(value: Any) -> None:
    found = held(value, batch_of(4))
    assert not found.parts
    assert not found.doubts


def test_what_came_behind_the_last_step_is_doubted_where_nobody_knows_it() -> None:
    batch = batch_of(5)
    values = torch.cat([column(batch, "h"), torch.full((1, 2, HIDDEN), 7.0)])
    found = held(values, batch)
    assert torch.equal(shown_by(values, found, batch), values)
    spoilt = found.doubts["data",].of(batch)
    assert torch.equal(spoilt[:-1], values[:-1])
    assert spoilt[-1].isnan().all()


@pytest.mark.parametrize("stepped", [frozenset(["data"]), frozenset[str]()])
def test_a_plain_end_is_one_only_where_the_env_was_stepped(stepped: frozenset[str]) -> None:
    batch = batch_of(6, 1)
    batch["next", "done"][:, -1] = batch["next", "terminated"][:, -1] = True
    assert bool(held(True, batch, stepped).parts) is bool(stepped)


def test_what_an_env_shows_behind_an_end_may_be_anything() -> None:
    batch = batch_of(7)
    batch["next", "done"][:, -1] = torch.tensor([[True], [False]])
    last = batch["next", "observation"][:, -1].clone()
    last[0] = 5.0  # the env was reset
    assert held(last, batch).parts
    last[1] = 5.0
    assert not held(last, batch).parts


@given(st.permutations(range(STEPS)))
def test_steps_in_another_order_are_held_in_that_order(order: list[int]) -> None:
    batch = batch_of(8)
    value = {"x": list(column(batch, "observation")), "start": column(batch, "is_init")}
    turned = batch[:, order]
    seen = shown_by(value, held(value, batch), turned)
    assert torch.equal(torch.stack(seen["x"]), column(turned, "observation"))
    assert torch.equal(seen["start"], column(turned, "is_init"))


@pytest.mark.parametrize("pieces", [2, 3])
def test_states_of_pieces_are_told_in_a_list(pieces: int) -> None:
    """Each of its items is what one of the pieces begins with, and of no other count of them."""
    batch = batch_of(3)
    begins = [n * (STEPS // pieces) for n in range(pieces)]
    kept = [(batch["h"][:, at].clone(),) for at in begins]
    told = replace(TOLD, rows=2)
    found = storages_in({"states": kept}, batch, told, frozenset())
    assert not found.doubts
    other = batch_of(4)
    for number, at in enumerate(begins):
        part = found.parts["states", str(number), "0"]
        assert torch.equal(part.of(other), other["h"][:, at])
    late = [(batch["h"][:, at + 1].clone(),) for at in begins]
    assert storages_in({"states": late}, batch, told, frozenset()).doubts


def test_an_array_of_things_of_any_form_is_left_alone() -> None:
    """As many arrays of several lengths as there are steps."""
    kept = np.empty(STEPS, dtype=object)
    for number in range(STEPS):
        kept[number] = np.arange(number + 1)
    assert storages_in({"pieces": kept}, batch_of(3), TOLD, frozenset()) == Storages()
