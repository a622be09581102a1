"""A case of each cause: made smaller, seen to fail twice, and stored, behind a verification."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rnncheck.cases.model import CaseError, Reduction, StoredCase, seen_in
from rnncheck.cases.reduce import Failed, Reducer, Smallest
from rnncheck.cases.rerun import OneCheck, asked_again
from rnncheck.cases.smaller import episodes_in
from rnncheck.cases.store import case_id, write_case
from rnncheck.cases.tensors import Packed
from rnncheck.checks.rule import Rule
from rnncheck.errors import first_line
from rnncheck.results.causes import judge_causes
from rnncheck.results.environment import current_environment
from rnncheck.results.events import (
    CausesFound,
    CheckFinished,
    Event,
    Notice,
    Reducing,
    StageFinished,
)
from rnncheck.results.model import Cause, CheckResult, Outcome, Stage
from rnncheck.spec.dump import plain_spec
from rnncheck.spec.model import Spec

MOST_CAUSES = 3  # of a run that have a case: chosen, what is mended before the next run


@dataclass(frozen=True)
class Keeping:
    """What is kept of a run of ``spec``, which was loaded with the ``given`` overrides, and how
    many ``seconds`` each case may take to become smaller."""

    spec: Spec
    rules: Sequence[Rule]
    given: tuple[str, ...] = ()
    thorough: bool = False
    strict: bool = False
    seconds: float = 10.0

    def events(self, verification: Iterator[Event]) -> Iterator[Event]:
        """The events of a verification, then what is stored, and its causes with their cases."""
        checks: dict[str, CheckResult] = {}
        causes: tuple[Cause, ...] = ()
        raised = set[Stage]()
        for event in verification:
            if isinstance(event, CheckFinished):
                checks[event.result.code] = event.result
            elif isinstance(event, StageFinished) and event.result.outcome is Outcome.ERROR:
                raised.add(event.result.stage)
            elif isinstance(event, CausesFound):
                causes = event.causes
            yield event
        causes = causes or judge_causes(checks.values(), strict=self.strict)
        known = {rule.code: rule for rule in self.rules}
        kept: list[Cause] = []
        for cause in causes[:MOST_CAUSES]:
            case = ""
            yield Reducing(f"making the smallest case of {cause.code}")
            try:
                case = self._kept(known[cause.code], checks[cause.code], frozenset(raised))
            except Exception as error:  # a case may cost no verdict, whatever is in its way
                yield Notice(f"no case of {cause.code} is stored: {first_line(error)}")
            kept.append(replace(cause, case=case))
        if any(one.case for one in kept):
            yield CausesFound((*kept, *causes[MOST_CAUSES:]))

    def _kept(self, rule: Rule, result: CheckResult, raised: frozenset[Stage]) -> str:
        """Store the smallest case of a failed ``result``; its id."""
        seen = Failed(seen_in(result).reason, raised)
        reducer = Reducer(self.spec, self.given, rule, seen, self.thorough, self.seconds)
        smallest = reducer.smallest()
        repeats = self._repeats(rule, smallest)
        packed = Packed()
        case = self._case(rule, smallest, packed, repeats=repeats)
        write_case(case, self.spec.folder, packed.write)
        return case.id

    def _repeats(self, rule: Rule, smallest: Smallest) -> bool:
        """Whether building it again gives the same to the bit. Raises CaseError where the check
        does not fail again."""
        how = OneCheck(self.thorough, episodes_in(smallest.smaller))
        again = asked_again(smallest.spec, rule, how)
        if again.reason == smallest.rerun.reason and again.inputs.same_as(smallest.rerun.inputs):
            return True
        how = replace(how, stored=smallest.rerun.inputs)
        if asked_again(smallest.spec, rule, how).reason != smallest.rerun.reason:
            raise CaseError("it did not fail again when the same was built once more")
        return False

    def _case(self, rule: Rule, smallest: Smallest, packed: Packed, *, repeats: bool) -> StoredCase:
        spec, rerun = smallest.spec, smallest.rerun
        if rerun.result is None:
            raise CaseError(rerun.problem)
        file = Path(self.spec.path).name
        texts = (*self.given, *smallest.smaller)
        return StoredCase(
            id=case_id(rule.code, file, self.spec.hash, *texts),
            code=rule.code,
            name=rule.name,
            stage=rule.stage,
            seen=seen_in(rerun.result),
            spec_file=file,
            spec=plain_spec(spec),
            spec_hash=self.spec.hash,
            given=self.given,
            smaller=smallest.smaller,
            seed=spec.seed,
            thorough=self.thorough,
            repeats=repeats,
            environment=current_environment(spec.device),
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            reduction=Reduction(
                rerun.extent, smallest.was, smallest.tries, smallest.seconds, smallest.ended
            ),
            collected=packed.batches(rerun.inputs.collected),
            trained=packed.batches(rerun.inputs.trained),
            weights=packed.weights(rerun.inputs.weights),
        )
