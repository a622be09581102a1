"""What ``--plan`` says of a sweep's seconds is about what the sweep takes."""

from __future__ import annotations

import pytest

from rnncheck.bench.probe import PROBE, VARYING, probed
from rnncheck.bench.schedule import START
from rnncheck.errors import UserError
from tests.bench.simulated import Clock, SimulatedWorker, cell
from tests.bench.test_schedule import CALLS, SECONDS, cells, swept

APART = ["pad", "scan"]


@pytest.mark.parametrize("slower", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("variants", [APART, ["pad", "scan", "pad-compiled"]])
@pytest.mark.parametrize("choosing", [True, False])
def test_the_estimate_is_within_30_percent(
    slower: float, batches: int, variants: list[str], choosing: bool
) -> None:
    prepare = {name: slower * seconds for name, seconds in SECONDS.items()}
    calls = {name: slower * seconds for name, seconds in CALLS.items()}
    groups = [cells(batch, variants) for batch in range(2, 2 + batches)]

    def fresh(noise: float = 0.08) -> SimulatedWorker:
        return SimulatedWorker(Clock(), prepare, calls, noise)

    asked, measured = fresh(), fresh()

    def start() -> SimulatedWorker:
        asked.clock.now += START
        return asked

    found = probed(groups, start, 60, clock=asked.clock)
    begin = measured.clock.now
    swept(150, groups, measured, choosing=choosing)
    took = measured.clock.now - begin
    assert found.estimate(groups, 150, 0.02, choosing=choosing) == pytest.approx(took, rel=0.3)


def test_a_probe_is_short_and_takes_one_of_each_kind_first() -> None:
    worker = SimulatedWorker(Clock(), SECONDS, CALLS)
    begin = worker.clock.now
    groups = [cells(batch) for batch in range(2, 30)]
    found = probed(groups, lambda: worker, 60, clock=worker.clock)
    assert worker.clock.now - begin <= PROBE + VARYING
    assert {label for label, _ in found.rounds} == {"pad", "scan"}  # compiling takes too long
    assert found.estimate(groups, 90, 0.02, choosing=True) == 90


def test_a_worker_that_hangs_ends_the_probe_and_a_pipeline_that_is_none_is_told() -> None:
    worker = SimulatedWorker(Clock(), SECONDS | {"scan": 1e6}, CALLS)
    found = probed([[cell("pad"), cell("scan")]], lambda: worker, 5, clock=worker.clock)
    assert {label for label, _ in found.rounds} == {"pad"}
    assert [label for label, _ in found.late] == ["scan"]
    assert found.samples  # those of the other were taken in another worker
    assert found.estimate([[cell("pad"), cell("scan")]], 90, 0.02, choosing=True) > 5

    def refused() -> SimulatedWorker:
        raise UserError("the pipeline cannot be built")

    with pytest.raises(UserError, match="cannot be built"):
        probed([[cell("pad")]], refused, 5)
