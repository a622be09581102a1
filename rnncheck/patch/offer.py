"""A patch for what failed in a run: tried in memory, cause by cause, until the whole run is
green."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rnncheck.checks.engine.session import verify_events
from rnncheck.checks.engine.verification import Verification
from rnncheck.checks.rule import Rule
from rnncheck.errors import UserError
from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.imports import imported_from
from rnncheck.patch.registry import fixes_for
from rnncheck.patch.texts import Texts
from rnncheck.results.causes import causes_of
from rnncheck.results.collect import RunCollector
from rnncheck.results.events import Event, PatchOffered, PatchWithheld, Repairing
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import CheckResult, Outcome, Run
from rnncheck.results.patch import Patch
from rnncheck.spec.load import spec_from_text
from rnncheck.spec.model import Spec

LEAST = 120.0  # seconds for all that is tried: chosen, some builds of a small pipeline
SHARE = 6.0  # times as long as the run itself took: chosen, a few whole runs and some short ones
MOST = 4  # causes that one patch mends: chosen, more is no patch but another pipeline


def with_patch(
    events: Iterable[Event],
    spec: Spec,
    rules: Sequence[Rule],
    overrides: Sequence[str] = (),
    *,
    strict: bool = False,
    thorough: bool = False,
) -> Iterator[Event]:
    """The events of a run of ``spec``, and then a patch of its files or why there is none."""
    collector, begin = RunCollector(), time.perf_counter()
    for event in events:
        collector(event)
        yield event
    took = time.perf_counter() - begin
    run = collector.finish(interrupted=False, seconds=took)
    search = Search(spec, rules, overrides, strict, thorough, time.perf_counter() + _limit(took))
    patch = yield from search.from_run(run, Made())
    yield PatchWithheld(search.because) if patch is None else PatchOffered(patch)


def _limit(took: float) -> float:
    return max(LEAST, SHARE * took)


@dataclass(frozen=True)
class Made:
    """What has been patched by now."""

    texts: Texts = field(default_factory=Texts)
    mended: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@dataclass
class Search:
    """Tries patches until ``until``; ``because`` says why none is offered."""

    spec: Spec
    rules: Sequence[Rule]
    overrides: Sequence[str]
    strict: bool
    thorough: bool
    until: float
    because: str = "no check failed"

    def from_run(self, run: Run, made: Made) -> Generator[Event, None, Patch | None]:
        """The patch that makes ``run``, which is one behind what is made, green."""
        causes = causes_of(run)
        if not causes or len(made.mended) >= MOST:
            return None
        checks = {check.code: check for check in run.checks}
        cause = next((one.code for one in causes if one.code not in made.mended), "")
        for fix, texts in self._ways(checks[cause], made) if cause else ():
            yield Repairing(f"trying a patch {fix.words}")
            if self._over() or not self._mends(cause, texts):
                continue
            more = Made(texts, (*made.mended, cause), (*made.words, fix.words))
            yield Repairing(f"asking every check of the pipeline {fix.words}")
            after = self._whole(texts)
            if after is None:
                continue
            if after.exit_code is ExitCode.VERIFIED and not causes_of(after):
                return Patch(texts.changes(self.spec.folder), more.mended, more.words)
            if (found := (yield from self.from_run(after, more))) is not None:
                return found
        self._withheld(cause, made)
        return None

    def _withheld(self, cause: str, made: Made) -> None:
        if made.mended:
            self.because = (
                f"a patch for {', '.join(made.mended)} leaves {cause or 'the same'} failing"
            )
        else:
            self.because = f"none is known for {cause} here that makes the whole run green"
        if self._over():
            self.because += "; the time for trying was over"

    def _over(self) -> bool:
        return time.perf_counter() > self.until

    def _ways(self, check: CheckResult, made: Made) -> Iterator[tuple[Fix, Texts]]:
        """Every way to change the files; one that cannot read them is none."""
        case = BrokenFiles(Path(self.spec.path).resolve(), made.texts, check)
        for fix in fixes_for(check.code):
            try:
                found = [*fix.ways(case)]
            except (OSError, UnicodeError, UserError, LookupError, TypeError, AttributeError):
                continue  # a spec of another form than the fix is for
            yield from ((fix, texts) for texts in found)

    def _mends(self, code: str, texts: Texts) -> bool:
        """Whether the check passes in the pipeline that is built from the patched texts."""
        (rule,) = [rule for rule in self.rules if rule.code == code]
        try:
            with (
                imported_from(texts.after),
                Verification(self._patched(texts), thorough=self.thorough) as verification,
            ):
                for _ in verification.build():
                    if self._over():
                        return False
                return verification.runs and verification.asked(rule).outcome is Outcome.PASSED
        except Exception:  # a factory or a worker may raise anything: then it is no patch
            return False

    def _whole(self, texts: Texts) -> Run | None:
        """The run of the patched pipeline; None where it does not come to its end."""
        collector = RunCollector()
        try:
            with imported_from(texts.after):
                for event in verify_events(
                    self._patched(texts), self.rules, strict=self.strict, thorough=self.thorough
                ):
                    collector(event)
                    if self._over():
                        return None
        except Exception:  # as above
            return None
        return collector.finish(interrupted=False, seconds=0.0)

    def _patched(self, texts: Texts) -> Spec:
        path = Path(self.spec.path).resolve()
        spec = spec_from_text(texts.read(path), self.spec.path, self.overrides)
        return _in_folder(spec, self.spec)


def _in_folder(spec: Spec, original: Spec) -> Spec:
    """The folder was fixed when the spec was loaded: the user's code may have changed the working
    folder since."""
    spec._folder = original.folder
    return spec
