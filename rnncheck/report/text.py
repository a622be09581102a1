"""What all formats say in the same words: numbers, places, counts, the verdict. ASCII only, nothing
is escaped here."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

from rnncheck.printable import clean as clean
from rnncheck.printable import clean_code as clean_code
from rnncheck.printable import clean_lines as clean_lines
from rnncheck.results.causes import causes_of
from rnncheck.results.endings import broke_off, raised
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.families import BY_PREFIX, FAMILIES, prefix_of
from rnncheck.results.gate import GateItem, Ruling
from rnncheck.results.memory import Question
from rnncheck.results.model import (
    NOT_IN_SCRIPT,
    NOT_IN_SPEC,
    NOT_KEPT,
    NOT_MADE_AGAIN,
    UNKNOWN_ACTOR,
    CheckResult,
    Finding,
    GuaranteeResult,
    Outcome,
    Run,
    Source,
    Stage,
    StageResult,
    Standing,
    Verdict,
    Where,
)
from rnncheck.results.verdict import fails

VERDICTS = {
    Verdict.VERIFIED: "verified",
    Verdict.FAILED: "failed",
    Verdict.SLOWER: "slower than allowed",
    Verdict.NOT_SHOWN: "not shown",
    Verdict.NOTHING_VERIFIED: "nothing was verified",
    Verdict.ERROR: "a stage or check raised",
    Verdict.INTERRUPTED: "interrupted",
}
EXITS = {
    ExitCode.VERIFIED: "verified",
    ExitCode.FAILED: "a check failed",
    ExitCode.USAGE: "bad input",
    ExitCode.INTERNAL: "a stage or check raised",
    ExitCode.NOT_SHOWN: "not all that was asked could be shown",
    ExitCode.SLOWER: "slower than allowed",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.TERMINATED: "terminated",
}
_OF_STUDIES = {ExitCode.VERIFIED: "measured", ExitCode.FAILED: "something was found"}
# How a check or stage ended without an answer; the last two in old results alone.
UNANSWERED = (
    Outcome.NOT_LOOKED,
    Outcome.DEFERRED,
    Outcome.NOT_APPLICABLE,
    Outcome.VACUOUS,
    Outcome.SKIPPED,
)
_WORDS = ("failed", "slower", "over", "unclear", "not comparable", "noted", "passed")
_WHY = (Standing.BROKEN, Standing.NOT_SHOWN, Standing.NOT_ASKED)
_COUNTED = {str(Outcome.ERROR): "raised"}  # how an outcome is said of several checks
SPEEDS = ("ms", "x")  # units of what can be slower
DIGITS = 4  # significant ones of a number: more is noise in a measured value
ALL_DIGITS = 17  # significant ones that tell any two float64 apart
LARGEST_WHOLE = 1e6  # below it a whole number is easier to read in full than with an exponent


def number(value: float, digits: int = DIGITS) -> str:
    """``value`` with so many significant digits; whole numbers in full."""
    if math.isfinite(value) and value == int(value) and abs(value) < LARGEST_WHOLE:
        return str(int(value))
    return f"{value:.{digits}g}"


def measured_and_bound(measured: float, bound: float) -> tuple[str, str]:
    """Both as text, with as many digits as it takes to tell them apart."""
    texts = (number(measured), number(bound))
    for digits in range(DIGITS + 1, ALL_DIGITS + 1):
        if texts[0] != texts[1] or measured == bound:
            break
        texts = (number(measured, digits), number(bound, digits))
    return texts


def passing(finding: Finding) -> str:
    """The bound that would have passed, rounded so that it really would."""
    value = finding.passing_bound
    if value is None:
        return ""
    if not math.isfinite(value):
        return f"no bound ({number(value)})"
    up = finding.bound is None or math.isnan(finding.bound) or value >= finding.bound
    context = Context(prec=DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return number(float(context.create_decimal_from_float(value)))


def facts(finding: Finding) -> list[tuple[str, str]]:
    """The finding's labelled facts, in the order in which a reader needs them; empty ones are left
    out."""
    measured, bound = _numbers(finding)
    pairs = [
        ("key", finding.key),
        ("measured", _join(": ", finding.quantity, measured)),
        ("on", finding.on),
        ("bound", _join(" = ", bound, finding.bound_formula)),
        ("passes at", passing(finding)),
        ("where", where(finding.where)),
        *(("detail", f"{name}: {value}") for name, value in sorted(finding.details.items())),
        ("cause", finding.cause),
        ("fix", finding.fix),
        ("at", source_place(finding.source)),
    ]
    return [(clean(label), clean(value)) for label, value in pairs if value]


def _numbers(finding: Finding) -> tuple[str, str]:
    measured, bound = finding.measured, finding.bound
    if measured is not None and bound is not None:
        return measured_and_bound(measured, bound)
    return _optional(measured), _optional(bound)


def _optional(value: float | None) -> str:
    return "" if value is None else number(value)


def _join(separator: str, *parts: str) -> str:
    return separator.join(part for part in parts if part)


def where(place: Where | None) -> str:
    """``batch [0, 3], segment 2, step 12, feature [5]; differs from step 7 on``."""
    if place is None:
        return ""
    parts = [
        f"batch {list(place.batch)}" if place.batch else "",
        f"segment {place.segment}" if place.segment is not None else "",
        f"step {place.step}" if place.step is not None else "",
        f"feature {list(place.feature)}" if place.feature else "",
    ]
    first = f"differs from step {place.first_step} on" if place.first_step is not None else ""
    return _join("; ", _join(", ", *parts), first)


def source_place(source: Source | None) -> str:
    """``rnncheck.yaml:12:3 (env.transforms)``."""
    if source is None:
        return ""
    position = ":".join([source.path, *(str(n) for n in (source.line, source.column) if n)])
    return f"{position} ({source.name})" if source.name else position


def outcome_word(check: CheckResult) -> str:
    """``passed``, ``failed`` and so on; ``accepted`` for a failure that is known and fails
    nothing."""
    known = check.accepted and check.outcome is Outcome.FAILED
    return "accepted" if known else spelled(check.outcome)


def spelled(word: str) -> str:
    """A word of the results as it is read: ``could not look``."""
    return str(word).replace("-", " ")


def standings(run: Run) -> list[tuple[str, list[GuaranteeResult], str]]:
    """The guarantees in groups: how they stand, and why where it is one reason for all."""
    groups: dict[tuple[str, str], list[GuaranteeResult]] = defaultdict(list)
    for standing in (Standing.BROKEN, Standing.NOT_SHOWN, Standing.SHOWN, Standing.NOT_ASKED):
        for one in run.guarantees:
            if one.standing is standing:
                why = "" if standing in (Standing.BROKEN, Standing.SHOWN) else clean(one.because)
                known = f"accepted: {clean(one.accepted)}" if one.accepted else ""
                groups[spelled(standing), _join("; ", known, why)].append(one)
    return [(word, found, why) for (word, why), found in groups.items()]


def family_line(checks: Iterable[CheckResult]) -> str:
    """``7 of 9 hold, 1 failed, 1 could not look; 2 not applicable``."""
    found = Counter(outcome_word(check) for check in checks)
    held, apart = found.pop("passed", 0), spelled(Outcome.NOT_APPLICABLE)
    absent = found.pop(apart, 0)
    asked = held + sum(found.values())
    told = [f"{held} of {asked} hold"] if asked else []
    told += [f"{count} {_COUNTED.get(name, name)}" for name, count in found.items()]
    return _join("; ", ", ".join(told), f"{absent} {apart}" if absent else "")


def guarantee_line(one: GuaranteeResult) -> str:
    """What a guarantee says, how it stands and why."""
    why = f", because {clean(one.because)}" if one.because and one.standing in _WHY else ""
    known = f" (accepted: {clean(one.accepted)})" if one.accepted else ""
    return f"{spelled(one.standing)}{known}: {one.sentence}{why}"


def title(check: CheckResult) -> str:
    """``WR103 missing-state-primer``."""
    return clean(f"{check.code} {check.name}")


def family(code: str) -> str:
    """The title of a code's family."""
    prefix = prefix_of(code)
    known = BY_PREFIX.get(prefix)
    return known.title if known else clean(prefix) or "other"


def by_family(checks: Iterable[CheckResult]) -> dict[str, list[CheckResult]]:
    """The checks under their family's title, by code; families in the order of the catalogue."""
    order = [family.title for family in FAMILIES]
    groups: dict[str, list[CheckResult]] = defaultdict(list)
    for check in sorted(checks, key=lambda check: check.code):
        groups[family(check.code)].append(check)
    known = {name: groups[name] for name in order if name in groups}
    return known | {name: group for name, group in groups.items() if name not in known}


def passed_last(checks: Iterable[CheckResult]) -> tuple[list[CheckResult], list[CheckResult]]:
    """What passed comes last: the checks that did not, and those that did."""
    loud, quiet = list[CheckResult](), list[CheckResult]()
    for check in checks:
        (quiet if outcome_word(check) == "passed" else loud).append(check)
    return loud, quiet


def by_reason(run: Run, outcome: Outcome) -> dict[str, list[str]]:
    """The codes with this outcome under their reason; of a run in which all checks have the same,
    how many."""
    groups: dict[str, list[str]] = defaultdict(list)
    for check in sorted(run.checks, key=lambda check: check.code):
        if check.outcome is outcome:
            groups[clean(check.reason) or "no reason given"].append(clean(check.code))
    if len(groups) == 1 and len(run.checks) > 1:
        ((reason, codes),) = groups.items()
        return {reason: [f"all {len(codes)} checks"] if len(codes) == len(run.checks) else codes}
    return dict(groups)


def saw(check: CheckResult) -> str:
    """What the check saw, in a sentence; where that is accepted, first why."""
    if not check.findings:
        return clean(check.reason)
    more = len(check.findings) - 1
    message = clean(check.findings[0].message)
    told = f"{message} (and {more} more)" if more else message
    return f"{clean(check.accepted)}; it saw: {told}" if check.accepted else told


def broken_stages(run: Run) -> list[str]:
    """What each stage raised, or how its process ended; the user's frames may follow on more
    lines."""
    failed = (stage for stage in run.stages if stage.outcome is Outcome.ERROR)
    return [clean_lines(raised(f"stage {stage.stage}", stage.detail)) for stage in failed]


def crashed(run: Run) -> list[str]:
    """What each crashed check raised; frames may follow on more lines."""
    failed = (check for check in run.checks if check.outcome is Outcome.ERROR)
    return [clean_lines(f"{check.code}: {check.reason}") for check in failed]


def unchecked(run: Run) -> str:
    """Which stages are not there, and which were not looked into and why."""
    reasons: dict[str, list[str]] = defaultdict(list)
    without = "the script has none" if _is_a_scripts(run) else "the spec leaves them out"
    for stage in run.stages:
        if stage.outcome in UNANSWERED:
            absent = stage.detail in ("", NOT_IN_SPEC, NOT_IN_SCRIPT)
            reasons[without if absent else clean(stage.detail)].append(str(stage.stage))
    parts = [f"since {why}: {', '.join(stages)}" for why, stages in reasons.items()]
    return f"not checked, {'; '.join(parts)}" if parts else ""


def counts(run: Run) -> str:
    """``2 failed, 1 warning, 20 passed, 3 skipped, 3 findings``; what is zero is left out."""
    failed = [check for check in run.checks if check.outcome is Outcome.FAILED]
    weighing = sum(fails(check, strict=run.strict) for check in failed)
    accepted = sum(bool(check.accepted) for check in failed)
    warnings = len(failed) - weighing - accepted
    pairs = [
        (weighing, "failed"),
        (warnings, "warning" if warnings == 1 else "warnings"),
        (accepted, "accepted"),
        (run.count(Outcome.ERROR), "raised"),
        (run.count(Outcome.PASSED), "passed"),
        (run.count(Outcome.NOT_LOOKED), "could not look"),
        (run.count(Outcome.DEFERRED), "deferred"),
        (run.count(Outcome.NOT_APPLICABLE), "not applicable"),
        (run.count(Outcome.VACUOUS), "vacuous"),
        (run.count(Outcome.SKIPPED), "skipped"),
        (len(run.findings), "finding" if len(run.findings) == 1 else "findings"),
    ]
    return ", ".join(f"{n} {word}" for n, word in pairs if n) or "no check ran"


def word(item: GateItem) -> str:
    """How an item ended; ``over`` for what is beyond its limit and no speed."""
    speed = item.unit in SPEEDS
    return "over" if item.ruling is Ruling.SLOWER and not speed else str(item.ruling)


def rulings(run: Run) -> str:
    """``1 slower, 2 unclear, 5 passed``, what weighs most first; nothing where a gate decided
    nothing."""
    found = Counter(word(item) for item in run.gate)
    return ", ".join(f"{found[name]} {name}" for name in _WORDS if name in found)


def verdict_word(run: Run) -> str:
    """The run in a few words."""
    if run.verdict is Verdict.VERIFIED and run.left_out:
        return f"verified what --fast asks, {len(run.left_out)} checks left out"
    if run.verdict is Verdict.VERIFIED and acting_alone(run):
        return "acting verified, training not checked"
    if run.verdict is not Verdict.SLOWER:
        return VERDICTS[run.verdict]
    words = {word(item) for item in run.gate}
    if "slower" in words or not words:
        return VERDICTS[run.verdict]
    return "over budget" if "over" in words else "unclear under --strict"


def acting_alone(run: Run) -> bool:
    """Whether the spec has no training path: nothing computes a loss."""
    losses = [one for one in run.stages if one.stage is Stage.LOSS]
    return bool(run.guarantees) and any(one.outcome is Outcome.NOT_APPLICABLE for one in losses)


def exit_meaning(run: Run) -> str:
    """What the exit code of this run means."""
    if run.exit_code in (ExitCode.SLOWER, ExitCode.NOT_SHOWN):
        return verdict_word(run)
    if run.command == "memory" and run.memory is not None and run.exit_code in _OF_STUDIES:
        return _OF_STUDIES[run.exit_code]
    broken = any(fails(check, strict=run.strict) for check in run.checks)
    if run.exit_code is ExitCode.FAILED and run.gate and not broken:
        return "the gate failed"
    return EXITS[run.exit_code]


def verdict_sentence(run: Run) -> str:
    """The verdict with its counts, seconds and exit code."""
    ending = f"{run.seconds:.1f} s; exit {int(run.exit_code)} ({exit_meaning(run)})"
    if run.command == "bench":
        return f"{_measured(run)}; {ending}"
    if run.command == "memory":
        return f"{_remembered(run)}; {ending}"
    told = [counts(run), _measured(run) if run.cells else "", _gate(run), ending]
    return f"{verdict_word(run)}: {_join('; ', *told)}"


def _remembered(run: Run) -> str:
    """What a study came to."""
    answered = len(run.memory.answered) if run.memory is not None else 0
    return f"{answered} of {len(Question)} questions answered"


def _gate(run: Run) -> str:
    return f"gate: {rulings(run)}" if run.gate else ""


def _measured(run: Run) -> str:
    """``12 cells: 10 ok, 2 cannot``."""
    found = Counter(clean(str(cell["status"])) for cell in run.cells)
    listed = ", ".join(f"{count} {status}" for status, count in found.items())
    return f"{len(run.cells)} {'cell' if len(run.cells) == 1 else 'cells'}: {listed or 'none'}"


def _blamed(stage: StageResult) -> str:
    ended = broke_off(stage.detail)
    return f"what {'ended ' if ended else ''}the {stage.stage} stage{'' if ended else ' raised'}"


def broken_heading(stage: StageResult) -> str:
    """``The env stage raised``, or that its process ended there."""
    return f"The {stage.stage} stage {'broke off' if broke_off(stage.detail) else 'raised'}"


def next_step(run: Run) -> str:
    """What to do now, or nothing."""
    if causes := causes_of(run):
        explained = explaining(run, causes[0].code)
        case = clean(causes[0].case)
        return f"{explained}; once it is mended, rnncheck replay {case}" if case else explained
    watched, again = _is_a_scripts(run), _again(run)
    if broken := [one for one in run.stages if one.outcome is Outcome.ERROR]:
        return f"mend {_blamed(broken[0])}, then {again}"
    if watched and any(NOT_KEPT in one or NOT_MADE_AGAIN in one for one in _reasons(run)):
        return "rnncheck run SCRIPT, which also judges what the file does not keep"
    if run.verdict is Verdict.NOT_SHOWN and (open_ := [g for g in run.guarantees if g.lacking]):
        code = clean(open_[0].because).partition(":")[0]
        judged = code in {check.code for check in run.checks}
        if watched and not judged:
            return f"change what is said above, then {again}"
        known = code if judged else run.checks[0].code
        accepted = f", or accept it: `guarantee: {open_[0].name}` in verify.accept"
        return f"{explaining(run, known)}{'' if watched else accepted}"
    if run.verdict is Verdict.NOTHING_VERIFIED and any(UNKNOWN_ACTOR in n for n in run.notices):
        return f"change the call that acts as is said above, then {again}"
    if run.verdict is Verdict.NOTHING_VERIFIED and watched:
        return f"let a collector, env.rollout or a loop over env.step act, then {again}"
    if run.verdict is Verdict.NOTHING_VERIFIED and run.command not in ("bench", "memory"):
        return explaining(run, run.checks[0].code) if run.checks else "rnncheck rule"
    return ""


def _is_a_scripts(run: Run) -> bool:
    """Whether what is judged is what a script did, now or when its run was saved."""
    return run.command == "run" or any(one.stage is Stage.TRAIN for one in run.stages)


def _again(run: Run) -> str:
    """The command that gives this run anew; a saved one is kept anew first."""
    path = clean(run.spec.path)
    if run.command == "run" or not _is_a_scripts(run):
        return f"rnncheck {'run' if run.command == 'run' else 'verify'} {path}"
    return f"rnncheck run --save {path} SCRIPT"


def _reasons(run: Run) -> Iterable[str]:
    """Why guarantees are not shown."""
    return (one.because for one in run.guarantees if one.standing is Standing.NOT_SHOWN)


def explaining(run: Run, code: str) -> str:
    """The command that explains a check; one of a spec's own is known by that spec."""
    own = prefix_of(code) not in BY_PREFIX and run.spec.path.endswith((".yaml", ".yml"))
    return f"rnncheck rule {clean(code)}" + (f" --spec {clean(run.spec.path)}" if own else "")


def header(run: Run) -> str:
    """Which tool judged what, and where."""
    parts = [
        f"{run.tool.name} {run.tool.version}",
        run.spec.name,
        run.spec.path,
        f"seed {run.seed}",
        run.environment.device,
    ]
    return ", ".join(clean(part) for part in parts if part.strip())
