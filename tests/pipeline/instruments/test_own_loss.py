"""A function as a loss: which of what it gives is one, and how a training step is asked for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rnncheck.errors import StageError
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.copying.holdings import trained_parameters
from rnncheck.pipeline.instruments.own_loss import OwnLoss, OwnLosses, losses_in

WEIGHT = torch.tensor(2.0, requires_grad=True)


def one() -> Tensor:
    return WEIGHT * 3


def two() -> Tensor:
    return WEIGHT * 4


def whole() -> tuple[Tensor, Tensor, Tensor]:
    first, second = one(), two()
    return first + second, first, second


def total(result: Any) -> float:
    return sum(float(value.detach()) for value in losses_in(result).values())


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (one, 6.0),
        (lambda: {"loss_a": one(), "loss_b": two(), "td_error": two()}, 14.0),
        (lambda: TensorDict({"loss_a": one(), "loss_b": two()}), 14.0),
        (lambda: {"policy_loss": one(), "value_loss": two(), "entropy": two()}, 14.0),
        (lambda: dict(zip(("total_loss", "pi_loss", "v_loss"), whole(), strict=True)), 14.0),
        (lambda: {"loss": one(), "loss_as_told": two().detach()}, 6.0),
        (lambda: (one(), two()), 14.0),
        (whole, 14.0),
        (lambda: (one(), {"entropy": two()}), 6.0),
        (lambda: [one(), two().detach()], 6.0),
        (lambda: (one(), torch.ones(3, requires_grad=True) * 2), 6.0),
        (lambda: ({"loss_a": one()}, {"told": 1}), 6.0),
        (lambda: (TensorDict({"x": torch.ones(2)}), one(), two().detach()), 6.0),
        (lambda: (torch.ones(3), one()), 6.0),
    ],
)
def test_what_counts(make: Callable[[], Any], expected: float) -> None:
    assert total(make()) == expected


@pytest.mark.parametrize("result", [None, 3.0, {}, {"entropy": torch.ones(1)}, ()])
def test_what_is_no_loss(result: Any) -> None:
    with pytest.raises(StageError, match="no backward was called"):
        losses_in(result)


class Learner:
    """Two optimisers, two ``backward``."""

    def __init__(self) -> None:
        self.actor, self.critic = nn.Linear(2, 1), nn.Linear(2, 1)
        self.first = torch.optim.Adam(self.actor.parameters())
        self.second = torch.optim.SGD(self.critic.parameters(), lr=0.1, momentum=0.9)

    def update(self, batch: TensorDict) -> None:
        value = self.critic(batch["x"])
        self.second.zero_grad()
        value.pow(2).mean().backward()
        self.second.step()
        self.first.zero_grad()
        torch.autograd.backward([(self.actor(batch["x"]) * value.detach()).sum()])
        torch.nn.utils.clip_grad_norm_(self.actor.parameters(), 1.0)
        self.first.step()


def batch() -> TensorDict:
    return TensorDict({"x": torch.randn(3, 2, generator=torch.Generator().manual_seed(0))}, [3])


def test_a_training_step_gives_what_backward_was_called_on() -> None:
    learner, td = Learner(), batch()
    before = [p.clone() for p in (*learner.actor.parameters(), *learner.critic.parameters())]
    made = OwnLoss(learner.update, {})(td)
    value = learner.critic(td["x"])
    expected = value.pow(2).mean() + (learner.actor(td["x"]) * value.detach()).sum()
    assert torch.allclose(made["loss"], expected)
    parameters = [*learner.actor.parameters(), *learner.critic.parameters()]
    assert all(map(torch.equal, before, parameters))
    assert all(p.grad is None for p in parameters)
    assert not learner.first.state
    mine, theirs = (torch.autograd.grad(v, parameters) for v in (made["loss"], expected))
    assert all(map(torch.allclose, mine, theirs))  # its graph is whole


def test_two_calls_give_the_same() -> None:
    loss = OwnLoss(Learner().update, {})
    assert torch.equal(loss(batch())["loss"], loss(batch())["loss"])


def test_a_copy_trains_networks_of_its_own() -> None:
    learner = Learner()
    loss = OwnLoss(learner.update, {})
    copied = copy_of(loss, "the loss")
    names = set(trained_parameters(loss))
    assert names == {
        f"self.{net}.{kind}" for net in ("actor", "critic") for kind in ("weight", "bias")
    }
    mine, theirs = (set(map(id, trained_parameters(one).values())) for one in (loss, copied))
    assert len(mine) == 4
    assert not mine & theirs


def test_other_arguments_are_bound_by_name() -> None:
    def loss(scale: float, td: TensorDict) -> Tensor:
        return WEIGHT * scale * td["x"].sum()

    made = OwnLoss(loss, {"scale": 2.0}, "td")(batch())
    assert torch.equal(made["loss"], WEIGHT * 2.0 * batch()["x"].sum())


def test_a_step_with_a_closure_and_afterwards_none_is_held_back() -> None:
    learner = Learner()
    OwnLoss(learner.update, {})(batch())
    learner.update(batch())
    assert learner.first.state  # outside of the loss the optimiser steps


def test_what_has_a_number_for_each_row_is_named() -> None:
    """A batch in another order leaves that where it is."""

    def loss(td: TensorDict, expert: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return (td["x"].mean(1) * expert).sum() * scale

    beside = partial(loss, expert=torch.ones(4), scale=torch.ones(()))
    assert OwnLoss(beside, {}).of_rows(4) == "expert"
    assert OwnLoss(beside, {}).of_rows(3) == ""
    assert OwnLoss(loss, {"expert": torch.ones(4)}).of_rows(4) == "expert"


def test_several_losses_answer_as_one_does() -> None:
    """Whoever asks a loss of the user's something need not know how many there are."""
    learner = Learner()
    beside = OwnLoss(lambda td, expert: td["x"].mean() * expert.mean(), {"expert": torch.ones(4)})
    together = OwnLosses({"a.py:1": OwnLoss(learner.update, {}), "a.py:2": beside})
    assert together.backwards == 0
    assert len(together(batch())) == 2
    assert together.backwards == 2
    assert (together.of_rows(4), together.of_rows(3)) == ("expert", "")
