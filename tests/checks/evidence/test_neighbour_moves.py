"""Moves of one segment by changes behind it, beside those by changes elsewhere."""

from __future__ import annotations

from typing import cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict
from torch import Tensor

from rnncheck.checks.evidence.neighbour_moves import (
    _in_no_way,
    _in_their_ways,
    _kinds_of_ends,
    _one_sided,
    _stands_out,
    _watched,
)
from rnncheck.checks.evidence.training_batches import Sample, Steps
from rnncheck.pipeline.recording.recording import Recording


def moves(seed: int, count: int, ways: int, size: int = 12) -> tuple[list[Tensor], Tensor]:
    """Moves within so many ways, and what these are."""
    draw = torch.Generator().manual_seed(seed)
    basis = torch.randn(size, ways, generator=draw, dtype=torch.float64)
    mixed = torch.randn(ways, count, generator=draw, dtype=torch.float64)
    return list((basis @ mixed).T), basis


@given(st.integers(0, 10_000), st.sampled_from([1, 2, 3]), st.floats(1e-3, 1e3))
def test_a_statistic_moves_alike_from_everywhere(seed: int, ways: int, scale: float) -> None:
    found, _ = moves(seed, 10, ways)
    assert not _in_no_way([one * scale for one in found[:2]], found[2:])


@given(st.integers(0, 10_000), st.floats(0.3, 10.0))
def test_what_runs_over_an_end_has_a_way_of_its_own(seed: int, size: float) -> None:
    found, basis = moves(seed, 10, 2)
    own = torch.linalg.qr(torch.cat([basis, torch.eye(12, 1, dtype=torch.float64)], 1))[0][:, 2]
    mean = torch.stack(found).norm(dim=1).mean()
    assert _in_no_way([one + size * 3 * mean * own for one in found[:2]], found[2:])


@pytest.mark.parametrize("count", [0, 3])
def test_too_few_ways_tell_nothing(count: int) -> None:
    found, _ = moves(0, count + 2, 6)
    assert not _in_no_way(found[:2], found[2:])


def test_ways_that_are_many_tell_nothing() -> None:
    """Each of them lies outside of the others, as what is asked does."""
    found, _ = moves(1, 8, 12)
    assert not _in_no_way(found[:2], found[2:])


@given(st.integers(0, 10_000), st.sampled_from([1, 2, 4]))
def test_neighbours_that_move_as_all_others_do_are_told(seed: int, ways: int) -> None:
    found, _ = moves(seed, 12, ways)
    assert _in_their_ways(found[:2], found[2:])


@given(st.integers(0, 10_000))
def test_a_neighbour_with_a_way_of_its_own_is_none_of_them(seed: int) -> None:
    found, basis = moves(seed, 10, 2)
    own = torch.linalg.qr(torch.cat([basis, torch.eye(12, 1, dtype=torch.float64)], 1))[0][:, 2]
    mean = torch.stack(found).norm(dim=1).mean()
    assert not _in_their_ways([one + mean * own for one in found[:2]], found[2:])


def test_few_or_many_ways_tell_of_no_statistic() -> None:
    few, _ = moves(0, 5, 2)
    many, _ = moves(1, 8, 12)
    assert not _in_their_ways(few[:2], few[2:])
    assert not _in_their_ways(many[:2], many[2:])


def test_what_some_of_the_others_do_not_move_is_no_statistic() -> None:
    found, _ = moves(0, 12, 2)
    assert not _in_their_ways(found[:2], [*found[2:], torch.zeros(12, dtype=torch.float64)])


@given(st.integers(0, 10_000), st.sampled_from([1, 2, 3]))
def test_a_statistic_stands_nowhere_out(seed: int, ways: int) -> None:
    found, _ = moves(seed, 12, ways)
    assert not _stands_out(found[:2], found[2:])


@given(st.integers(0, 10_000), st.sampled_from([1e-3, 1e-2]))
def test_a_small_way_of_its_own_stands_out_of_clean_ones(seed: int, share: float) -> None:
    found, basis = moves(seed, 12, 2)
    own = torch.linalg.qr(torch.cat([basis, torch.eye(12, 1, dtype=torch.float64)], 1))[0][:, 2]
    near = [one + share * one.norm() * own for one in found[:2]]
    assert _in_their_ways(near, found[2:])
    assert _stands_out(near, found[2:])


@pytest.mark.parametrize(
    ("behind", "ahead", "told"),
    [
        ([True, True, False], [False] * 3, True),
        ([False] * 3, [True, True, True], True),
        ([True, False, False], [False] * 3, False),  # one alone may be rounding
        ([True] * 3, [False, True, False], False),  # a statistic has no direction
        ([], [], False),
    ],
)
def test_most_neighbours_of_one_side_stand_out(
    behind: list[bool], ahead: list[bool], told: bool
) -> None:
    assert _one_sided(behind, ahead) is told


def _sample() -> Sample:
    """Three rows of three segments; the first one of each row is terminated, the second one cut."""
    steps = torch.arange(12)
    flag = (steps % 4 == 0).expand(3, 12)
    over = (steps % 4 == 3).expand(3, 12).unsqueeze(-1)
    draw = torch.Generator().manual_seed(5)
    following = {
        "reward": torch.randn(3, 12, 1, generator=draw),
        "done": over.clone(),
        "terminated": over & (steps < 4).unsqueeze(-1),
    }
    rows = TensorDict({"next": TensorDict(following, [3, 12])}, [3, 12])
    valid = torch.ones(3, 12, dtype=torch.bool)
    unknown = torch.full((3, 12), -1)
    collected = Steps(cast(Recording, None))
    vars(collected)["successor"] = torch.zeros(1, dtype=torch.long)  # of no step that is known
    return Sample(rows, rows, unknown, valid, False, flag, collected)


def test_ends_of_each_kind_are_watched() -> None:
    """A sum may stop where an episode is terminated, and run on where it is cut: there are three of
    each kind, and as many of each are looked at."""
    sample = _sample()
    terminated, cut = _kinds_of_ends(sample)
    assert terminated.nonzero().tolist() == [[row, 3] for row in range(3)]
    assert cut.nonzero().tolist() == [[row, 7] for row in range(3)]
    for ends, begin in ((terminated, 0), (cut, 4)):
        watched = list(_watched(sample, ends))
        assert [one.segment.nonzero()[0].tolist() for one in watched] == [
            [n, begin] for n in range(3)
        ]
        assert [int(one.neighbour.nonzero()[0, 1]) for one in watched] == [begin + 4] * 3
