"""The baseline: a stored run that a project commits, and what has changed since.

Speed-ups, which are ratios within one run, are compared whatever the machine. Absolute times are
compared on the same machine with the same libraries alone, and a difference between two runs
minutes or months apart is believed only where neither machine was disturbed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist

from rnncheck.errors import Place, UserError
from rnncheck.gate.budgets import why_uncounted
from rnncheck.gate.guarantees import guarantees_of, held_guarantees
from rnncheck.printable import counted
from rnncheck.results.cells import Cell, CellResult, Samples, cell_to_json, cells_from_json
from rnncheck.results.compare import WIDE, by_speed_up, by_time, environment_differences
from rnncheck.results.gate import GateItem, Part, Ruling
from rnncheck.results.model import CheckResult, Environment, GuaranteeResult, Outcome, Run
from rnncheck.results.noise import NORMAL
from rnncheck.results.store import read_run
from rnncheck.spec.model import Spec

_COMMANDS = ("gate", "verify", "bench")
# Share of false alarms over all comparisons of a gate together (Bonferroni): the level of every
# other interval here. Beside it the estimate must be above the allowance, which few false ones are.
ERRORS = 0.05
# Differences between machines, and codes of checks, that a sentence names; chosen: it can be read.
_NAMED = 3


@dataclass(frozen=True)
class Baseline:
    """A stored run with its rows by key."""

    run: Run
    rows: Mapping[str, CellResult]


@dataclass(frozen=True)
class Present:
    """This run. ``checks`` is None where they were not asked; ``left_out`` are codes that the
    command line left out."""

    checks: Sequence[CheckResult] | None
    guarantees: Sequence[GuaranteeResult]
    left_out: Collection[str]
    cells: Sequence[Cell]  # that the gate is about; the rows hold their references, too
    rows: Mapping[str, CellResult]
    environment: Environment
    spec_hash: str


def open_baseline(path: Path, spec: Spec, *, update: bool) -> Baseline | None:
    """The baseline at ``path``; None where there is none yet and it will be written.

    Raises UserError for a file that cannot be read or is no baseline of ``spec``.
    """
    place = Place(str(path))
    if not path.exists():
        if update:
            return None
        hint = f"make it: rnncheck gate --baseline {path} --update-baseline"
        raise UserError("there is no such baseline", place=place, hint=hint)
    run = read_run(path)
    anew = "give another file, or delete this one and make it anew with --update-baseline"
    if run.command not in _COMMANDS:
        raise UserError(
            f"a result of `rnncheck {run.command}` is no baseline",
            place=place,
            accepted=f"a result of rnncheck {', '.join(_COMMANDS)}",
            hint=anew,
        )
    if run.spec.name != spec.name:
        raise UserError(
            f"this is the baseline of another spec: {run.spec.name!r}, not {spec.name!r}",
            place=place,
            hint=anew,
        )
    return Baseline(run, {row.cell.key: row for row in cells_from_json(run.cells, place)})


def baseline_of(run: Run) -> Run:
    """What is committed: verdicts and numbers, without the single samples and what this gate
    decided."""
    rows = (replace(row, samples=Samples()) for row in cells_from_json(run.cells))
    return replace(run, cells=tuple(cell_to_json(row) for row in rows), gate=(), notices=())


def compared(before: Baseline, now: Present, allowed: float) -> Iterator[GateItem]:
    """Everything that the baseline has to say about this run; ``allowed`` is a share by which it
    may be slower."""
    if before.run.spec.hash != now.spec_hash:
        yield _item(
            "spec",
            Ruling.NOTED,
            "the effective spec changed since the baseline was written: the file, --set or a"
            " default",
        )
    yield from _checks(before.run, now)
    yield from _gone(before, now)
    yield from _speeds(before, now, allowed)


def _item(name: str, ruling: Ruling, reason: str) -> GateItem:
    return GateItem(Part.BASELINE, name, ruling, reason)


# --- checks ------------------------------------------------------------------------------------


def _checks(before: Run, now: Present) -> Iterator[GateItem]:
    if now.checks is None:
        yield _item("checks", Ruling.NOTED, "not compared: none were asked (--no-verify)")
        return
    if not before.checks:
        yield _item("checks", Ruling.NOTED, "not compared: the baseline holds none")
        return
    old = {check.code: check for check in before.checks}
    for check in now.checks:
        if check.code in old and (item := _check(old[check.code], check)) is not None:
            yield item
    left = [code for code in old if code in now.left_out]
    for held in held_guarantees(guarantees_of(before), now.guarantees, partly=bool(left)):
        yield _item(held.name, held.ruling, held.reason)
    if left:
        said = f"not run, by the command line: {_named(left)}"
        yield _item(counted(len(left), "check"), Ruling.NOTED, said)


def _check(old: CheckResult, new: CheckResult) -> GateItem | None:
    """What became of a check that fails on one side alone."""
    name, failed = f"{old.code} {old.name}", old.outcome is Outcome.FAILED
    if new.outcome is old.outcome:
        return None
    told = f"{old.outcome} there, {new.outcome} here" + (f" ({new.reason})" if new.reason else "")
    if new.outcome is Outcome.FAILED:
        known = f"newly fails, accepted: {new.accepted}" if new.accepted else "newly fails"
        return _item(name, Ruling.NOTED if new.accepted else Ruling.FAILED, f"{known}: {told}")
    if new.outcome is Outcome.PASSED:
        return _item(name, Ruling.NOTED, f"no longer fails: {told}") if failed else None
    return _item(name, Ruling.NOTED, f"could not be told: {told}") if failed else None


def _named(codes: Sequence[str]) -> str:
    more = len(codes) - _NAMED
    return ", ".join(codes[:_NAMED]) + (f" and {more} more" if more > 0 else "")


# --- cells -------------------------------------------------------------------------------------


def unmeasured(cells: Sequence[Cell], rows: Mapping[str, CellResult]) -> Iterator[GateItem]:
    """An item for each cell that the gate asks for and that has no row that counts."""
    for cell in cells:
        if said := why_uncounted(cell, rows.get(cell.key)):
            yield _item(cell.label, Ruling.FAILED, f"cannot be compared: {said}")


def _gone(before: Baseline, now: Present) -> Iterator[GateItem]:
    """Rows of the baseline that this run lacks; those of a sweep were never the gate's."""
    mere = {(row.cell.group, row.ratio.reference) for row in before.rows.values() if row.ratio}
    lacking = [
        row.cell
        for key, row in before.rows.items()
        if key not in now.rows and (row.cell.group, row.cell.variant.label) not in mere
    ]
    if before.run.command == "bench":
        if lacking:
            said = "not measured: they are the sweep's, and none of the gate's"
            yield _item(f"{len(lacking)} cells of the baseline", Ruling.NOTED, said)
        return
    for cell in lacking:
        said = (
            "gone: it was measured there, and the spec asks for it no more; --update-baseline if"
            " that is meant"
        )
        yield _item(cell.label, Ruling.FAILED, said)


@dataclass(frozen=True)
class _Pair:
    """One comparison: what is compared, its slowdown, half its logarithmic 95 % interval."""

    name: str
    slowdown: float
    half: float
    told: str
    notes: tuple[str, ...] = ()  # why it may not be believed


def _speeds(before: Baseline, now: Present, allowed: float) -> Iterator[GateItem]:
    others = environment_differences(before.run.environment, now.environment)
    pairs: list[_Pair] = []
    for cell in now.cells:
        old, new = before.rows.get(cell.key), now.rows.get(cell.key)
        if new is None or not new.counts:
            continue  # told by ``unmeasured``
        if old is None or not old.counts:
            said = "not in the baseline" if old is None else why_uncounted(cell, old)
            said = f"nothing to compare with ({said}); --update-baseline takes it up"
            yield _item(cell.label, Ruling.NOTED, said)
            continue
        pairs += _by_speed_up(old, new)
        if others:
            yield _elsewhere(cell, others)
        else:
            pairs.append(_by_time(old, new))
    for pair in pairs:
        yield _judged(pair, allowed, len(pairs))


def _elsewhere(cell: Cell, others: Sequence[str]) -> GateItem:
    said = f"another machine or other libraries (there / here): {'; '.join(others[:_NAMED])}"
    more = len(others) - _NAMED
    said += f" and {more} more" if more > 0 else ""
    return _item(f"time of {cell.label}", Ruling.INCOMPARABLE, said)


def _by_speed_up(old: CellResult, new: CellResult) -> list[_Pair]:
    found = by_speed_up(old, new)
    if found is None:
        return []
    assert old.ratio is not None and new.ratio is not None
    told = f"{old.ratio.value:.3g} there, {new.ratio.value:.3g} here"
    name = f"speed-up over {new.ratio.reference} of {new.cell.label}"
    return [_Pair(name, 1 / found[0], found[1], told)]


def _by_time(old: CellResult, new: CellResult) -> _Pair:
    value, half = by_time(old, new)
    assert old.timing is not None and new.timing is not None
    told = f"{old.timing.median * 1e3:.3g} ms there, {new.timing.median * 1e3:.3g} ms here"
    notes = [*(f"there: {one}" for one in old.distrust), *(f"here: {one}" for one in new.distrust)]
    return _Pair(f"time of {new.cell.label}", 1 / value, half, told, tuple(notes))


def _judged(pair: _Pair, allowed: float, comparisons: int) -> GateItem:
    """Slower where the estimate is beyond what is allowed and the interval, as wide as so many
    need, clear of none."""
    wide = NormalDist().inv_cdf(1 - ERRORS / comparisons / 2) / NORMAL
    half = pair.half * wide
    low, high = pair.slowdown * math.exp(-half), pair.slowdown * math.exp(half)
    ruling, reason = Ruling.PASSED, pair.told
    if pair.slowdown > 1 + allowed:
        ruling = Ruling.SLOWER if low > 1 else Ruling.UNCLEAR
    elif half > WIDE and high > 1 + allowed:
        ruling, reason = Ruling.UNCLEAR, f"{reason}; the interval is too wide to tell"
    if ruling is Ruling.SLOWER and pair.notes:
        ruling, reason = Ruling.UNCLEAR, f"{reason}; not believed, {'; '.join(pair.notes)}"
    return GateItem(
        Part.BASELINE,
        pair.name,
        ruling,
        reason,
        value=pair.slowdown,
        low=low,
        high=high,
        limit=1 + allowed,
        kind="max",
        unit="x",
    )
