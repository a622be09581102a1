"""A self-test as one HTML file: which planted faults were caught, by which checks, and which were
missed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rnncheck.report import text
from rnncheck.report.chain import Light, Link
from rnncheck.results.model import Stage
from rnncheck.results.planting import Attempt, Ending, Selftest

_WORDS = {
    Ending.CAUGHT: "caught",
    Ending.MISSED: "missed",
    Ending.CANNOT_APPLY: "cannot apply",
    Ending.ENDED: "ended the process",
}
_LOUD = (Ending.MISSED, Ending.ENDED)
_BAR = 80  # px of the longest bar, as in a sweep


def render_selftest(found: Selftest) -> str:
    """The self-test as an HTML document; of a pipeline that is not healthy what its run found."""
    from rnncheck.report.html import content_of, page  # which draws: the commands read words alone

    told = {} if found.healthy is None else content_of(found.healthy)
    return page("selftest.html.j2", told | _content(found))


def attempt_verdict(attempt: Attempt) -> str:
    """What became of a fault, in a few words."""
    by = ", ".join(attempt.by)
    if attempt.ending is Ending.CAUGHT:
        return f"caught by {by}"
    if attempt.ending is Ending.CANNOT_APPLY:
        return f"cannot apply: {text.clean(attempt.reason)}"
    if attempt.ending is Ending.ENDED:
        return f"not told: {text.clean(attempt.reason)}"
    return f"missed (only {by} failed)" if by else "missed"


def counted_endings(found: Selftest) -> str:
    """``40 caught, 2 missed``."""
    counts = found.counts
    parts = [f"{counts[ending]} {_WORDS[ending]}" for ending in Ending if counts[ending]]
    state = "interrupted: " if found.stopped else ""
    return state + (", ".join(parts) or "no fault was planted")


def health_sentence(found: Selftest) -> str:
    """Why no fault was planted; empty where the pipeline is healthy."""
    if found.unseen:
        return "Nothing is known of the pipeline without any fault: none was planted."
    sick = "The pipeline is not healthy without any fault: repair it first."
    return sick if found.sick else ""


def _content(found: Selftest) -> dict[str, Any]:
    by_ending = {one: [a for a in found.attempts if a.ending is one] for one in Ending}
    return {
        "title": f"rnncheck selftest: {counted_endings(found)}",
        "failed": found.exit_code != 0,
        "unhealthy": health_sentence(found),
        "sentence": _sentence(found),
        "stages": _stages(found),
        "loud": [_told(one) for one in found.attempts if one.ending in _LOUD],
        "caught": [_told(one) for one in by_ending[Ending.CAUGHT]],
        "idle": [_told(one) for one in by_ending[Ending.CANNOT_APPLY]],
        "checks": _checks(found),
        "took": f"{found.seconds:.1f} s",
    }


def _sentence(found: Selftest) -> str:
    counts = found.counts
    applied = sum(counts.values()) - counts[Ending.CANNOT_APPLY]
    if not applied:
        return "No fault that was tried applies to this pipeline."
    lost = applied - counts[Ending.CAUGHT]
    told = f"Not caught: {lost} of the {applied} faults that apply"
    told = told if lost else f"Every fault that applies was caught: {applied}"
    return f"{told}; the run was interrupted." if found.stopped else f"{told}."


def _stages(found: Selftest) -> list[tuple[Link, str]]:
    """Each stage that a fault was planted into, with how many were caught."""
    links = []
    for stage in Stage:
        mine = Counter(one.ending for one in found.attempts if one.stage == str(stage))
        applied = sum(mine.values()) - mine[Ending.CANNOT_APPLY]
        if not mine:
            continue
        loud = any(mine[one] for one in _LOUD)
        light = Light.BROKEN if loud else Light.HOLDS if applied else Light.NOT_ASKED
        told = f"{mine[Ending.CAUGHT]} of {applied} caught" if applied else "none applies"
        links.append((Link(str(stage), light), told))
    return links


def _told(attempt: Attempt) -> dict[str, str]:
    seen = [*attempt.by] if attempt.ending is Ending.CAUGHT else []
    return {
        "fault": text.clean(attempt.fault),
        "stage": text.clean(attempt.stage),
        "summary": text.clean(attempt.summary),
        "ending": _ending(attempt),
        "by": text.clean(", ".join(seen)),
        "expects": text.clean(", ".join(attempt.expects)),
        "reason": text.clean(attempt.reason),
        "seconds": f"{attempt.seconds:.1f} s",
    }


def _ending(attempt: Attempt) -> str:
    """Without the reason, which stands below it."""
    return text.clean(attempt_verdict(attempt)) if attempt.by else _WORDS[attempt.ending]


def _checks(found: Selftest) -> list[tuple[str, float, int, str]]:
    """Each check that caught faults: its code, the width of its bar, how many, and which."""
    faults: dict[str, list[str]] = {}
    for attempt in found.attempts:
        for code in attempt.by if attempt.ending is Ending.CAUGHT else ():
            faults.setdefault(text.clean(code), []).append(text.clean(attempt.fault))
    most = max(map(len, faults.values()), default=1)
    rows = [(c, _BAR * len(f) / most, len(f), ", ".join(f)) for c, f in faults.items()]
    return sorted(rows, key=lambda row: (-row[2], row[0]))
