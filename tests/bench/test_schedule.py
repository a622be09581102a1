"""The budget is the whole sweep's: who gets which part of it, and what is told of the rest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnncheck.bench.distrust import UNJUDGED
from rnncheck.bench.group import CLEAR, REACHED, SPENT, Group, Limits
from rnncheck.bench.recommend import recommendations
from rnncheck.bench.schedule import ENDING, SMALL, START, Costs, Schedule, Turn, estimate, guess
from rnncheck.results.cells import Cell, CellResult, Phase, Status
from rnncheck.results.variant import Variant
from rnncheck.spec.settings import BenchSpec
from tests.bench.simulated import Clock, SimulatedWorker, cell

VARIANTS = ("pad", "scan", "pad-compiled", "scan-compiled")
SECONDS = {"pad": 0.5, "scan": 0.8, "pad-compiled": 9.0, "scan-compiled": 12.0}
CALLS = {"pad": 0.05, "scan": 0.2, "pad-compiled": 0.03, "scan-compiled": 0.1}


def cells(batch: int, variants: Sequence[str] = VARIANTS) -> list[Cell]:
    return [cell(name, batch=batch) for name in variants]


def swept(
    budget: float, groups: list[list[Cell]], worker: SimulatedWorker,
    *, choosing: bool = False, starting: float = START,
) -> list[CellResult]:  # fmt: skip
    """What comes out of a whole sweep by the worker's clock."""
    clock, found = worker.clock, list[CellResult]()
    schedule = Schedule(budget, groups, clock=clock)

    def start() -> SimulatedWorker:
        clock.now += starting
        return worker

    alive = None
    for group in groups:
        limits = Limits(0.02, timeout=60, choosing=choosing)
        run = Group(
            group, Variant(), limits, start, 0, alive, load=lambda: None, turn=schedule.turn(group)
        )
        list(run.run())
        alive = run.worker
        found += run.results()
    clock.now += ENDING
    return found


@settings(max_examples=15, deadline=None)
@given(
    budget=st.floats(1, 300),
    slower=st.floats(0.2, 5),
    noise=st.sampled_from([0.0, 0.3]),
    choosing=st.booleans(),
    batches=st.integers(1, 4),
)
def test_a_sweep_keeps_its_budget_and_every_cell_says_what_became_of_it(
    budget: float, slower: float, noise: float, choosing: bool, batches: int
) -> None:
    clock = Clock()
    begin = clock.now
    prepare = {name: slower * seconds for name, seconds in SECONDS.items()}
    call = {name: slower * seconds for name, seconds in CALLS.items()}
    groups = [cells(batch) for batch in range(2, 2 + batches)]
    worker = SimulatedWorker(clock, prepare, call, noise)
    found = swept(budget, groups, worker, choosing=choosing)
    assert clock.now - begin <= budget + 0.001
    assert [one.cell for one in found] == [one for group in groups for one in group]
    for one in found:
        assert one.status in (Status.OK, Status.SKIPPED)
        assert one.reason.startswith("not measured: budget: ") == (one.status is Status.SKIPPED)
        assert (one.timing is not None) == (one.status is Status.OK)


def test_what_has_room_is_measured_and_the_reference_first() -> None:
    assert all(
        one.timing and one.timing.stopped == REACHED
        for one in swept(200, [cells(2), cells(3)], SimulatedWorker(Clock(), SECONDS, CALLS))
    )
    few = swept(START + 3, [cells(2), cells(3)], SimulatedWorker(Clock(), SECONDS, CALLS))
    assert few[0].timing is not None
    late = [one.reason for one in few if one.status is Status.SKIPPED]
    assert late
    assert all("s were left, and preparing it takes about" in one for one in late)


def test_a_cell_that_does_not_end_within_the_budget_is_no_time_out() -> None:
    endless = SECONDS | {"scan": 1e6}
    found = swept(30, [cells(2, ["pad", "scan"])], SimulatedWorker(Clock(), endless, CALLS))
    assert found[1].status is Status.SKIPPED
    assert found[1].reason.startswith("not measured: budget: it was not ready after")
    assert found[0].status is Status.OK  # prepared again in a fresh process
    own = swept(200, [cells(2, ["pad", "scan"])], SimulatedWorker(Clock(), endless, CALLS))
    assert (own[1].status, own[1].reason) == (Status.TIMEOUT, "no answer within 60 s")
    assert own[0].status is Status.OK


def test_what_is_ready_is_measured_before_a_cell_may_end_its_worker_too_late_for_another() -> None:
    endless = SECONDS | {"scan": 1e6}
    worker = SimulatedWorker(Clock(), endless, CALLS)
    found = swept(START + 5, [cells(2, ["pad", "scan", "pad-compiled"])], worker, choosing=True)
    assert [one.status for one in found] == [Status.OK, Status.SKIPPED, Status.SKIPPED]
    assert found[0].timing is not None and found[0].timing.samples == 4
    (said,) = recommendations(found, BenchSpec())
    assert (said.variant, said.alone) == ("pad", True)


def test_what_is_ready_is_measured_where_processes_start_slowly_and_a_cell_never_ends() -> None:
    endless = SECONDS | {"triton": 1e6, "pad": 8.5}
    calls = {"pad": 0.8, "triton": 0.2, "scan": 0.3}
    worker = SimulatedWorker(Clock(), endless, calls)
    found = swept(110, [cells(2, ["pad", "triton", "scan"])], worker, starting=12.0)
    assert [one.status for one in found][:2] == [Status.OK, Status.SKIPPED]
    assert found[0].timing is not None and found[0].timing.samples >= 4


def test_a_call_too_long_for_four_rounds_leaves_the_others_theirs() -> None:
    call = CALLS | {"scan": 4.0}
    found = swept(16, [cells(2, ["pad", "scan"])], SimulatedWorker(Clock(), SECONDS, call))
    assert found[0].timing is not None and found[0].timing.samples >= 16
    assert found[1].status is Status.SKIPPED
    assert "left for 4 rounds" in found[1].reason


def test_a_clear_choice_ends_a_group_long_before_its_intervals_are_narrow() -> None:
    def seconds(choosing: bool) -> tuple[float, list[CellResult]]:
        clock = Clock()
        worker = SimulatedWorker(clock, SECONDS, CALLS, noise=0.5)
        found = swept(300, [cells(2, ["pad", "scan"])], worker, choosing=choosing)
        return clock.now, found

    (soon, chosen), (late, timed) = seconds(True), seconds(False)
    assert soon < late
    assert {one.timing.stopped for one in chosen if one.timing} == {CLEAR}
    assert not [said for one in chosen for said in one.distrust if "interval" in said]
    assert {one.timing.stopped for one in timed if one.timing} <= {REACHED, SPENT}


def test_shares_follow_what_was_seen() -> None:
    costs = Costs()
    pad, compiled = cell("pad"), cell("scan-compiled")
    assert costs.of(compiled) == guess(compiled) > costs.of(pad)
    costs.saw(pad, 10 * guess(pad))
    assert costs.of(cell("pad", batch=64)) == 10 * guess(pad)
    assert costs.of(compiled) == pytest.approx(10 * guess(compiled))  # the machine is slow


def test_groups_at_once_get_as_many_times_the_share() -> None:
    groups = [cells(batch, ["pad"]) for batch in (2, 3, 4, 5)]
    alone, spread = (Schedule(100, groups, clock=Clock(), slots=n).turn(groups[0]) for n in (1, 2))
    assert spread.until - Clock().now == pytest.approx(2 * (alone.until - Clock().now))


def test_seconds_of_rounds_alone_are_divided_and_begin_with_the_rounds() -> None:
    clock = Clock()
    groups = [cells(2, ["pad"]), cells(3, ["pad", "scan", "pad-compiled"])]
    schedule = Schedule(40, groups, whole=False, clock=clock)
    turn = schedule.turn(groups[1])
    clock.now += 1e6
    turn.begin_rounds(fewest=1.0)
    assert turn.until - clock.now == 30
    assert turn.left(turn.end) == float("inf")


def test_an_estimate_is_no_more_than_the_budget() -> None:
    groups = [cells(batch) for batch in range(2, 12)]
    assert estimate(groups, 50) == 50
    assert START < estimate([[cell("pad", phase=Phase.ACT)]], 50) < 20


def test_a_turn_has_nothing_left_when_it_is_past() -> None:
    assert Turn(Clock()).left(999.0) == 0.0


def test_what_was_spent_before_counts_where_it_is_told() -> None:
    group, clock = cells(2, ["pad"]), Clock()
    late = Schedule(100, [group], clock=clock, began=clock.now - 60).turn(group)
    assert late.end == clock.now + 40 - ENDING


@pytest.mark.parametrize("budget", [SMALL - 0.1, SMALL])
def test_a_small_budget_goes_into_rounds_and_the_row_says_that_nobody_judged(budget: float) -> None:
    worker = SimulatedWorker(Clock(), SECONDS, CALLS)
    (found,) = swept(budget, [cells(2, ["pad"])], worker)
    small = budget < SMALL
    assert len(worker.judged) == (not small)
    assert (UNJUDGED in found.distrust) == small
    (told,) = recommendations([found], BenchSpec())
    assert (UNJUDGED in told.open) == small


@pytest.mark.parametrize("budget", [START + 3, START + 4.05])
def test_rounds_go_on_to_the_end_of_the_budget(budget: float) -> None:
    clock = Clock()
    begin = clock.now
    worker = SimulatedWorker(clock, SECONDS, CALLS, noise=0.5)
    (found,) = swept(budget, [cells(2, ["pad"])], worker)
    assert budget - 2 * CALLS["pad"] <= clock.now - begin <= budget
    assert list(found.samples.rounds) == list(range(1, len(found.samples.rounds) + 1))
