"""Proving a fix: the cause is repaired while the pipeline is built again, and what seemed to follow
from it is asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rnncheck.checks.engine.repairs.registry import repairs_for
from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.checks.engine.verification import Verification
from rnncheck.checks.rule import Rule
from rnncheck.pipeline.plant.hooks import Plant
from rnncheck.results.causes import judge_causes, settle, weighed
from rnncheck.results.events import CausesFound, Event, Repairing
from rnncheck.results.model import Cause, CheckResult, Outcome
from rnncheck.spec.model import Spec

LEAST = 30.0  # seconds for all repairs of a run that took less: chosen, two builds of a small one


@dataclass
class Proof:
    """Repairs the causes of what failed in a run of ``spec``, one by one, within as many seconds as
    the run took, or ``least``."""

    spec: Spec
    rules: Sequence[Rule]
    checks: Sequence[CheckResult]
    strict: bool = False
    least: float = LEAST
    build: Callable[[Spec, Plant], Verification] = lambda spec, plant: Verification(
        spec, plant=plant
    )

    def events(self, took: float) -> Iterator[Event]:
        """What is tried, then the causes; nothing where nothing failed."""
        causes = judge_causes(self.checks, strict=self.strict)
        weighs = weighed(self.checks, strict=self.strict)
        until = time.perf_counter() + max(self.least, took)
        for code in [one.code for one in causes]:
            cause = next((one for one in causes if one.code == code), None)
            if cause is None:
                continue
            for repair in repairs_for(code):
                yield Repairing(f"trying {code} {repair.words}")
                after = self._after(cause, repair, until)
                if after.get(code) is Outcome.PASSED:
                    causes = settle(causes, cause, repair.words, after, weighs)
                    break
        if causes:
            yield CausesFound(causes)

    def _after(self, cause: Cause, repair: Repair, until: float) -> Mapping[str, Outcome]:
        """How the cause and its followers end once it is repaired; those that no time is left for
        are not there.

        Whatever goes wrong on the way proves nothing, and is no finding.
        """
        codes = [cause.code, *(one.code for one in cause.followers)]
        known = {rule.code: rule for rule in self.rules}
        ended = dict[str, Outcome]()
        try:
            with self.build(self.spec, repair.plant) as verification:
                for _ in verification.build():
                    if time.perf_counter() > until:
                        return ended
                for code in codes if verification.runs else ():
                    if time.perf_counter() > until:
                        break
                    ended[code] = verification.asked(known[code]).outcome
        except Exception:  # a plant, a factory or a worker may raise anything
            return ended
        return ended
