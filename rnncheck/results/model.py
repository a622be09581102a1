"""What a run is, as data: outcomes, findings, check results, stage results, the run itself.

Plain dataclasses without torch, so that ``report`` and ``rule`` start fast. ``Run`` is what is
stored, and every report is made from it alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rnncheck.errors import FindingsError
from rnncheck.results.claims import Claim
from rnncheck.results.exhibits import Exhibits
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.gate import GateItem
from rnncheck.results.memory import MemoryResult
from rnncheck.results.recommendation import Recommendation
from rnncheck.results.scaling import Scaling

FORMAT = 2  # version of the stored result; raised when a field changes its meaning
READABLE = (1, FORMAT)  # 1 has no guarantees, and skipped and vacuous for what was not answered


class Outcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not-applicable"  # the fault is impossible here, or its stage is not there
    DEFERRED = "deferred"  # to a check that failed in this run
    NOT_LOOKED = "could-not-look"  # something raised, too little data, too slow, no difference
    ERROR = "error"  # the check, or the user's code in it, crashed
    SKIPPED = "skipped"  # in results of format 1 alone
    VACUOUS = "vacuous"  # in results of format 1 alone


class Severity(StrEnum):
    """How much a finding weighs; warnings fail only under ``--strict``."""

    ERROR = "error"
    WARNING = "warning"


class Verdict(StrEnum):
    """The run in one word."""

    VERIFIED = "verified"
    FAILED = "failed"
    SLOWER = "slower"
    NOT_SHOWN = "not-shown"
    NOTHING_VERIFIED = "nothing-verified"
    ERROR = "error"
    INTERRUPTED = "interrupted"


class Stage(StrEnum):
    """The parts of a pipeline, in the order in which they run."""

    ENV = "env"
    POLICY = "policy"
    CRITIC = "critic"
    COLLECT = "collect"
    REPLAY = "replay"
    ADVANTAGE = "advantage"
    LOSS = "loss"
    TRAIN = "train"


@dataclass(frozen=True)
class Source:
    """The line to change: in the spec or in the user's Python, with a few lines around it.

    ``frame`` holds ``(line number, text)`` pairs read when the finding was made, so that a stored
    result can be rendered on another machine.
    """

    path: str
    line: int = 0
    column: int = 0
    kind: str = "spec"  # "spec" or "python"
    name: str = ""  # the spec key ("env.transforms") or the Python object ("make_env")
    frame: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Where:
    """Where in the data the worst difference lies; indices count from 0."""

    batch: tuple[int, ...] = ()
    step: int | None = None
    feature: tuple[int, ...] = ()
    segment: int | None = None
    first_step: int | None = None  # the first step that diverges


@dataclass(frozen=True)
class Finding:
    """What a failed check saw.

    ``measured`` and ``bound`` are in the unit of ``quantity``; ``passing_bound`` is the smallest
    bound that would have passed (equal to ``measured`` where smaller is better). All three are None
    for findings of structure.
    """

    code: str
    stage: Stage
    message: str  # one sentence: what is wrong
    key: str = ""  # the tensordict key concerned, dotted
    quantity: str = ""  # what was measured, e.g. "max abs difference of next.h"
    measured: float | None = None
    on: str = ""  # on what: "3 segments of 2 rows, 64 steps, float32"
    bound: float | None = None
    bound_formula: str = ""
    passing_bound: float | None = None
    where: Where | None = None
    cause: str = ""
    fix: str = ""
    source: Source | None = None
    details: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckResult:
    """One check's outcome with what it found."""

    code: str
    name: str
    severity: Severity
    stage: Stage
    outcome: Outcome
    reason: str = ""  # why there is no answer; for passed: what was compared
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    accepted: str = ""  # why every finding of it is known and accepted, and until when
    compared: int = 0  # how many things it compared
    deferred_to: tuple[str, ...] = ()  # the failed checks that name the fault in its way

    def fails(self, *, strict: bool) -> bool:
        """Whether this result fails a run."""
        weighs = strict or self.severity is Severity.ERROR
        return self.outcome is Outcome.FAILED and weighs and not self.accepted


NOT_IN_SPEC = "not in the spec"  # the detail of a stage that was skipped for that reason
NOT_IN_SCRIPT = "not in the script"  # the same of a script that was watched
UNKNOWN_ACTOR = "who acts in it is not seen"  # of an env that a script steps itself
NOBODY_ACTED = "nobody was seen to act"  # why nothing of a script is judged
NOT_KEPT = "is not kept: "  # part of why a part of a saved run is not judged: when it was saved
NOT_MADE_AGAIN = "cannot be made again: "  # and when it was read


@dataclass(frozen=True)
class StageResult:
    """How building or running one stage of the pipeline went."""

    stage: Stage
    outcome: Outcome  # passed; not applicable, where the spec has none; could not look; or error
    detail: str = ""
    seconds: float = 0.0
    source: Source | None = None  # the user's line that raised


class Standing(StrEnum):
    """How a guarantee stands at the end of a run."""

    SHOWN = "shown"
    BROKEN = "broken"
    NOT_SHOWN = "not-shown"
    NOT_ASKED = "not-asked"


@dataclass(frozen=True)
class GuaranteeResult:
    """One of the sentences that the verdict consists of.

    ``because`` says what breaks it, why it is not shown or why it was not asked. ``rests_on`` are
    the checks that looked, ``compared`` how many things they compared together.
    """

    name: str
    sentence: str
    standing: Standing
    because: str = ""
    rests_on: tuple[str, ...] = ()
    compared: int = 0
    accepted: str = ""  # why it is accepted although it is not shown, and until when

    @property
    def lacking(self) -> bool:
        """Whether the run cannot be called verified because of it."""
        return self.standing is Standing.NOT_SHOWN and not self.accepted


class Basis(StrEnum):
    """How it is known that a failed check follows from another one."""

    TESTED = "tested"  # it passes once the cause is repaired
    ASSUMED = "assumed"  # a fault like this one makes it fail


@dataclass(frozen=True)
class Follower:
    """A failed check that tells of another check's fault."""

    code: str
    basis: Basis


@dataclass(frozen=True)
class Cause:
    """A failed check that no other one explains, and the failed ones that it explains.

    ``proved`` says what was changed in the live pipeline to make it pass; empty where nothing was
    tried or it did not help. ``case`` is the id under which its failing case is stored; empty where
    none is.
    """

    code: str
    followers: tuple[Follower, ...] = ()
    proved: str = ""
    case: str = ""


@dataclass(frozen=True)
class RuleInfo:
    """What a check is, in its own words: for reports that explain what they list."""

    code: str
    name: str
    severity: Severity
    stage: Stage
    family: str
    summary: str
    why: str = ""
    fix: str = ""
    holds: str = ""  # what is true where it passes


@dataclass(frozen=True)
class SpecRef:
    """Which spec a run was made from."""

    path: str
    name: str
    hash: str


@dataclass(frozen=True)
class Tool:
    """What made the result."""

    name: str
    version: str


@dataclass(frozen=True)
class Environment:
    """The machine and the libraries that a run saw."""

    python: str
    platform: str
    packages: dict[str, str]
    device: str
    threads: int
    cpu: str = ""
    gpu: str = ""  # the models that are there, on a run on CUDA


@dataclass(frozen=True, repr=False)
class Run:
    """One run, as stored. Every report is made from this alone."""

    tool: Tool
    command: str
    spec: SpecRef
    environment: Environment
    seed: int
    started: str  # ISO 8601, UTC
    seconds: float
    exit_code: ExitCode
    verdict: Verdict
    stages: tuple[StageResult, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    notices: tuple[str, ...] = ()
    cells: tuple[dict[str, Any], ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    scalings: tuple[Scaling, ...] = ()
    claims: tuple[Claim, ...] = ()
    gate: tuple[GateItem, ...] = ()
    memory: MemoryResult | None = None  # of `rnncheck memory` alone
    guarantees: tuple[GuaranteeResult, ...] = ()
    causes: tuple[Cause, ...] = ()  # none where nothing failed, and in older results
    rules: tuple[RuleInfo, ...] = ()  # of the checks that were asked
    strict: bool = False
    left_out: tuple[str, ...] = ()  # checks that ``--fast`` did not ask
    exhibits: Exhibits | None = None  # what its batches look like, where that was asked for
    format: int = FORMAT

    def __repr__(self) -> str:
        """One line: what it is, the verdict, the first cause with its place."""
        counted = [
            f"{self.count(one)} {one}"
            for one in (Outcome.FAILED, Outcome.PASSED)
            if self.count(one)
        ]
        codes = [one.code for one in self.causes]
        first = next((one for one in self.findings if one.code in codes[:1]), None)
        at = f" at {_place_of(first)}" if first is not None and first.source is not None else ""
        cause = f"cause {codes[0]}{at}" if codes else ""
        told = "; ".join(part for part in (cause, ", ".join(counted)) if part)
        line = f"<rnncheck {self.command} of {self.spec.name!r}: {self.verdict}; {told}>"
        return line.replace("\n", " ")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order of the checks."""
        return tuple(finding for check in self.checks for finding in check.findings)

    def count(self, outcome: Outcome) -> int:
        """How many checks ended with ``outcome``."""
        return sum(check.outcome is outcome for check in self.checks)

    def raise_for_findings(self) -> None:
        """Raise a FindingsError unless the pipeline was verified.

        It lists every finding of a failed check, a cause's with its fix; where no check failed, why
        nothing could be told.
        """
        if self.exit_code is not ExitCode.VERIFIED:
            raise FindingsError("\n".join(self._shortcomings()), self)

    def _shortcomings(self) -> list[str]:
        failed = [check for check in self.checks if check.fails(strict=self.strict)]
        roots = {one.code: cause.code for cause in self.causes for one in cause.followers}
        failed.sort(key=lambda check: check.code in roots)  # causes first
        lines = [
            line
            for check in failed
            for one in check.findings
            for line in _said(check, one, roots.get(check.code, ""))
        ]
        stages = [one for one in self.stages if one.outcome is Outcome.ERROR]
        lines += [f"the {one.stage} stage raised: {one.detail}" for one in stages]
        crashed = [check for check in self.checks if check.outcome is Outcome.ERROR]
        lines += [f"{check.code} {check.name}: {check.reason}" for check in crashed]
        open_ = [one for one in self.guarantees if one.lacking]
        lines += [f"{one.name} is not shown, because {one.because}" for one in open_]
        return [f"{self.spec.name}: {self.verdict}", *lines]


def _place_of(finding: Finding) -> str:
    """``train.yaml:18``; nothing without a line."""
    source = finding.source
    return "" if source is None else f"{source.path}:{source.line}" if source.line else source.path


def _said(check: CheckResult, finding: Finding, root: str) -> list[str]:
    fix = [f"  at: {_place_of(finding)}"] if finding.source is not None and not root else []
    fix += [f"  fix: {finding.fix}"] if finding.fix and not root else []
    fix += [f"  see {root}"] if root else []
    return [f"{check.code} {check.name}: {finding.message}", *fix]
