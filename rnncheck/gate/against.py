"""The other side of a gate: another interpreter, or another revision of the user's own code.

Its checks run beside this side's own, its speed is measured in turn with this side's in fresh pairs
of processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from rnncheck.bench.messages import CellPrepared
from rnncheck.bench.side_comparison import CellComparison, ComparisonRules, SideComparison
from rnncheck.bench.sides import (
    Side,
    check_python,
    find_python,
    here,
    make_import_folder,
    scratch,
)
from rnncheck.errors import UserError
from rnncheck.gate.code import Other
from rnncheck.gate.guarantees import guarantees_of, held_guarantees
from rnncheck.gate.installed import side_of_python
from rnncheck.gate.worktree import side_of_ref
from rnncheck.numerics.stopping import Measure, PairsAnswer, RatioOverPairs, over_pairs
from rnncheck.results.cells import Cell
from rnncheck.results.events import Event, GateDecided, GateProgress
from rnncheck.results.gate import GateItem, Part, Ruling
from rnncheck.results.model import CheckResult, GuaranteeResult, Outcome
from rnncheck.results.store import read_run
from rnncheck.spec.model import Spec

# Seconds that the other side's checks may take beyond this side's. Chosen, not measured: the same
# checks run on both, so that only other libraries or a hanging one make a difference.
VERIFYING = 600.0
_TOLD = 400  # characters of its standard error that are told; chosen: a line that can be read
PROGRAM = """
import json, sys
from pathlib import Path
from rnncheck.api import verify
from rnncheck.results.store import write_run
spec, out, asked = sys.argv[1:]
write_run(verify(spec, **json.loads(asked)), Path(out))
"""


def open_against(
    spec: Spec, python: str | None, ref: str | None, overrides: Sequence[str], allowed: float
) -> Against:
    """The other side, ready to be entered. Raises UserError where it cannot be one."""
    if python is not None and ref is not None:
        raise UserError("--against and --against-ref name two other sides; give one of them")
    return Against(spec, python, ref, tuple(overrides), allowed)


@dataclass
class Against:
    """Use as a context: ``begin`` and ``checked`` hold the checks of both sides against each other,
    ``speed`` the cells."""

    spec: Spec
    python: str | None
    ref: str | None
    overrides: tuple[str, ...]
    allowed: float
    _scope: ExitStack = field(default_factory=ExitStack)
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with ExitStack() as scope:
            self._folder = Path(scope.enter_context(scratch()))
            self._other = self._other_side()
            self._scope = scope.pop_all()
        return self

    def __exit__(self, *details: object) -> None:
        self._kill()
        self._scope.close()

    def _kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _other_side(self) -> Other:
        if self.ref is not None:
            return side_of_ref(self.ref, Path(self.spec.path), self.overrides)
        python = find_python(self.python or "")
        check_python(python)
        return side_of_python(python, Path(self.spec.path), self.overrides)

    @property
    def there(self) -> Side:
        """The other side."""
        return self._other.side

    # --- the checks ------------------------------------------------------------------------------

    def begin(self, codes: Sequence[str], *, thorough: bool) -> None:
        """Start the other side's checks; they run while this side's do."""
        asked = {"overrides": self.overrides, "select": codes, "thorough": thorough}
        import_folder = make_import_folder(self._folder)
        self._log = self._scope.enter_context((self._folder / "verify.log").open("w+b"))
        self._process = subprocess.Popen(
            [self.there.python, "-c", PROGRAM, self.there.spec, str(self._out), json.dumps(asked)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, **self.there.environment(import_folder)},
            cwd=self.there.folder,
            start_new_session=True,
        )

    @property
    def _out(self) -> Path:
        return self._folder / "verify.json"

    def checked(
        self, checks: Sequence[CheckResult], guarantees: Sequence[GuaranteeResult]
    ) -> Iterator[Event]:
        """What differs between the checks of both sides, when the other's have ended."""
        if self._process is not None:
            yield GateProgress(f"the checks of {self.there.name}")
            yield from map(GateDecided, self._verification(checks, guarantees))

    def _verification(
        self, checks: Sequence[CheckResult], guarantees: Sequence[GuaranteeResult]
    ) -> Iterator[GateItem]:
        assert self._process is not None
        try:
            code = self._process.wait(VERIFYING)
        except subprocess.TimeoutExpired:
            self._kill()
            yield _item("checks", Ruling.UNCLEAR, f"{self.there.name} did not finish its own")
            return
        if code or not self._out.exists():
            yield _item("checks", Ruling.UNCLEAR, f"{self.there.name} raised: {self._last_words()}")
            return
        there = read_run(self._out)
        yield from held_against(checks, there.checks)
        for one in held_guarantees(guarantees_of(there), guarantees, partly=False):
            yield _item(one.name, one.ruling, one.reason)

    def _last_words(self) -> str:
        text = (self._folder / "verify.log").read_text(encoding="utf-8", errors="replace")
        lines = text.strip().splitlines()
        return lines[-1][-_TOLD:] if lines else "it ended without a word"

    # --- the speed -------------------------------------------------------------------------------

    def speed(self, cells: Sequence[Cell]) -> Iterator[Event]:
        """How much slower or faster the cells are here."""
        spec = self.spec
        rules = ComparisonRules(
            self.allowed,
            spec.gate.patience,
            spec.bench.timeout,
            spec.bench.memory_limit,
            spec.bench.threads or 1,
            spec.seed,
        )
        mine = here(spec.path, self.overrides)
        both_sides = SideComparison((mine, self.there), cells, rules)
        for doing in both_sides.run():
            yield GateProgress(doing)
        if len(both_sides.about) == len(both_sides.sides):
            abouts = [both_sides.about[side.name] for side in both_sides.sides]
            yield from map(GateDecided, self._other.items(mine, *abouts))
        elif both_sides.compared:
            yield GateDecided(_item("code", Ruling.UNCLEAR, "neither side's code could be told"))
        for comparison in both_sides.cells:
            yield GateDecided(comparison_item(comparison, both_sides, self.there.name))


# --- rulings -------------------------------------------------------------------------------------


def held_against(mine: Sequence[CheckResult], theirs: Sequence[CheckResult]) -> Iterator[GateItem]:
    """The checks that ran on both sides and fail on one of them."""
    other = {check.code: check for check in theirs}
    for check in mine:
        before = other.get(check.code)
        if before is None or before.outcome is check.outcome:
            continue
        if (item := _changed(before, check)) is not None:
            yield item


def _changed(before: CheckResult, check: CheckResult) -> GateItem | None:
    name = f"{check.code} {check.name}"
    told = f"{before.outcome} there, {check.outcome} here"
    if check.outcome is Outcome.FAILED:
        known = f", accepted: {check.accepted}" if check.accepted else ""
        ruling = Ruling.FAILED if check.fails(strict=False) else Ruling.NOTED
        return _item(name, ruling, f"newly fails: {told}{known}")
    if before.outcome is Outcome.FAILED:
        fixed = check.outcome is Outcome.PASSED
        return _item(name, Ruling.NOTED, f"{'fixed' if fixed else 'no longer told'}: {told}")
    return None


def comparison_item(comparison: CellComparison, both_sides: SideComparison, other: str) -> GateItem:
    """The ruling on one cell."""
    name = comparison.cell.label
    if both_sides.sides[0].name in comparison.end:
        reason = f"cannot be measured here: {comparison.end[both_sides.sides[0].name]}"
        return _item(name, Ruling.FAILED, reason)
    if comparison.end:
        reason = f"cannot be measured on the other side: {comparison.end[other]}"
        # one new cell beside others is a change like any; where nothing at all was compared, no
        # gate is passed
        ruling = Ruling.NOTED if both_sides.compared else Ruling.UNCLEAR
        return _item(name, ruling, f"{reason}; nothing to compare with")
    if wrong := _wrong(comparison.told[both_sides.sides[0].name], comparison.told[other]):
        return _item(name, Ruling.FAILED, wrong)
    return _timed(comparison, both_sides)


def _timed(comparison: CellComparison, both_sides: SideComparison) -> GateItem:
    rulings = {
        PairsAnswer.SLOWER: Ruling.SLOWER,
        PairsAnswer.WITHIN: Ruling.PASSED,
        PairsAnswer.OPEN: Ruling.UNCLEAR,
    }
    found = {measure: over_pairs(values) for measure, values in comparison.ratios.items()}
    worst = max(found, key=lambda measure: found[measure].value)
    answer = both_sides.answer(comparison)
    shown = worst if answer is not PairsAnswer.WITHIN else Measure.WALL
    over = found[shown]
    said = "; ".join(f"{measure} {_said(one)}" for measure, one in found.items())
    return GateItem(
        Part.AGAINST,
        f"{shown} of {comparison.cell.label}",
        rulings[answer],
        f"{said}, over {over.pairs} pairs of processes{_numerics(comparison, both_sides)}",
        over.value,
        over.low,
        over.high,
        1 + both_sides.rules.allowed,
        "max",
        "x",
        tuple(comparison.ratios[shown]),
    )


def _said(over: RatioOverPairs) -> str:
    return f"{over.value:.3f} [{over.low:.3f}, {over.high:.3f}] times the other side's"


def _numerics(comparison: CellComparison, both_sides: SideComparison) -> str:
    """The errors of both against float64, where both were judged."""
    errors = [_error(comparison.told[side.name]) for side in both_sides.sides]
    if None in errors:
        return ""
    return f"; error against float64 {errors[0]:.2g} here, {errors[1]:.2g} there"


def _error(told: CellPrepared) -> float | None:
    return None if told.accuracy is None else told.accuracy.error


def _wrong(mine: CellPrepared, theirs: CellPrepared) -> str:
    """Why the numbers here are wrong where those of the other side are right."""
    first, second = mine.accuracy, theirs.accuracy
    if first is None or first.right or (second is not None and not second.right):
        return ""
    return f"its numbers are wrong here and right there: error {first.error:.2g} against float64"


def _item(name: str, ruling: Ruling, reason: str) -> GateItem:
    return GateItem(Part.AGAINST, name, ruling, reason)
