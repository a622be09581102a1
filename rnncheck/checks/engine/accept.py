"""Known findings that the spec accepts until a date: they are told, and fail nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from rnncheck.checks.engine.own_checks import catalogue_of
from rnncheck.errors import Place, SpecError, did_you_mean
from rnncheck.results.events import CheckFinished, Event
from rnncheck.results.model import CheckResult, Finding, Outcome, Source
from rnncheck.spec.model import AcceptSpec, Spec


@dataclass(frozen=True)
class Leftover:
    """An acceptance that has expired or that matches nothing: which, what is wrong, and its place
    in the spec."""

    name: str
    problem: str
    place: Place


class Acceptances:
    """The acceptances of one run: applied to its results as they come, then asked what is left of
    them.

    Raises SpecError for a code that no check has.
    """

    def __init__(self, spec: Spec, today: date | None = None) -> None:
        self._all = spec.verify.accept
        self._places = [spec.locate(("verify", "accept", i)) for i in range(len(self._all))]
        self._today = today or datetime.now(UTC).date()
        self._used: set[int] = set()
        self._outcomes: dict[str, Outcome] = {}
        known = [entry.code for entry in catalogue_of(spec).entries] if self._all else []
        for index, one in enumerate(self._all):
            _check_code(one.code, known, spec.locate(("verify", "accept", index, "code")))

    def heard(self, event: Event) -> Event:
        """The event, where a check finished with the acceptance in its result."""
        if not isinstance(event, CheckFinished):
            return event
        return CheckFinished(self.applied(event.result))

    def applied(self, result: CheckResult) -> CheckResult:
        """``result`` with the reasons of the acceptances where they cover every finding."""
        self._outcomes[result.code] = result.outcome
        if result.outcome is not Outcome.FAILED:
            return result
        covering = [self._covering(finding) for finding in result.findings]
        if not covering or None in covering:
            return result
        said = dict.fromkeys(f"{one.reason} (until {one.until})" for one in covering if one)
        return replace(result, accepted="; ".join(said))

    def _covering(self, finding: Finding) -> AcceptSpec | None:
        """The first acceptance that covers it today; all that match are used, expired ones too."""
        matching = [i for i, one in enumerate(self._all) if _matches(one, finding)]
        self._used.update(matching)
        return next((self._all[i] for i in matching if not self._expired(self._all[i])), None)

    def _expired(self, one: AcceptSpec) -> bool:
        return one.until < self._today

    def leftovers(self) -> Iterator[Leftover]:
        """Those that have expired or matched nothing, of the checks that this run asked."""
        for index, (one, place) in enumerate(zip(self._all, self._places, strict=True)):
            if one.code in self._outcomes and (problem := self._problem(index, one)):
                where = f" where {one.where!r}" if one.where else ""
                yield Leftover(f"acceptance of {one.code}{where}", problem, place)

    def _problem(self, index: int, one: AcceptSpec) -> str:
        used = index in self._used
        if self._expired(one):
            rest = "its finding counts again" if used else "it matches nothing: remove it"
            return f"expired on {one.until}, {rest} ({one.reason})"
        outcome = self._outcomes[one.code]
        return "" if used else f"matches no finding (the check {_ended(outcome)}): remove it"


def _ended(outcome: Outcome) -> str:
    return "failed elsewhere" if outcome is Outcome.FAILED else f"ended as {outcome}"


def _matches(one: AcceptSpec, finding: Finding) -> bool:
    source = finding.source or Source("")
    fields = (finding.key, str(finding.stage), source.name, source.path, finding.message)
    return one.code == finding.code and any(one.where in field for field in fields)


def _check_code(code: str, known: list[str], place: Place) -> None:
    if code not in known:
        raise SpecError(
            f"verify.accept: no check has the code {code!r}",
            place=place,
            hint=did_you_mean(code, known) or "`rnncheck rule` lists them all",
        )
