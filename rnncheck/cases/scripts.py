"""A case of each cause of a watched script: how it was run, and what was seen of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from rnncheck.cases.behind import Behind, now
from rnncheck.cases.model import Extent, Reduction, StoredCase, StoredScript, seen_in
from rnncheck.cases.rerun import Rerun
from rnncheck.cases.script_again import judged_again
from rnncheck.cases.store import SEEN_FILE, case_id, write_case
from rnncheck.cases.tensors import MOST_TENSORS
from rnncheck.checks.rule import Rule
from rnncheck.errors import first_line
from rnncheck.results.environment import current_environment
from rnncheck.results.events import Event
from rnncheck.results.model import CheckResult, Stage, StageResult
from rnncheck.spec.model import Spec
from rnncheck.watching.events import RunLimits
from rnncheck.watching.saving.import_paths import Home, home_of
from rnncheck.watching.saving.keeping import RunKeeping
from rnncheck.watching.script import Script
from rnncheck.watching.seen import Sightings


@dataclass(frozen=True)
class ScriptKeeping:
    """What is kept of a watched ``script``, of which ``rules`` are asked.

    It is made before the script runs, which may change the working ``folder``.
    """

    script: Script
    asked: Spec
    rules: Sequence[Rule]
    limits: RunLimits
    thorough: bool = False
    strict: bool = False
    folder: Path = field(default_factory=Path.cwd)

    @property
    def _home(self) -> Path:
        """Where the script lies, and its cases."""
        return self.folder.joinpath(self.asked.path).parent

    def events(
        self, seen: Sightings, train: StageResult, judged: Iterator[Event]
    ) -> Iterator[Event]:
        """The events of the checks, then what is stored."""
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / SEEN_FILE

            @cache
            def unkept() -> str:
                return self._written(seen, train, file)

            def keep(rule: Rule, result: CheckResult, _: frozenset[Stage]) -> str:
                return self._stored(self._case(rule, result, unkept()), file)

            behind = Behind(self.rules, keep, self.strict, "storing the case of")
            yield from behind.events(judged)

    def _written(self, seen: Sightings, train: StageResult, file: Path) -> str:
        """Keep what was seen in ``file``; the reason where it cannot be."""
        try:
            keeping = RunKeeping(seen, self._imported())
            keeping.write(file, self.asked, train, beside=self._home)
        except Exception as error:  # an object of the user's may raise anything
            return first_line(error)
        size = file.stat().st_size
        too_much = f"it takes {size // 2**20} MiB, more than {MOST_TENSORS // 2**20}"
        return too_much if size > MOST_TENSORS else ""

    def _imported(self) -> Home:
        if self.script.module:
            return replace(home_of(self.script.name, module=True), folder=self.folder)
        return home_of(str(self.folder / self.script.name), module=False)

    def _case(self, rule: Rule, result: CheckResult, unkept: str) -> StoredCase:
        script = self._told(unkept)
        return StoredCase(
            id=case_id(rule.code, script.name, self.asked.hash),
            code=rule.code,
            name=rule.name,
            stage=rule.stage,
            seen=seen_in(result),
            spec_file=script.name,
            spec={},
            spec_hash=self.asked.hash,
            given=(),
            smaller=(),
            seed=self.asked.seed,
            thorough=self.thorough,
            repeats=True,
            environment=current_environment(self.asked.device),
            created=now(),
            reduction=Reduction(Extent()),
            script=script,
        )

    def _told(self, unkept: str) -> StoredScript:
        script, limits = self.script, self.limits
        return StoredScript(
            name=script.name if script.module else Path(script.name).name,
            module=script.module,
            arguments=script.arguments,
            folder=os.path.relpath(self.folder, self._home),
            updates=limits.updates,
            seconds=limits.seconds,
            backends=self.asked.verify.backends,
            unkept=unkept,
        )

    def _stored(self, case: StoredCase, file: Path) -> str:
        """Store the case, with what was seen where the check says the same of it; its id."""
        script = case.script or self._told("")
        if not script.unkept:
            with chdir(self.folder):
                again = judged_again(case, script, file, self._home)
            script = replace(script, unkept=_difference(again, case.seen.reason))
        case = replace(case, script=script)

        def write_seen(at: Path) -> None:
            if not script.unkept:
                shutil.copyfile(file, at / SEEN_FILE)

        write_case(case, self._home, write_seen)
        return case.id


def _difference(again: Rerun, reason: str) -> str:
    if again.reason == reason:
        return ""
    said = again.problem or (again.result.reason if again.result is not None else "")
    return f"judged again it does not show the same{f': {said}' if said else ''}"
