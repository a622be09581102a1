"""A case of each cause of a spec: made smaller, seen to fail twice, and stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rnncheck.cases.behind import Behind, now
from rnncheck.cases.model import CaseError, Reduction, StoredCase, seen_in
from rnncheck.cases.reduce import Failed, Reducer, Smallest
from rnncheck.cases.rerun import OneCheck, Rerun, asked_again, repeats
from rnncheck.cases.smaller import episodes_in
from rnncheck.cases.store import TENSOR_FILE, case_id, write_case
from rnncheck.cases.tensors import Inputs, Packed
from rnncheck.checks.rule import Rule
from rnncheck.results.environment import current_environment
from rnncheck.results.events import Event
from rnncheck.results.model import CheckResult, Stage
from rnncheck.spec.dump import plain_spec
from rnncheck.spec.model import Spec


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

    def events(self, run: Iterator[Event]) -> Iterator[Event]:
        """The events of a verification or a gate, then what is stored."""
        yield from Behind(self.rules, self._kept, self.strict).events(run)

    def _kept(self, rule: Rule, result: CheckResult, raised: frozenset[Stage]) -> str:
        """Store the smallest case of a failed ``result``; its id."""
        seen = Failed(seen_in(result).reason, raised)
        reducer = Reducer(self.spec, self.given, rule, seen, self.thorough, self.seconds)
        smallest = reducer.smallest()
        packed, same = Packed(), self._repeats(rule, smallest)
        case = self._case(rule, smallest, packed, repeats=same)
        write_case(case, self.spec.folder, lambda at: packed.write(at / TENSOR_FILE))
        return case.id

    def _repeats(self, rule: Rule, smallest: Smallest) -> bool:
        episodes = episodes_in(smallest.smaller)

        def ask(inputs: Inputs | None) -> Rerun:
            how = OneCheck(self.thorough, episodes, inputs)
            return asked_again(smallest.spec, rule, how)

        return repeats(ask, smallest.rerun)

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
            created=now(),
            reduction=Reduction(
                rerun.extent, smallest.was, smallest.tries, smallest.seconds, smallest.ended
            ),
            collected=packed.batches(rerun.inputs.collected),
            trained=packed.batches(rerun.inputs.trained),
            weights=packed.weights(rerun.inputs.weights),
        )
