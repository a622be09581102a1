"""What every format says of causes: the first one in full, and of what follows only from what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rnncheck.report import text
from rnncheck.results.addresses import check_address
from rnncheck.results.causes import causes_of
from rnncheck.results.model import Basis, Cause, CheckResult, Finding, Run

_LED = (
    "cause",
    "fix",
    "proved",
    "follows",
    "see",
    "replay",
    "more",
)  # what is read first, below the line of code
_CONTRADICTING = ("cause", "fix")  # labels of a follower's facts: its own guess at the fault


@dataclass(frozen=True)
class ToldCause:
    """A cause with its check, and what is said of it; texts are clean, ``finding`` is its first."""

    check: CheckResult
    finding: Finding | None
    message: str
    fix: str
    at: str
    proved: str
    follows: str
    replay: str = ""

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The labelled lines below its message."""
        pairs = [
            ("at", self.at),
            ("fix", self.fix),
            ("proved", self.proved),
            ("follows", self.follows),
        ]
        return [(label, value) for label, value in pairs if value]


def told_causes(run: Run) -> list[ToldCause]:
    """The causes of what failed, what comes first in the pipeline first."""
    checks = {check.code: check for check in run.checks}
    return [_told(checks[one.code], one) for one in causes_of(run) if one.code in checks]


def _told(check: CheckResult, cause: Cause) -> ToldCause:
    finding = check.findings[0] if check.findings else None
    return ToldCause(
        check,
        finding,
        text.saw(check),
        text.clean(finding.fix) if finding else "",
        text.clean(text.source_place(finding.source)) if finding else "",
        _proved(cause),
        _follows(cause),
        f"rnncheck replay {text.clean(cause.case)}" if cause.case else "",
    )


def _proved(cause: Cause) -> str:
    """``with the primers appended, WR103, CL401 and CL406 pass``."""
    if not cause.proved:
        return ""
    tested = [one.code for one in cause.followers if one.basis is Basis.TESTED]
    names, verb = listed([cause.code, *tested]), "pass" if tested else "passes"
    return text.clean(f"{cause.proved}, {names} {verb}")


def _follows(cause: Cause) -> str:
    assumed = [one.code for one in cause.followers if one.basis is Basis.ASSUMED]
    return text.clean(f"probably {listed(assumed)}") if assumed else ""


def listed(words: Iterable[str]) -> str:
    """``a, b and c``."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def root_of(run: Run, check: CheckResult) -> str:
    """The code of the cause that this failed check follows from; empty where it follows from
    none."""
    return next((c.code for c in causes_of(run) for f in c.followers if f.code == check.code), "")


def _root_in_words(run: Run, check: CheckResult) -> str:
    words = {Basis.TESTED: "follows from", Basis.ASSUMED: "probably follows from"}
    found = [
        f"{words[one.basis]} {text.clean(cause.code)}"
        for cause in causes_of(run)
        for one in cause.followers
        if one.code == check.code
    ]
    return next(iter(found), "")


def findings_in_order(run: Run) -> Iterator[tuple[CheckResult, int, Finding]]:
    """Every finding with its check and its number there: causes first, then what follows from
    them, then what is accepted."""
    order = [one.code for one in causes_of(run)]
    order += [one.code for cause in causes_of(run) for one in cause.followers]
    places = {code: place for place, code in enumerate(order)}
    for check in sorted(run.checks, key=lambda check: places.get(check.code, len(places))):
        for number, finding in enumerate(check.findings, 1):
            yield check, number, finding


def facts_of(run: Run, check: CheckResult, finding: Finding) -> list[tuple[str, str]]:
    """The finding's labelled facts, what explains its check, and the address of its page where
    there is one."""
    address = check_address(check.code)
    told = [("more", text.explaining(run, check.code)), *([("page", address)] if address else [])]
    facts = _facts_of(run, check, finding)
    at = next((number for number, (label, _) in enumerate(facts) if label == "at"), len(facts))
    return [*facts[:at], *told, *facts[at:]]


def parted_facts(facts: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], ...]:
    """The line to change; what is read below its code; all else."""
    at = [pair for pair in facts if pair[0] == "at"]
    led = [pair for label in _LED for pair in facts if pair[0] == label]
    return at, led, [pair for pair in facts if pair[0] not in ("at", *_LED)]


def _facts_of(run: Run, check: CheckResult, finding: Finding) -> list[tuple[str, str]]:
    """A cause's own facts say also whether its fix is proved and what follows; a follower's guess
    at the fault is not among its own."""
    facts = text.facts(finding)
    if root := _root_in_words(run, check):
        kept = [pair for pair in facts if pair[0] not in _CONTRADICTING]
        return [*kept, ("see", root)]
    mine = next((one for one in told_causes(run) if one.check.code == check.code), None)
    if mine is None or finding is not mine.finding:
        return facts
    again = [("replay", mine.replay)] if mine.replay else []
    return [*facts, *(pair for pair in mine.facts if pair[0] in ("proved", "follows")), *again]


def row_title(run: Run, check: CheckResult) -> str:
    """A row's first words: of a check that passed what holds, of any other its name."""
    holds = {rule.code: rule.holds for rule in run.rules}.get(check.code, "")
    if holds and text.outcome_word(check) == "passed":
        return text.clean(f"{check.code} {holds}")
    return text.title(check)
