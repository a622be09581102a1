"""Samples beside a fixed piece of work: a time is that of a core which is as fast as it gets."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncheck.bench.group import Group, Limits
from rnncheck.bench.messages import SampleTaken, WorkerAnswer
from rnncheck.bench.pace import Pace, best_pace, speed
from rnncheck.bench.schedule import Turn
from rnncheck.numerics.statistics import median_interval
from rnncheck.results.cells import CellResult, Samples
from rnncheck.results.variant import Variant
from tests.bench.simulated import Clock, SimulatedWorker, cell

LIMITS = Limits(interval=0.001, timeout=100.0)
CALL, WORK = 0.05, 0.001  # seconds, at the best speed


@dataclass
class SlowedWorker(SimulatedWorker):
    """For some samples in a row its core takes half as long again; ``times`` its work beside
    them."""

    times: bool = True
    slow: random.Random = field(default_factory=lambda: random.Random(1))
    _factor: float = 1.0

    def reply(self, timeout: float) -> WorkerAnswer:
        answer = super().reply(timeout)
        if not isinstance(answer, SampleTaken):
            return answer
        if self.slow.random() < 0.1:
            self._factor = 2.5 - self._factor  # 1 or 1.5
        pace = WORK * self._factor if self.times else 0.0
        return SampleTaken(answer.key, answer.wall * self._factor, answer.cpu, 0.0, pace)


def measured(*, times: bool) -> CellResult:
    clock = Clock()
    worker = SlowedWorker(clock, {"pad": 1.0}, {"pad": CALL}, noise=0.02, times=times)
    turn = Turn(clock, rounds=8.0)
    group = Group([cell("pad")], Variant(), LIMITS, lambda: worker, 0, load=lambda: None, turn=turn)
    list(group.run())
    (found,) = group.results()
    return found


def test_a_core_that_is_slow_for_a_while_moves_no_time() -> None:
    bare, beside = (measured(times=times).timing for times in (False, True))
    assert bare is not None
    assert beside is not None
    assert beside.median == pytest.approx(CALL, rel=0.01)
    assert beside.low <= CALL <= beside.high
    assert bare.relative > 3 * beside.relative


def test_what_was_measured_is_kept_beside_the_speed() -> None:
    found = measured(times=True).samples
    assert max(found.wall) > 1.4 * min(found.wall)
    assert {round(one, 3) for one in found.speed} == {1.0, round(1 / 1.5, 3)}
    assert found.steady == pytest.approx(
        [w * s for w, s in zip(found.wall, found.speed, strict=True)]
    )


def test_without_the_work_a_time_is_what_was_measured() -> None:
    found = measured(times=False)
    assert found.timing is not None
    assert found.samples.speed == ()
    assert found.samples.steady == found.samples.wall
    assert found.timing.median == median_interval(found.samples.wall).median


@given(st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=50))
def test_the_best_is_one_that_was_seen_about(paces: Sequence[float]) -> None:
    best = best_pace(paces)
    assert min(paces) <= best <= max(paces) * (1 + 1e-12)
    assert speed(best, best) == 1


@pytest.mark.parametrize(("pace", "best"), [(0.0, 0.001), (0.001, 0.0), (0.0, 0.0)])
def test_what_was_not_timed_has_the_speed_of_one(pace: float, best: float) -> None:
    assert speed(pace, best) == 1
    assert best_pace([0.0, 0.0]) == 0


def test_a_core_that_goes_half_as_fast_has_half_the_speed() -> None:
    assert speed(0.002, 0.001) == 0.5
    assert Samples((1, 2), (0.1, 0.2), (0.1, 0.2), speed=(1.0, 0.5)).steady == (0.1, 0.1)


def test_the_work_takes_some_time_and_changes_no_draw() -> None:
    import torch

    before = torch.get_rng_state()
    taken = [Pace()() for _ in range(3)]
    assert torch.equal(torch.get_rng_state(), before)
    assert all(math.isfinite(one) and one > 0 for one in taken)
    assert np.isfinite(best_pace(taken))
