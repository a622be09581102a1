"""Which discounted returns a script has made of rewards as it collected them."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rnncheck.watching.forms.returns_made import ReturnsMade, returns_made, returns_named


def _batch() -> TensorDict:
    rewards = torch.randn(2, 9, 1, generator=torch.Generator().manual_seed(0))
    done = torch.zeros(2, 9, 1, dtype=torch.bool)
    done[0, 3] = done[1, 5] = done[:, -1] = True
    return TensorDict({"next": {"reward": rewards, "done": done}}, [2, 9])


@pytest.mark.parametrize("made", [ReturnsMade(0.9), ReturnsMade(1.0), ReturnsMade(0.97, over=True)])
def test_they_are_known_by_what_they_add_up(made: ReturnsMade) -> None:
    """To the end of an episode, or over it."""
    batch = _batch()
    found = returns_made(made.of(batch).transpose(0, 1), batch)
    assert found is not None
    assert found.over is made.over
    assert found.discount == pytest.approx(made.discount, rel=1e-5)
    assert returns_named(found.key) == found


def test_by_hand() -> None:
    """Rewards of 1, and an end behind the second step."""
    done = torch.tensor([False, True, False, True]).view(1, 4, 1)
    batch = TensorDict({"next": {"reward": torch.ones(1, 4, 1), "done": done}}, [1, 4])
    assert ReturnsMade(0.5).of(batch).flatten().tolist() == [1.5, 1.0, 1.5, 1.0]
    assert ReturnsMade(0.5, over=True).of(batch).flatten().tolist() == [1.875, 1.75, 1.5, 1.0]


def test_other_numbers_are_none() -> None:
    """The rewards themselves, values, or returns of rewards a step late."""
    batch = _batch()
    rewards = batch["next", "reward"]
    late = batch.clone()
    late["next", "reward"] = rewards.roll(1, 1)
    for one in (rewards, torch.rand_like(rewards), ReturnsMade(0.9).of(late)):
        assert returns_made(one.transpose(0, 1), batch) is None
    assert returns_named(("reward",)) is None
