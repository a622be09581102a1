"""An interval that holds at every look, and the choice that is made with it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rnncheck.bench.pairs import paired, settled
from rnncheck.numerics.sequential import running_interval
from rnncheck.numerics.statistics import median_interval
from rnncheck.results.cells import Cell, CellResult, Phase, Samples, Status
from rnncheck.results.noise import BETWEEN
from rnncheck.results.variant import Variant

RUNS = 400
# Of so many runs with an error of at most 5 % each: 5 % and three standard deviations.
ALLOWED = 0.05 + 3 * math.sqrt(0.05 * 0.95 / RUNS)


def test_too_few_values_refute_nothing_and_more_narrow_it() -> None:
    few = running_interval([1.0, 2.0, 1.5, 1.2, 1.1, 1.4, 1.3])
    assert (few.low, few.high) == (-math.inf, math.inf)
    eight = running_interval([1.0, 2.0, 1.5, 1.2, 1.1, 1.4, 1.3, 1.6])
    assert (eight.low, eight.high) == (1.0, 2.0)
    many = np.random.default_rng(0).normal(size=2000)
    at_once, found = median_interval(many), running_interval(many)
    assert found.low < at_once.low < found.median < at_once.high < found.high
    assert found.high - found.low < 0.3
    with pytest.raises(ValueError, match="at least one"):
        running_interval([])


def noise(draw: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Logarithms of a ratio whose true median is 0."""
    if kind == "normal":
        return draw.normal(0, 0.05, count)
    if kind == "heavy":
        return draw.standard_t(2, count) * 0.05
    values = draw.normal(0, 0.05, count)  # rounds that resemble the one before them
    for i in range(1, count):
        values[i] += 0.5 * values[i - 1]
    return values


@pytest.mark.parametrize("kind", ["normal", "heavy", "alike"])
def test_looking_after_every_fourth_round_misses_the_median_in_few_runs(kind: str) -> None:
    draw = np.random.default_rng(1)
    missed = 0
    for _ in range(RUNS):
        values = noise(draw, kind, 120)
        looks = (running_interval(values[:n]) for n in range(8, 121, 4))
        missed += any(not one.low <= 0 <= one.high for one in looks)
    assert missed / RUNS <= ALLOWED


def rows(draw: np.random.Generator, speeds: list[float], count: int) -> list[Samples]:
    """Rounds of cells in one process, each with what the process adds to its time for good."""
    made = []
    for speed in speeds:
        own = draw.normal(0, BETWEEN / math.sqrt(2))
        wall = speed * np.exp(own + draw.normal(0, 0.04, count))
        made.append(Samples(tuple(range(count)), tuple(wall), tuple(wall)))
    return made


def stopped_at(made: list[Samples]) -> int | None:
    """The first look, after every fourth round, at which all is settled."""
    for n in range(4, len(made[0].rounds) + 1, 4):
        if all(settled([Samples(r.rounds[:n], r.wall[:n], r.cpu[:n]) for r in made])):
            return n
    return None


@pytest.mark.parametrize("count", [2, 3])
def test_what_is_alike_is_told_apart_in_few_runs(count: int) -> None:
    """Variants that are equally fast in the mean over processes: when the rounds end, one of them
    is called slower than the fastest in at most 5 % of the runs."""
    draw = np.random.default_rng(2)
    wrong = 0
    for _ in range(RUNS // 2):
        made = rows(draw, [1.0] * count, 60)
        n = stopped_at(made) or 60
        told = [result(Samples(one.rounds[:n], one.wall[:n], one.cpu[:n])) for one in made]
        best = min(told, key=lambda one: float(np.median(one.samples.wall)))
        found = [paired(one, best) for one in told if one is not best]
        wrong += any(ratio is not None and ratio.verdict != "unclear" for ratio in found)
    assert wrong / (RUNS // 2) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / (RUNS // 2))


def result(samples: Samples) -> CellResult:
    return CellResult(Cell(Phase.TRAIN, Variant(), 4, 8, 0.0), Status.OK, samples=samples)


def test_what_is_far_apart_is_settled_soon_and_what_is_alike_later() -> None:
    draw = np.random.default_rng(3)
    far = [stopped_at(rows(draw, [1.0, 2.0], 200)) for _ in range(20)]
    alike = [stopped_at(rows(draw, [1.0, 1.0], 200)) for _ in range(20)]
    assert all(n is not None and n <= 24 for n in far)
    assert min(n or 200 for n in alike) > max(n or 200 for n in far)


def test_a_row_that_shares_no_round_is_not_settled() -> None:
    one = Samples((0, 1), (1.0, 1.0), (1.0, 1.0))
    other = Samples((2, 3), (2.0, 2.0), (2.0, 2.0))
    assert settled([one, other]) == [False, False]
