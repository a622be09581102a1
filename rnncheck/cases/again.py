"""A stored case, run again: failing, fixed, or why it cannot run here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rnncheck.cases.model import ReplayEnding, ReplayResult, StoredCase, seen_in
from rnncheck.cases.parts import parts_again
from rnncheck.cases.rerun import OneCheck, Rerun, asked_again
from rnncheck.cases.script_again import script_again
from rnncheck.cases.smaller import episodes_in, overrides_in, still_meant
from rnncheck.cases.store import TENSOR_FILE, spec_of_case, spec_text
from rnncheck.cases.tensors import Inputs, read_inputs
from rnncheck.checks.engine.select import select_rules
from rnncheck.errors import UserError
from rnncheck.results.environment import current_environment
from rnncheck.results.model import Outcome
from rnncheck.spec.load import load_spec, spec_from_text
from rnncheck.spec.model import Spec


def replay_case(case: StoredCase, folder: Path, *, stored: bool) -> Iterator[ReplayResult]:
    """Run ``case`` from its ``folder`` on the spec or the script and the code as they are now;
    ``stored`` on the spec, the weights and the data as they were, or on what was seen of the
    script."""
    try:
        yield _run(case, folder, stored=stored)
    except UserError as error:
        yield ReplayResult(ReplayEnding.CANNOT_RUN, str(error))


def _run(case: StoredCase, folder: Path, *, stored: bool) -> ReplayResult:
    file = spec_of_case(case, folder)
    if case.script is not None:
        rerun, ran = script_again(case, case.script, folder, file.parent, stored=stored)
        return _judged(case, rerun, ran, ())
    if case.parts is not None:
        rerun, ran = parts_again(case, case.parts, folder, file)
        return _judged(case, rerun, ran, ())
    inputs = None
    if stored or not case.repeats:
        inputs = read_inputs(case, folder / TENSOR_FILE)
    if stored or not file.is_file():
        ran = "the stored spec" if stored else f"the stored spec: {file.name} is gone"
        spec = spec_from_text(spec_text(case), str(file))
        return _on(case, spec, list(case.smaller), inputs, ran)
    return _as_it_is(case, file, inputs)


def _as_it_is(case: StoredCase, file: Path, inputs: Inputs | None) -> ReplayResult:
    """On the present spec, as small as the case where its numbers are still those of then."""
    whole = load_spec(file, case.given)
    smaller = still_meant(case.smaller, case.reduction.was, whole)
    ran = f"{file.name} as it is now"
    try:
        spec = load_spec(file, [*case.given, *overrides_in(smaller)])
        found = _on(case, spec, smaller, inputs, ran)
    except UserError as error:
        found = ReplayResult(ReplayEnding.CANNOT_RUN, str(error), ran=ran)
    if found.ending is not ReplayEnding.CANNOT_RUN or whole.hash == case.spec_hash or not smaller:
        return found
    return _on(case, whole, [], None, f"{ran}, at its full size")


def _on(
    case: StoredCase, spec: Spec, smaller: list[str], inputs: Inputs | None, ran: str
) -> ReplayResult:
    (rule,) = select_rules(spec, [case.code])
    how = OneCheck(case.thorough, episodes_in(smaller), inputs)
    ran += ", with the stored weights and data" if inputs is not None else ""
    return _judged(case, asked_again(spec, rule, how), ran, tuple(smaller))


def _judged(case: StoredCase, rerun: Rerun, ran: str, smaller: tuple[str, ...]) -> ReplayResult:
    remarks = tuple(_newer(case))
    result = rerun.result
    if result is not None and result.outcome is Outcome.FAILED:
        now = seen_in(result)
        other = () if now.reason == case.seen.reason else ("it fails for another reason than then",)
        return ReplayResult(ReplayEnding.FAILING, "", now, ran, smaller, (*other, *remarks))
    if result is not None and result.outcome is Outcome.PASSED:
        return ReplayResult(ReplayEnding.FIXED, result.reason, None, ran, smaller, remarks)
    why = rerun.problem or (result.reason if result is not None else "nothing was built")
    told = "" if result is None else f"{case.code} gives no answer ({result.outcome}): "
    return ReplayResult(ReplayEnding.CANNOT_RUN, told + why, None, ran, smaller, remarks)


def _newer(case: StoredCase) -> Iterator[str]:
    """Packages that are not those that the case was stored with."""
    now = current_environment(case.environment.device).packages
    for name, version in case.environment.packages.items():
        if now.get(name) != version:
            yield f"{name} is {now.get(name, 'not installed')}; the case was stored with {version}"
