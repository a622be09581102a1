"""Steps that look alike are told apart by what is before and behind them."""

from __future__ import annotations

from rnncheck.checks.evidence.training_batches import _told_apart

AFTER = [1, 2, -1, 4, 5, -1]  # two trajectories of three steps


def test_steps_that_look_alike_belong_to_the_trajectory_of_their_neighbours() -> None:
    assert _told_apart([[0, 3], [1, 4], [5]], AFTER) == [3, 4, 5]
    assert _told_apart([[3], [1, 4], [2, 5]], AFTER) == [3, 4, 5]


def test_a_row_that_joins_two_trajectories_is_seen() -> None:
    assert _told_apart([[0], [4], [2]], AFTER) == [0, 4, 2]
    assert _told_apart([[0], [1], [3]], AFTER) == [0, 1, 3]


def test_a_copy_of_the_left_neighbour_stays_one() -> None:
    assert _told_apart([[1], [2, 5], [2, 5], []], AFTER) == [1, 2, 2, -1]
