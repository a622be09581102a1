"""The smallest pipeline in which a check still fails for the same reason.

A smaller pipeline is the user's spec with overrides, as ``--set`` has them: everything small at
once, then all but one thing, then one thing after the other. Each is built and asked. The tries are
in a fixed order and their number is bounded, so that the same seed gives the same case wherever the
seconds suffice.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from rnncheck.cases.model import CaseError
from rnncheck.cases.rerun import OneCheck, Rerun, asked_again
from rnncheck.cases.smaller import OFTEN_NEEDED, episodes_in, overrides_in, steps_of
from rnncheck.checks.rule import Rule
from rnncheck.errors import UserError
from rnncheck.results.model import Stage
from rnncheck.spec.load import load_spec
from rnncheck.spec.model import Spec

MOST_TRIES = 32  # chosen: all small numbers at once, then each by itself in two sizes


@dataclass(frozen=True)
class Smallest:
    """What the reduction came to: the spec with the overrides ``smaller``, and what it gave."""

    spec: Spec
    rerun: Rerun
    smaller: tuple[str, ...] = ()
    was: tuple[str, ...] = ()  # the values that the overrides replace
    tries: int = 0
    seconds: float = 0.0
    ended: str = ""


@dataclass(frozen=True)
class Failed:
    """For which reason a check failed, and which stages raised meanwhile."""

    reason: str
    raised: frozenset[Stage] = frozenset()

    def again(self, rerun: Rerun) -> bool:
        """Whether it failed so again, and no other stage raised."""
        return rerun.reason == self.reason and rerun.raised <= self.raised


class Reducer:
    """Makes the pipeline of ``spec`` smaller while ``rule`` fails as it was ``seen`` to."""

    def __init__(
        self,
        spec: Spec,
        given: tuple[str, ...],
        rule: Rule,
        seen: Failed,
        thorough: bool,
        seconds: float,
    ) -> None:
        self._spec, self._given, self._rule, self._seen = spec, given, rule, seen
        self._thorough, self._seconds = thorough, seconds
        self._begin = time.perf_counter()
        self._tries = 0
        self._best: tuple[Spec, Rerun] | None = None
        self._taken: dict[str, str] = {}  # override -> what it replaces

    def smallest(self) -> Smallest:
        """Reduce. Raises CaseError where the check does not even fail in what was given."""
        ended = "nothing smaller fails" if self._reduce() else ""
        if not ended:
            spent = self._left() <= 0
            ended = f"{self._seconds:g} s were over" if spent else f"{MOST_TRIES} tries were over"
        spec, rerun = self._best or self._whole()
        took = time.perf_counter() - self._begin
        smaller, was = tuple(self._taken), tuple(self._taken.values())
        return Smallest(spec, rerun, smaller, was, self._tries, took, ended)

    def _reduce(self) -> bool:
        """Whether every step was tried."""
        steps = steps_of(self._spec, self._rule.stage)
        if self._accepts([step.at_level(0) for step in steps]):
            return True
        for kept in OFTEN_NEEDED:
            if self._accepts([step.at_level(0) for step in steps if not step.changes(kept)]):
                break
        else:
            self._accepts([step.at_level(1) for step in steps])
        for step in steps:
            for choice in step.choices:
                if self._over():
                    return False
                if choice.keys() <= self._taken.keys() or self._accepts([choice]):
                    break
        return True

    def _over(self) -> bool:
        return self._tries >= MOST_TRIES or self._left() <= 0

    def _left(self) -> float:
        return self._seconds - (time.perf_counter() - self._begin)

    def _accepts(self, choices: list[dict[str, str]]) -> bool:
        """Whether the check still fails with these overrides as well; then they are taken."""
        more = {text: was for choice in choices for text, was in choice.items()}
        if not more or self._over():
            return False
        texts = _merged(self._taken, more)
        self._tries += 1
        try:
            spec = self._loaded(tuple(texts))
        except UserError:
            return False
        how = OneCheck(self._thorough, episodes_in(texts), seconds=self._left())
        rerun = asked_again(spec, self._rule, how)
        if not self._seen.again(rerun):
            return False
        self._best, self._taken = (spec, rerun), texts
        return True

    def _whole(self) -> tuple[Spec, Rerun]:
        rerun = asked_again(self._spec, self._rule, OneCheck(self._thorough))
        if not self._seen.again(rerun):
            raise CaseError("it did not fail again when the pipeline was built once more")
        return self._spec, rerun

    def _loaded(self, more: tuple[str, ...]) -> Spec:
        file = self._spec.folder / Path(self._spec.path).name
        return load_spec(file, [*self._given, *overrides_in(more)])


def _merged(taken: dict[str, str], more: dict[str, str]) -> dict[str, str]:
    """Both; what changes the same key again takes the place of what was taken."""
    keys = {text.partition("=")[0] for text in more}
    kept = {text: was for text, was in taken.items() if text.partition("=")[0] not in keys}
    before = {text.partition("=")[0]: was for text, was in taken.items()}
    return kept | {text: before.get(text.partition("=")[0], was) for text, was in more.items()}
