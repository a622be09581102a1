"""Copies of what holds an env of gymnasium's."""

from __future__ import annotations

import gymnasium as gym
import pytest
from torch import nn

from rnncheck.pipeline.copying.copies import CannotCopy, copy_of


class Screen:
    """A surface of a library that refuses to be copied."""

    def __reduce__(self) -> str:
        raise RuntimeError("Surface is not initialized")


def test_one_that_cannot_be_copied_is_handed_on() -> None:
    """A trainer that is part of a loss holds it beside its networks."""
    env, network = gym.make("CartPole-v1"), nn.Linear(2, 2)
    held = copy_of({"env": env, "network": network}, "the loss")
    assert held["env"] is not env
    env.unwrapped.screen = Screen()  # type: ignore[attr-defined]
    held = copy_of({"env": env, "network": network}, "the loss")
    assert held["env"].unwrapped is env.unwrapped
    assert held["network"] is not network
    with pytest.raises(CannotCopy, match="Surface is not initialized"):
        copy_of({"screen": Screen()}, "the loss")
