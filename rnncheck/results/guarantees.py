"""The few sentences that a verdict consists of, and which checks each rests on.

A guarantee is shown where enough was compared and nothing that belongs to it failed or could not be
looked at. The table below is the one place that says what belongs to what.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from rnncheck.results.families import BY_PREFIX, prefix_of
from rnncheck.results.model import (
    CheckResult,
    GuaranteeResult,
    Outcome,
    Severity,
    Stage,
    StageResult,
    Standing,
)


@dataclass(frozen=True)
class Need:
    """What must have been compared: one of ``codes`` passed. ``words`` say what that is.

    It is asked for where the pipeline has one of ``stages`` (any pipeline, if empty) and one of
    ``codes`` applies.
    """

    words: str
    codes: tuple[str, ...]
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class Guarantee:
    """One sentence; ``checks`` may break it, ``needs`` are the least that shows it.

    ``covered`` are checks that other checks answer as well: where these passed, those need not have
    looked. (A recurrent pass that gives what was acted on, CL406, says that it was acted on with
    memory, CL401.)
    """

    name: str
    sentence: str
    checks: tuple[str, ...]
    needs: tuple[Need, ...]
    covered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()  # without all of which it is not asked


_TRAINS = (Stage.LOSS,)
ISOLATION = "isolation"

GUARANTEES = (
    Guarantee(
        "memory",
        "acting carries state from step to step and starts every trajectory fresh",
        (
            *("WR101", "WR102", "WR103", "WR104", "WR105", "WR106", "WR107", "WR109", "WR110"),
            *("WR111", "WR112", "BD302", "BD306", "BD307"),
            *("CL401", "CL402", "CL403", "CL404", "CL407", "CL408", "CL410"),
        ),
        (
            Need("that earlier steps change later ones", ("BD306",)),
            Need("that nothing survives a reset", ("BD302", "CL403")),
            Need("what was acted on", ("CL401", "CL402"), (Stage.COLLECT,)),
        ),
        {
            "CL401": ("CL406",),
            "CL402": ("CL401",),
            "CL403": ("BD302",),
            "CL404": ("CL402", "CL401"),
            "BD307": ("BD302",),
        },
    ),
    Guarantee(
        "agreement",
        "training computes what acting did: outputs, states and gradients",
        (
            *("EQ201", "EQ202", "EQ203", "EQ204", "EQ205", "EQ206", "EQ207", "EQ208"),
            *("CL406", "RP507", "LS702"),
        ),
        (
            Need("outputs step by step and all at once", ("EQ201",)),
            Need("gradients step by step and all at once", ("EQ205",)),
            Need("recorded outputs with replayed ones", ("CL406", "RP507"), (Stage.COLLECT,)),
        ),
        {"EQ203": ("EQ201",)},
    ),
    Guarantee(
        ISOLATION,
        "no trajectory reaches another: in the module, the batch, the values, the loss",
        ("BD301", "BD303", "BD304", "BD305", "RP506", "VL601", "LS701", "LS704"),
        (
            Need("segments of one batch", ("BD301",)),
            Need("segments and rows in the loss", ("LS701",), _TRAINS),
            Need("segments and rows in the estimates", ("VL601",), (Stage.ADVANTAGE,)),
        ),
        {"LS704": ("LS701",)},
    ),
    Guarantee(
        "data",
        "what is stored, sampled and masked is what was acted",
        (
            *("WR108", "CL405", "CL409"),
            *("RP501", "RP502", "RP503", "RP504", "RP505", "RP508", "RP509"),
        ),
        (
            Need("recorded steps", ("CL405", "CL409"), (Stage.COLLECT,)),
            Need("steps of training batches", ("RP501", "RP502"), _TRAINS),
            Need("what a training batch holds", ("RP503",), _TRAINS),
        ),
    ),
    Guarantee(
        "targets",
        "values and advantages are those of the sequential run",
        ("VL602", "VL603", "VL604", "VL605"),
        (Need("values with the sequential run's", ("VL604", "VL602")),),
        stages=(Stage.ADVANTAGE, Stage.LOSS),
    ),
    Guarantee(
        "learning",
        "gradients reach back through time and every recurrent parameter",
        (
            *("LS703", "LS705", "LS706", "LS707", "LS708"),
            *("GR801", "GR802", "GR803", "GR804", "GR805", "GR806", "GR807"),
        ),
        (
            Need("how far back gradients reach", ("GR801",), _TRAINS),
            Need("which parameters get gradients", ("GR803",), _TRAINS),
        ),
        stages=_TRAINS,
    ),
    Guarantee(
        "precision",
        "the recurrence is computed and kept in the precision that was asked for",
        ("PR901", "PR902", "PR903"),
        (),
        {"PR901": ("PR902",)},  # the error against float64 is what the precision is for
    ),
)
NONE_ASKED = "none of its checks was asked"
_OWN = Guarantee("own checks", "what the checks of your own ask for", (), ())


def names() -> list[str]:
    """What the guarantees are called."""
    return [one.name for one in GUARANTEES]


def rests_beyond(name: str, absent: Collection[Stage]) -> bool:
    """Whether what the guarantee of this name needs was to be compared in an ``absent`` stage."""
    found = next((one for one in GUARANTEES if one.name == name), None)
    return found is not None and any(set(need.stages) & set(absent) for need in found.needs)


def judge_guarantees(
    checks: Iterable[CheckResult], stages: Iterable[StageResult], *, strict: bool
) -> tuple[GuaranteeResult, ...]:
    """Every guarantee in the table's order, and one for checks of the user's own where there are
    any."""
    results = {check.code: check for check in checks}
    there = {stage.stage for stage in stages if stage.outcome is not Outcome.NOT_APPLICABLE}
    found = [_judged(one, one.checks, results, there, strict) for one in GUARANTEES]
    own = [code for code in results if prefix_of(code) not in BY_PREFIX]
    return (*found, *([_judged(_OWN, own, results, there, strict)] if own else []))


def _judged(
    one: Guarantee,
    codes: Collection[str],
    results: Mapping[str, CheckResult],
    there: Collection[Stage],
    strict: bool,
) -> GuaranteeResult:
    asked = [results[code] for code in codes if code in results]
    standing, because = _standing(one, asked, results, there, strict)
    decided = [check for check in asked if _decided(check)]
    return GuaranteeResult(
        one.name,
        one.sentence,
        standing,
        because,
        tuple(check.code for check in decided),
        sum(check.compared for check in decided),
    )


def _standing(
    one: Guarantee,
    asked: list[CheckResult],
    results: Mapping[str, CheckResult],
    there: Collection[Stage],
    strict: bool,
) -> tuple[Standing, str]:
    """How it stands, and why: what breaks it before what was not shown."""
    if not asked:
        return Standing.NOT_ASKED, NONE_ASKED
    if broken := [check for check in asked if check.fails(strict=strict)]:
        return Standing.BROKEN, ", ".join(f"{check.code} {check.name}" for check in broken)
    if one.stages and not set(one.stages) & set(there):
        return Standing.NOT_ASKED, f"the spec has no {' and no '.join(one.stages)} stage"
    if open_ := [check for check in asked if _costs(check, one, results)]:
        return Standing.NOT_SHOWN, f"{open_[0].code}: {open_[0].reason}"
    for need in one.needs:
        if why := _lacks(need, results, there):
            return Standing.NOT_SHOWN, why
    if any(map(_decided, asked)):
        return Standing.SHOWN, ""
    unseen = [check for check in asked if check.outcome is not Outcome.NOT_APPLICABLE]
    if unseen:
        return Standing.NOT_SHOWN, f"{unseen[0].code}: {unseen[0].reason}"
    return Standing.NOT_ASKED, asked[0].reason


def _decided(check: CheckResult) -> bool:
    """Whether it looked, and what it found breaks nothing: passed, a warning, or accepted."""
    return check.outcome in (Outcome.PASSED, Outcome.FAILED)


def _costs(check: CheckResult, one: Guarantee, results: Mapping[str, CheckResult]) -> bool:
    """Whether the guarantee is not shown because this check gave no answer.

    One that defers to a finding which fails nothing (a warning, an accepted one) costs nothing.
    """
    if check.outcome is Outcome.ERROR:
        return True
    if check.outcome is Outcome.DEFERRED:
        return any(
            results[code].severity is Severity.ERROR and not results[code].accepted
            for code in check.deferred_to
            if code in results
        )
    if check.outcome is not Outcome.NOT_LOOKED or check.severity is not Severity.ERROR:
        return False
    instead = one.covered.get(check.code, ())
    return not any(_decided(results[code]) for code in instead if code in results)


def _lacks(need: Need, results: Mapping[str, CheckResult], there: Collection[Stage]) -> str:
    """Why this was not compared; empty where it was, or does not apply."""
    if need.stages and not set(need.stages) & set(there):
        return ""
    asked = [results[code] for code in need.codes if code in results]
    applying = [check for check in asked if check.outcome is not Outcome.NOT_APPLICABLE]
    if not applying or any(map(_decided, applying)):
        return ""
    first = applying[0]
    return f"{first.code}: {first.reason} ({need.words} could not be compared)"
