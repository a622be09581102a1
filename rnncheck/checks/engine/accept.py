"""Known findings, and guarantees that cannot be shown, that the spec accepts until a date: they
are told, and fail nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from rnncheck.checks.engine.own_checks import catalogue_of
from rnncheck.errors import Place, SpecError, did_you_mean
from rnncheck.results.events import CheckFinished, Event
from rnncheck.results.guarantees import names
from rnncheck.results.model import CheckResult, Finding, GuaranteeResult, Outcome, Source, Standing
from rnncheck.spec.model import Spec
from rnncheck.spec.settings import AcceptSpec


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

    Raises SpecError for a code that no check has and for a name that no guarantee has.
    """

    def __init__(self, spec: Spec, today: date | None = None) -> None:
        self._all = spec.verify.accept
        self._places = [spec.locate(("verify", "accept", i)) for i in range(len(self._all))]
        self._today = today or datetime.now(UTC).date()
        self._used: set[int] = set()
        self._ended: dict[str, str] = {}  # how each check and each guarantee ended
        known = [entry.code for entry in catalogue_of(spec).entries] if self._all else []
        for index, one in enumerate(self._all):
            _check_name(one, known, spec, index)

    def heard(self, event: Event) -> Event:
        """The event, where a check finished with the acceptance in its result."""
        if not isinstance(event, CheckFinished):
            return event
        return CheckFinished(self.applied(event.result))

    def applied(self, result: CheckResult) -> CheckResult:
        """``result`` with the reasons of the acceptances where they cover every finding."""
        self._ended[result.code] = _words(result.outcome)
        if result.outcome is not Outcome.FAILED:
            return result
        covering = [self._covering(finding) for finding in result.findings]
        if not covering or None in covering:
            return result
        return replace(result, accepted=_said(one for one in covering if one))

    def standing(self, found: GuaranteeResult) -> GuaranteeResult:
        """``found`` with the reasons of the acceptances, where it is not shown."""
        self._ended[found.name] = f"is {found.standing}".replace("-", " ")
        if found.standing is not Standing.NOT_SHOWN:
            return found
        naming = [i for i, one in enumerate(self._all) if one.guarantee == found.name]
        self._used.update(naming)
        valid = [self._all[i] for i in naming if not self._expired(self._all[i])]
        return replace(found, accepted=_said(valid[:1]))

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
            name = one.code or one.guarantee
            if name in self._ended and (problem := self._problem(index, one)):
                where = f" where {one.where!r}" if one.where else ""
                yield Leftover(f"acceptance of {name}{where}", problem, place)

    def _problem(self, index: int, one: AcceptSpec) -> str:
        used = index in self._used
        if self._expired(one):
            again = "its finding counts again" if one.code else "it counts again"
            rest = again if used else "it matches nothing: remove it"
            return f"expired on {one.until}, {rest} ({one.reason})"
        if used:
            return ""
        if one.guarantee:
            return f"is not needed (the guarantee {self._ended[one.guarantee]}): remove it"
        return f"matches no finding (the check {self._ended[one.code]}): remove it"


def _words(outcome: Outcome) -> str:
    return "failed elsewhere" if outcome is Outcome.FAILED else f"ended as {outcome}"


def _said(accepting: Iterable[AcceptSpec]) -> str:
    return "; ".join(dict.fromkeys(f"{one.reason} (until {one.until})" for one in accepting))


def _matches(one: AcceptSpec, finding: Finding) -> bool:
    source = finding.source or Source("")
    fields = (finding.key, str(finding.stage), source.name, source.path, finding.message)
    return one.code == finding.code and any(one.where in field for field in fields)


def _check_name(one: AcceptSpec, codes: list[str], spec: Spec, index: int) -> None:
    """That it names either a check or a guarantee that there is."""
    if bool(one.code) is bool(one.guarantee):
        raise SpecError(
            "verify.accept: this names " + ("two things" if one.code else "nothing"),
            place=spec.locate(("verify", "accept", index)),
            accepted="either `code` (of a check) or `guarantee`",
        )
    if one.code and one.code not in codes:
        raise SpecError(
            f"verify.accept: no check has the code {one.code!r}",
            place=spec.locate(("verify", "accept", index, "code")),
            hint=did_you_mean(one.code, codes) or "`rnncheck rule` lists them all",
        )
    known = names()
    if one.guarantee and one.guarantee not in known:
        raise SpecError(
            f"verify.accept: no guarantee is called {one.guarantee!r}",
            place=spec.locate(("verify", "accept", index, "guarantee")),
            accepted=", ".join(known),
            hint=did_you_mean(one.guarantee, known),
        )
