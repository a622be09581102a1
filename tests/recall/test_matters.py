"""Judging returns under treatments of the state, without playing."""

from __future__ import annotations

import numpy as np
import pytest

from rnncheck.numerics.paired import mean_difference
from rnncheck.recall.matters import judged_returns, treatments_for
from rnncheck.results.memory import ReturnEffect

OWN = "own state"


def effect(own: list[float], other: list[float]) -> ReturnEffect | None:
    return judged_returns({OWN: own, "frozen state": other}, looks=1)[1].effect


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        (0.0, ReturnEffect.SAME),
        (-0.2, ReturnEffect.SAME),  # within a tenth of the return
        (-6.0, ReturnEffect.WORSE),
        (6.0, ReturnEffect.BETTER),
    ],
)
def test_returns_are_judged_by_their_interval(other: float, wanted: ReturnEffect) -> None:
    noise = np.random.default_rng(0).normal(0, 0.5, (2, 32))
    own = 10 + noise[0]
    assert effect(own.tolist(), (own + other + noise[1] / 5).tolist()) is wanted


def test_few_noisy_returns_are_unclear() -> None:
    assert effect([9.0, 1.0] * 4, [2.0, 6.0] * 4) is ReturnEffect.UNCLEAR


def test_agreement_of_a_few_is_no_proof() -> None:
    """Eight equal returns leave room for others; how much, the rule of three says."""
    few, many = (mean_difference(np.zeros(n), scale=2.0) for n in (8, 128))
    assert few.high == -few.low == pytest.approx(2 * (1 - 0.05 ** (1 / 8)))
    assert many.high < 0.05


@pytest.mark.parametrize("kept", [200.0, -3.0])
def test_equal_returns_are_as_good_once_they_are_many(kept: float) -> None:
    """Eight episodes that end alike, whatever the state, leave room for one that does not."""
    assert effect([kept] * 8, [kept] * 8) is ReturnEffect.UNCLEAR
    assert effect([kept] * 64, [kept] * 64) is ReturnEffect.SAME
    few = judged_returns({OWN: [kept] * 8, "frozen state": [kept] * 8}, looks=1)[1].lost
    assert few is not None
    assert few.high == -few.low == pytest.approx(abs(kept) * (1 - 0.05 ** (1 / 8)))


def test_spread_returns_that_agree_in_pairs_are_held_to_their_spread() -> None:
    own = [4.0, -4.0] * 4
    assert effect(own, own) is ReturnEffect.UNCLEAR
    assert effect(own * 8, own * 8) is ReturnEffect.SAME


def test_returns_that_are_all_nothing_stay_unclear() -> None:
    """An agent that never gets a reward has none to lose."""
    assert effect([0.0] * 128, [0.0] * 128) is ReturnEffect.UNCLEAR


def test_a_treatment_that_stopped_early_is_paired_with_its_own_episodes() -> None:
    found = judged_returns({OWN: [1.0, 2.0, 9.0], "frozen state": [0.0, 1.0]}, looks=1)
    assert found[1].lost is not None
    assert found[1].lost.value == 1.0


def test_resets_beyond_the_longest_episode_are_left_out() -> None:
    assert "reset every 16 steps" not in treatments_for(10, others=True)
    assert "state of another episode" not in treatments_for(10, others=False)
