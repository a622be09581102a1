"""A policy that acts with one function and is trained with another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.subject.modes import ModeQueries, measuring
from rnncheck.pipeline.subject.training_pass import TwoPasses


class Cell(TensorDictModuleBase):
    """h <- tanh(W x + h)."""

    def __init__(self) -> None:
        super().__init__()
        self.in_keys, self.out_keys = ["x", "h"], ["y", ("next", "h")]
        self.w = nn.Linear(2, 3)

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        td["y"] = td["next", "h"] = torch.tanh(self.w(td["x"]) + td["h"])
        return td

    def unrolled(self, x: Tensor, h: Tensor) -> Tensor:
        """Over the second dimension."""
        states = []
        for now in x.unbind(1):
            h = torch.tanh(self.w(now) + h)
            states.append(h)
        return torch.stack(states, 1)


def batch(*shape: int) -> TensorDict:
    draw = torch.Generator().manual_seed(0)
    x, h = torch.randn(*shape, 2, generator=draw), torch.zeros(*shape, 3)
    return TensorDict({"x": x, "h": h}, shape)


def in_place(cell: Cell) -> Callable[[TensorDictBase], Any]:
    def over(td: TensorDictBase) -> None:
        td["y"] = td["next", "h"] = cell.unrolled(td["x"], td["h"][:, 0])

    return over


def as_dict(cell: Cell) -> Callable[[TensorDictBase], Any]:
    return lambda td: {"y": cell.unrolled(td["x"], td["h"][:, 0]), "loss": torch.ones(())}


def as_tensor(cell: Cell) -> Callable[[TensorDictBase], Any]:
    return lambda td: cell.unrolled(td["x"], td["h"][:, 0])


def time_first(cell: Cell) -> Callable[[TensorDictBase], Any]:
    def over(td: TensorDictBase) -> tuple[Tensor, Tensor]:
        y = cell.unrolled(td["x"].transpose(0, 1), td["h"][0]).transpose(0, 1)
        return y, y

    return over


def passed(module: TwoPasses, td: TensorDictBase) -> TensorDictBase:
    with measuring(recurrent=True):
        out: TensorDictBase = module(td)
    return out


@pytest.mark.parametrize("shape", [(4, 5), (5,), (2, 3, 5)])
@pytest.mark.parametrize("make", [in_place, as_dict, as_tensor, time_first])
def test_the_pass_gives_what_the_policy_writes(make: Any, shape: tuple[int, ...]) -> None:
    cell, td = Cell(), batch(*shape)
    keys = {as_tensor: (("y",),), time_first: (("y",), ("next", "h"))}.get(make, ())
    module = TwoPasses(cell, make(cell), keys, time_first=make is time_first)
    out = passed(module, td.clone())
    rows = td.reshape(-1, shape[-1])
    expected = cell.unrolled(rows["x"], rows["h"][:, 0]).reshape(*shape, 3)
    assert torch.allclose(out["y"], expected)
    assert torch.equal(out["x"], td["x"])
    assert "loss" not in out
    assert (("next", "h") in out.keys(include_nested=True)) is (make in (in_place, time_first))


def test_acting_is_left_to_the_policy() -> None:
    cell, td = Cell(), batch(4)

    def never(td: TensorDictBase) -> None:
        raise AssertionError

    module = TwoPasses(cell, never)
    with measuring(recurrent=False):
        assert torch.equal(module(td.clone())["y"], cell(td.clone())["y"])
    assert (module.in_keys, module.out_keys) == (cell.in_keys, cell.out_keys)
    with ModeQueries() as queries, measuring(recurrent=False):
        module(td)
    assert queries.count == 0  # the user's module asks for no mode


def test_tensors_without_names_are_refused_with_the_way_out() -> None:
    cell = Cell()
    with pytest.raises(TypeError, match="name its tensors in `out_keys`"):
        passed(TwoPasses(cell, as_tensor(cell)), batch(4, 5))


def test_a_second_model_follows_copies_and_conversions() -> None:
    cell = Cell()
    second = nn.Module()
    second.w = cell.w  # shared

    def over(td: TensorDictBase) -> dict[str, Tensor]:
        assert second.w is not None
        return {"y": second.w(td["x"])}

    module = copy_of(TwoPasses(cell, over), "the policy").to(torch.float64)
    with torch.no_grad():
        module.acting.w.weight.zero_()
        module.acting.w.bias.fill_(1.0)
    out = passed(module, batch(4, 5).to(torch.float64))
    assert torch.equal(out["y"], torch.ones(4, 5, 3, dtype=torch.float64))
    assert not bool((cell.w.weight == 0).all())


@pytest.mark.parametrize("same", [True, False])
def test_a_copy_of_the_weights_is_tied_to_them(same: bool) -> None:
    cell = Cell()
    second = copy.deepcopy(cell)
    if not same:
        with torch.no_grad():
            second.w.bias.add_(1)
    module = TwoPasses(cell, lambda td: {"y": second.unrolled(td["x"], td["h"][:, 0])})
    (other,) = module.others()
    assert isinstance(other, Cell)
    assert (other.w.weight is cell.w.weight) is same
