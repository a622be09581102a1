"""One check of a script: of what was kept of it, and of the script run once more."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import chdir
from pathlib import Path

from rnncheck.cases.model import CaseError, StoredCase, StoredScript
from rnncheck.cases.rerun import Rerun, importing, problem_of
from rnncheck.cases.store import SEEN_FILE
from rnncheck.checks.engine.select import select_rules
from rnncheck.results.events import CheckFinished, Event, StageFinished
from rnncheck.results.model import Outcome
from rnncheck.spec.settings import VerifySpec
from rnncheck.spec.watched import unseen
from rnncheck.watching.events import RunLimits, watched_events
from rnncheck.watching.saving.again import saved_events, saved_spec
from rnncheck.watching.script import Script

_ANSWERS = (Outcome.FAILED, Outcome.PASSED)


def script_again(
    case: StoredCase, script: StoredScript, folder: Path, home: Path, *, stored: bool
) -> tuple[Rerun, str]:
    """Run the script in ``home`` as it is now, or judge what is stored of it in ``folder``; with
    what was run, in words. Raises CaseError where neither can be."""
    missing = "" if stored else _missing(script, home)
    if not (stored or missing):
        return _run_again(case, script, home), f"{script.name} as it is now"
    if script.unkept:
        said = f"what was seen of {script.name} is not stored: {script.unkept}"
        raise CaseError("; ".join(filter(None, [missing, said])))
    ran = f"what was seen of {script.name} then{f': {missing}' if missing else ''}"
    return judged_again(case, script, folder / SEEN_FILE, home), ran


def judged_again(case: StoredCase, script: StoredScript, file: Path, home: Path) -> Rerun:
    """Ask the check of a saved run, whose script lies in ``home``."""
    with importing(home):
        try:
            settings = VerifySpec(backends=script.backends)
            asked, saved, data = saved_spec(file, case.seed, settings)
            rules = select_rules(asked, [case.code])
            events = saved_events(
                file, asked, (saved, data), rules, thorough=case.thorough, beside=home
            )
            return _heard(events, case.code)
        except Exception as error:  # an import, a class or a copy may raise anything
            return Rerun(problem=problem_of(error))


def _missing(script: StoredScript, home: Path) -> str:
    """Why the script cannot be run; a case from somebody else runs nothing outside its folder."""
    if not script.module:
        return "" if (home / Path(script.name).name).is_file() else f"{script.name} is gone"
    parts = script.name.split(".")
    path = home.joinpath(*parts)
    there = path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
    found = there and all(part.isidentifier() for part in parts)
    return "" if found else f"there is no module {script.name} in {str(home)!r}"


def _run_again(case: StoredCase, script: StoredScript, home: Path) -> Rerun:
    """Under the watch, as the case says that it was run."""
    work = (home / script.folder).resolve()
    if not work.is_dir():
        raise CaseError(f"the folder that it was run in is gone: {str(work)!r}")
    name = script.name if script.module else os.path.relpath(home / Path(script.name).name, work)
    asked = unseen(name, case.seed, VerifySpec(backends=script.backends), script.arguments)
    limits = RunLimits(script.updates, script.seconds)
    with chdir(work):
        events = watched_events(
            Script(name, script.arguments, script.module),
            asked,
            select_rules(asked, [case.code]),
            limits,
            thorough=case.thorough,
        )
        return _heard(events, case.code)


def _heard(events: Iterable[Event], code: str) -> Rerun:
    result, problem = None, ""
    for event in events:
        if isinstance(event, CheckFinished) and event.result.code == code:
            result = event.result
        elif isinstance(event, StageFinished) and event.result.outcome is Outcome.ERROR:
            problem = problem or f"the {event.result.stage} stage raised: {event.result.detail}"
    answers = result is not None and result.outcome in _ANSWERS
    return Rerun(result, "" if answers else problem)
