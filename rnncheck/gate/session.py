"""A whole gate as one stream of events: the checks, the sweep of its cells, the budgets, the
baseline, the other side."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rnncheck.bench.run import Sweep
from rnncheck.checks.engine.accept import Acceptances
from rnncheck.checks.engine.session import Illustrator, run_started, verify_events
from rnncheck.checks.rule import Rule
from rnncheck.errors import UserError
from rnncheck.gate.baseline import Baseline, Present, compared, unmeasured
from rnncheck.gate.budgets import Budget, budget_item, budgets_of
from rnncheck.gate.cells import asked_cells, unique, with_reference
from rnncheck.gate.remembered import memory_budgets, memory_items, studied
from rnncheck.results.cells import Cell, CellResult, Status
from rnncheck.results.environment import current_environment
from rnncheck.results.events import (
    CellFinished,
    CheckFinished,
    Event,
    GateDecided,
    GateProgress,
    GuaranteeJudged,
    Notice,
)
from rnncheck.results.families import prefix_of
from rnncheck.results.gate import GateItem, Part, Ruling
from rnncheck.results.model import CheckResult, GuaranteeResult
from rnncheck.spec.model import Spec

if TYPE_CHECKING:
    from rnncheck.gate.against import Against


@dataclass(frozen=True)
class GateRequest:
    """What a gate is asked for. ``rules`` is None where nothing shall be verified.

    ``left_out`` are codes that the spec asks for and the command line left out. ``overrides`` are
    the ``--set`` texts.
    """

    rules: Sequence[Rule] | None
    left_out: Sequence[str] = ()
    overrides: Sequence[str] = ()
    strict: bool = False
    thorough: bool = False
    baseline: Baseline | None = None
    update: bool = (
        False  # a baseline is written afterwards: what changed is told, and fails nothing
    )
    python: str | None = None  # the other side's interpreter
    ref: str | None = None  # or its revision
    allowed: float = 0.03
    illustrate: Illustrator | None = None  # collects what the report draws

    @property
    def against(self) -> bool:
        """Whether there is another side."""
        return self.python is not None or self.ref is not None

    @property
    def other(self) -> str:
        """What the other side is called."""
        return self.python or self.ref or ""

    @property
    def keeps(self) -> bool:
        """Whether a baseline is read or written."""
        return self.baseline is not None or self.update


@dataclass
class Gate:
    """One gate of one spec. Raises SpecError for a budget, cell or acceptance that cannot be."""

    spec: Spec
    asked: GateRequest
    _checks: list[CheckResult] = field(default_factory=list)
    _guarantees: list[GuaranteeResult] = field(default_factory=list)
    _rows: dict[str, CellResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._accepting = Acceptances(self.spec)
        self._budgets: list[Budget] = budgets_of(self.spec)
        self._limits = memory_budgets(self.spec)
        mine = asked_cells(self.spec)
        self._compared = unique([*mine, *(budget.cell for budget in self._budgets)])

    def events(self) -> Generator[Event, None, None]:
        """Everything that happens. Raises UserError where the spec cannot be built. Closing it ends
        all processes."""
        with ExitStack() as scope:
            verification = scope.enter_context(closing(self._verification()))
            yield next(verification)
            if self.asked.against:
                yield GateProgress(f"making ready the other side: {self.asked.other}")
            against = self._open(scope)
            yield from self._kept(verification)
            if against is not None:  # before anything is timed: its checks are a load
                yield from against.checked(self._checks, self._guarantees)
            yield from map(Notice, self._not_run())
            yield from self._kept(self._sweep())
            yield from map(GateDecided, self._decided())
            yield from self._remembered()
            if against is not None:
                yield from against.speed(self._compared)
            yield from map(GateDecided, self._left_over())

    def _verification(self) -> Generator[Event, None, None]:
        asked = self.asked
        if asked.rules is None:
            yield run_started(self.spec, (), "gate", strict=asked.strict)
            return
        yield from verify_events(
            self.spec,
            asked.rules,
            command="gate",
            thorough=asked.thorough,
            strict=asked.strict,
            accepting=self._accepting,
            illustrate=asked.illustrate,
        )

    def _open(self, scope: ExitStack) -> Against | None:
        """The other side, its own verification begun."""
        asked = self.asked
        if not asked.against:
            return None
        from rnncheck.gate.against import open_against

        against = scope.enter_context(
            open_against(self.spec, asked.python, asked.ref, asked.overrides, asked.allowed)
        )
        if asked.rules:
            codes = [rule.code for rule in asked.rules]
            against.begin(codes, thorough=asked.thorough)
        return against

    def _kept(self, events: Iterator[Event]) -> Iterator[Event]:
        """The events, with what they bring remembered."""
        for event in events:
            if isinstance(event, CheckFinished):
                self._checks.append(event.result)
            elif isinstance(event, GuaranteeJudged):
                self._guarantees.append(event.result)
            elif isinstance(event, CellFinished):
                self._rows[event.result.cell.key] = event.result
            yield event

    @property
    def _asked_checks(self) -> list[CheckResult] | None:
        return None if self.asked.rules is None else self._checks

    def _not_run(self) -> Iterator[str]:
        """What this gate does not look at, in sentences."""
        if self.asked.rules is None:
            yield "not run: the checks (--no-verify)"
        elif left := self.asked.left_out:
            yield f"not run, by the command line: {_families(left, self.asked.rules)}"
        if not (self._budgets or self.asked.keeps or self.asked.against):
            yield (
                "no speed was measured: the spec has no gate.budgets of speed, "
                "and there is no --baseline and no --against"
            )

    # --- cells -----------------------------------------------------------------------------------

    def cells(self) -> list[Cell]:
        """What the sweep measures: the budgets' cells, and where there is a baseline the gate's own
        with their references."""
        needed = [cell for budget in self._budgets for cell in budget.cells]
        if not self.asked.keeps:
            return unique(needed)
        return with_reference(unique([*self._compared, *needed]), self.spec)

    def _sweep(self) -> Iterator[Event]:
        cells = self.cells()
        if not cells:
            return
        spec = self.spec
        sweep = Sweep(spec, cells, None, self.asked.overrides, seconds=spec.gate.budget)
        try:
            with closing(sweep.measured(cells)) as events:
                yield from events
        except UserError as error:
            if self.asked.rules is None:
                raise
            for cell in cells:  # what was verified is not lost with it
                if cell.key not in self._rows:
                    yield CellFinished(CellResult(cell, Status.FAILED, error.message))

    def _remembered(self) -> Iterator[Event]:
        """What the policy remembers, where the spec has a budget for it."""
        if not self._limits:
            return
        found = yield from studied(self.spec)
        yield from map(GateDecided, memory_items(self._limits, found))

    # --- what is decided -------------------------------------------------------------------------

    def _decided(self) -> Iterator[GateItem]:
        for budget in self._budgets:
            yield budget_item(budget, self._rows)
        if self.asked.keeps:
            yield from unmeasured(self._compared, self._rows)
        if self.asked.baseline is not None:
            yield from map(self._noted, self._changes(self.asked.baseline))
        elif self.asked.update:
            yield GateItem(
                Part.BASELINE, "baseline", Ruling.NOTED, "there was none: all of it is new"
            )

    def _changes(self, baseline: Baseline) -> Iterator[GateItem]:
        now = Present(
            checks=self._asked_checks,
            guarantees=self._guarantees,
            left_out=self.asked.left_out,
            cells=self._compared,
            rows=self._rows,
            environment=current_environment(self.spec.device),
            spec_hash=self.spec.hash,
        )
        return compared(baseline, now, self.asked.allowed)

    def _noted(self, item: GateItem) -> GateItem:
        """While the baseline is written anew, a change is told and fails nothing."""
        if not self.asked.update or item.ruling is Ruling.PASSED:
            return item
        return replace(item, ruling=Ruling.NOTED)

    def _left_over(self) -> Iterator[GateItem]:
        for left in self._accepting.leftovers():
            place = left.place
            yield GateItem(
                Part.ACCEPTANCE,
                left.name,
                Ruling.NOTED,
                left.problem,
                path=place.path,
                line=place.line,
                column=place.column,
            )


def _families(left: Sequence[str], run: Sequence[Rule]) -> str:
    """The codes; a family of which nothing runs by its letters alone."""
    kept = {prefix_of(rule.code) for rule in run}
    named = (code if prefix_of(code) in kept else prefix_of(code) for code in left)
    return ", ".join(dict.fromkeys(named))
