"""From outcomes to a verdict and an exit code."""

from __future__ import annotations

from collections.abc import Iterable

from rnncheck.results.cells import CellResult
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.gate import GateItem, Ruling
from rnncheck.results.memory import MemoryResult, Question
from rnncheck.results.model import CheckResult, GuaranteeResult, Outcome, StageResult, Verdict

NO_STATE = "WR101"  # this failure alone means that there was nothing to verify


def fails(check: CheckResult, *, strict: bool) -> bool:
    """Whether this result fails the run."""
    return check.fails(strict=strict)


def judge(
    checks: Iterable[CheckResult],
    *,
    strict: bool,
    interrupted: bool = False,
    stages: Iterable[StageResult] = (),
    guarantees: Iterable[GuaranteeResult] = (),
) -> tuple[Verdict, ExitCode]:
    """Verdict and exit code of a run.

    An interruption wins, then failures, then checks or stages that raised. A run in which no check
    passed verified nothing. One with a stage that nobody could look into, or a guarantee that is
    not shown, did not show what was asked.
    """
    results = list(checks)
    failed = {check.code for check in results if fails(check, strict=strict)}
    if interrupted:
        return Verdict.INTERRUPTED, ExitCode.INTERRUPTED
    if failed - {NO_STATE}:
        return Verdict.FAILED, ExitCode.FAILED
    if failed:
        return Verdict.NOTHING_VERIFIED, ExitCode.NOT_SHOWN
    ends = {stage.outcome for stage in stages}
    if Outcome.ERROR in ends or any(check.outcome is Outcome.ERROR for check in results):
        return Verdict.ERROR, ExitCode.INTERNAL
    decided = (Outcome.PASSED, Outcome.FAILED)  # a failed warning was verified too
    if not any(check.outcome in decided for check in results):
        return Verdict.NOTHING_VERIFIED, ExitCode.NOT_SHOWN
    if Outcome.NOT_LOOKED in ends or any(one.lacking for one in guarantees):
        return Verdict.NOT_SHOWN, ExitCode.NOT_SHOWN
    return Verdict.VERIFIED, ExitCode.VERIFIED


def judge_sweep(cells: Iterable[CellResult], *, interrupted: bool) -> tuple[Verdict, ExitCode]:
    """Verdict and exit code of a sweep: it told something where at least one cell has a speed that
    counts."""
    if interrupted:
        return Verdict.INTERRUPTED, ExitCode.INTERRUPTED
    if any(cell.counts for cell in cells):
        return Verdict.VERIFIED, ExitCode.VERIFIED
    return Verdict.NOTHING_VERIFIED, ExitCode.NOT_SHOWN


def judge_memory(
    found: MemoryResult | None,
    stages: Iterable[StageResult],
    *,
    strict: bool,
    interrupted: bool,
) -> tuple[Verdict, ExitCode]:
    """Verdict and exit code of a study: what it finds fails under ``strict`` alone."""
    if interrupted:
        return Verdict.INTERRUPTED, ExitCode.INTERRUPTED
    if any(stage.outcome is Outcome.ERROR for stage in stages):
        return Verdict.ERROR, ExitCode.INTERNAL
    if found is None or not found.answered:
        return Verdict.NOTHING_VERIFIED, ExitCode.NOT_SHOWN
    if strict and found.findings:
        return Verdict.FAILED, ExitCode.FAILED
    if len(found.answered) < len(Question):
        return Verdict.NOT_SHOWN, ExitCode.NOT_SHOWN
    return Verdict.VERIFIED, ExitCode.VERIFIED


def judge_gate(
    verified: tuple[Verdict, ExitCode] | None, items: Iterable[GateItem], *, strict: bool
) -> tuple[Verdict, ExitCode]:
    """Verdict and exit code of a gate. ``verified`` is that of its checks, None where they were not
    asked.

    What is broken weighs more than what raised, that more than what is slower. A gate that decided
    nothing verified nothing; one that measured and found it unclear is open, but under ``strict``.
    """
    decided = list(items)
    rulings = {item.ruling for item in decided}
    verdict, code = verified or (Verdict.NOTHING_VERIFIED, ExitCode.NOT_SHOWN)
    if code in (ExitCode.INTERRUPTED, ExitCode.FAILED):
        return verdict, code
    if Ruling.FAILED in rulings:
        return Verdict.FAILED, ExitCode.FAILED
    if code is ExitCode.INTERNAL:
        return verdict, code
    if any(item.fails(strict=strict) for item in decided):
        return Verdict.SLOWER, ExitCode.SLOWER
    if verified is None and rulings & {Ruling.PASSED, Ruling.UNCLEAR}:
        return Verdict.VERIFIED, ExitCode.VERIFIED
    return verdict, code
