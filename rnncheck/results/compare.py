"""Two stored runs, row by row: which checks and which cells changed, and by how much.

Numbers of two runs come from different processes at different times. Speed-ups over the reference
of the same run are compared where both have one, absolute times only on the same machine with the
same libraries, and either with the spread that remains between processes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from rnncheck.results.cells import CellResult, Status, cells_from_json
from rnncheck.results.changes import Change, RowChange
from rnncheck.results.memory_changes import compared_memories
from rnncheck.results.model import CheckResult, Environment, Outcome, Run
from rnncheck.results.noise import widened

# A change within this share is none. Chosen between what fresh processes differ by (1.8 %,
# measured) and the 5 % that a gate must find.
ALLOWED = 0.03
# Half the logarithmic interval beyond which nothing is called the same. Chosen: three times ALLOWED
# would still lie inside such an interval.
WIDE = 0.1


def machine_fingerprint(environment: Environment) -> dict[str, str]:
    """What must agree for absolute times to be comparable."""
    packages = {f"package {name}": version for name, version in environment.packages.items()}
    packages.pop("package rnncheck", None)
    return {
        "cpu": environment.cpu,
        **({"gpu": environment.gpu} if environment.gpu else {}),
        "device": environment.device,
        "threads": str(environment.threads),
        "python": environment.python,
        "platform": environment.platform,
        **packages,
    }


def environment_differences(first: Environment, second: Environment) -> list[str]:
    """``threads 2 / 8`` for all that differs between two machines."""
    one, other = machine_fingerprint(first), machine_fingerprint(second)
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return [f"{name} {one.get(name, 'absent')} / {other.get(name, 'absent')}" for name in names]


def compare_runs(first: Run, second: Run, allowed: float = ALLOWED) -> list[RowChange]:
    """All rows of both runs: the checks, the cells in the order of the second run, and what two
    studies of the memory measured."""
    checks, cells = _checks(first, second), _cells(first, second, allowed)
    return [*checks, *cells, *compared_memories(first.memory, second.memory)]


def _checks(first: Run, second: Run) -> Iterator[RowChange]:
    old = {check.code: check for check in first.checks}
    new = {check.code: check for check in second.checks}
    for code in {**old, **new}:
        yield _check(old.get(code), new.get(code))


def _check(old: CheckResult | None, new: CheckResult | None) -> RowChange:
    known = new or old
    assert known is not None
    label = f"{known.code} {known.name}"
    if old is None or new is None:
        return RowChange(label, Change.NEW if old is None else Change.GONE, str(known.outcome))
    told = f"{old.outcome}, then {new.outcome}"
    if old.outcome is new.outcome:
        return RowChange(label, Change.SAME, str(new.outcome))
    if new.outcome is Outcome.FAILED:
        return RowChange(label, Change.FAILS, told)
    if old.outcome is Outcome.FAILED:
        return RowChange(label, Change.PASSES, told)
    lost = old.outcome is Outcome.PASSED
    return RowChange(label, Change.BROKEN if lost else Change.FIXED, told)


def _cells(first: Run, second: Run, allowed: float) -> Iterator[RowChange]:
    old = {row.cell.key: row for row in cells_from_json(first.cells)}
    new = {row.cell.key: row for row in cells_from_json(second.cells)}
    others = environment_differences(first.environment, second.environment)
    for key in {**new, **old}:
        yield _cell(old.get(key), new.get(key), others, allowed)


def _cell(
    old: CellResult | None, new: CellResult | None, others: list[str], allowed: float
) -> RowChange:
    known = new or old
    assert known is not None
    label = known.cell.label
    if old is None or new is None:
        return RowChange(label, Change.NEW if old is None else Change.GONE, _status(known))
    if not (old.counts and new.counts):
        return _uncounted(label, old, new)
    if (found := by_speed_up(old, new)) is not None:
        return _judged(label, "speed-up", *found, allowed)
    if others:
        return RowChange(label, Change.INCOMPARABLE, f"another machine: {'; '.join(others[:3])}")
    return _judged(label, "time", *by_time(old, new), allowed)


def by_speed_up(old: CellResult, new: CellResult) -> tuple[float, float] | None:
    """How many times the speed-up has grown, and half the logarithmic 95 % interval of that.

    None where either has no speed-up, or theirs are over different references.
    """
    if old.ratio is None or new.ratio is None or old.ratio.reference != new.ratio.reference:
        return None
    spans = [math.log(ratio.high / ratio.low) / 2 for ratio in (old.ratio, new.ratio)]
    half = math.hypot(*spans)  # each knows already what lies between processes
    return new.ratio.value / old.ratio.value, half


def by_time(old: CellResult, new: CellResult) -> tuple[float, float]:
    """How many times faster the second is, and half the logarithmic 95 % interval of that; both
    were measured."""
    assert old.timing is not None and new.timing is not None
    spans = [math.log(timing.high / timing.low) / 2 for timing in (old.timing, new.timing)]
    half = widened(math.hypot(*spans), comparisons=2)
    return old.timing.median / new.timing.median, half


def _uncounted(label: str, old: CellResult, new: CellResult) -> RowChange:
    told = f"{_status(old)}, then {_status(new)}"
    if old.counts:
        return RowChange(label, Change.BROKEN, told)
    if new.counts:
        return RowChange(label, Change.FIXED, told)
    return RowChange(label, Change.SAME, _status(new))


def _status(row: CellResult) -> str:
    ok = row.status is Status.OK or not row.reason
    return str(row.status) if ok else f"{row.status} ({row.reason})"


def _judged(label: str, basis: str, value: float, half: float, allowed: float) -> RowChange:
    """``half`` is half the logarithmic interval of the ratio of the two sides."""
    low, high = value * math.exp(-half), value * math.exp(half)
    within = abs(math.log(value)) <= math.log1p(allowed)
    if within:
        change = Change.SAME if half <= WIDE else Change.UNCLEAR
    elif low > 1 or high < 1:
        change = Change.FASTER if value > 1 else Change.SLOWER
    else:
        change = Change.UNCLEAR
    return RowChange(label, change, "", basis, value, low, high)
