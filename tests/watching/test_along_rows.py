"""Where rows of steps were collected, where many of them show the same."""

import torch

from rnncheck.watching.forms.along_rows import along_rows

# Two envs of a corridor: the second is a step ahead.
COLLECTED = torch.tensor([[0.0, 1, 2, 3, 0, 1], [1.0, 2, 3, 0, 1, 2]]).unsqueeze(-1)


def places(shown, beside=()):
    """Env and step of each step that one row shows."""
    return along_rows(torch.tensor(shown).reshape(1, -1, 1), COLLECTED, beside)[0].tolist()


def test_a_run_that_is_there_once():
    assert places([2.0, 3, 0, 1, 2]) == [[1, 1], [1, 2], [1, 3], [1, 4], [1, 5]]


def test_the_longest_of_several_runs():
    assert places([1.0, 2, 3, 0, 1, 2]) == [[1, n] for n in range(6)]
    assert places([0.0, 1, 2, 3, 0, 1])[0] == [0, 0]


def test_a_run_ends_where_the_row_shows_something_else():
    assert places([3.0, 0, 1, 7, 7]) == [[1, 2], [1, 3], [1, 4], [-1, -1], [-1, -1]]
    assert places([3.0, 7, 1]) == [[1, 2], [-1, -1], [-1, -1]]


def test_a_run_ends_with_what_was_collected():
    assert places([0.0, 1, 2, 3, 0, 1, 2, 3]) == [[0, n] for n in range(6)] + [[-1, -1]] * 2


def test_of_runs_of_one_length_the_one_with_the_same_beside_it():
    rewards = torch.arange(12.0).reshape(2, 6, 1)
    for env, first in ((0, 1), (1, 0)):
        mine = rewards[env, first : first + 2].reshape(1, 2, 1)
        assert places([1.0, 2], [(mine, [rewards])]) == [[env, first], [env, first + 1]]


def test_what_was_never_collected():
    assert places([8.0, 9]) == [[-1, -1], [-1, -1]]
    assert places([8.0, 1]) == [[-1, -1], [-1, -1]]
