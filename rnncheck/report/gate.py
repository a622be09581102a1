"""What a gate decided, in the words of all formats: the number, its interval, its limit, its place
in the spec."""

from __future__ import annotations

from collections.abc import Iterable

from rnncheck.errors import Place
from rnncheck.report import text
from rnncheck.results.gate import GateItem, Part, Ruling
from rnncheck.results.model import Run

_PARTS = {
    Part.BUDGET: "budgets",
    Part.BASELINE: "against the baseline",
    Part.AGAINST: "against the other side",
    Part.ACCEPTANCE: "accepted findings",
}
BOUNDS = {"max": "at most", "min": "at least"}
_HEADINGS = ("part", "item", "ruling", "measured", "reason", "at")
RULES = {
    Part.BUDGET: "A number is beyond a budget of the spec, or could not be measured.",
    Part.BASELINE: "What the baseline file has is gone, newly wrong or slower.",
    Part.AGAINST: "The code is slower or wrong where the other side is not.",
    Part.ACCEPTANCE: "The acceptance of a known finding no longer holds.",
}


def items_by_part(run: Run) -> dict[str, list[GateItem]]:
    """The items under the name of their part, as decided."""
    groups = {
        name: [item for item in run.gate if item.part is part] for part, name in _PARTS.items()
    }
    return {name: items for name, items in groups.items() if items}


def failing_items(run: Run) -> list[GateItem]:
    """What the gate fails because of."""
    return [item for item in run.gate if item.fails(strict=run.strict)]


def ruled(items: Iterable[GateItem], ruling: Ruling) -> list[GateItem]:
    """The items that ended so."""
    return [item for item in items if item.ruling is ruling]


def name(item: GateItem) -> str:
    """What was asked."""
    return text.clean(item.name)


def item_numbers(item: GateItem) -> str:
    """``1.052 [1.041, 1.063] x, at most 1.03, 6 fresh pairs``; what was not measured is left
    out."""
    shown, limit = _with_limit(item)
    if shown and item.low is not None and item.high is not None:
        shown += f" [{text.number(item.low)}, {text.number(item.high)}]"
    unit, count = text.clean(item.unit), len(item.ratios)
    parts = [
        f"{shown} {unit}" if shown else "",
        limit if shown or not limit else f"{limit} {unit}",
        f"{count} fresh {'pair' if count == 1 else 'pairs'}" if count else "",
    ]
    return ", ".join(part.rstrip() for part in parts if part)


def _with_limit(item: GateItem) -> tuple[str, str]:
    """The value and the limit, with as many digits as it takes to tell them apart."""
    shown = "" if item.value is None else text.number(item.value)
    limit = "" if item.limit is None else text.number(item.limit)
    if item.value is not None and item.limit is not None:
        shown, limit = text.measured_and_bound(item.value, item.limit)
    return shown, f"{BOUNDS.get(item.kind, 'limit')} {limit}" if limit else ""


def pairs(item: GateItem) -> str:
    """The ratio of each fresh pair of processes."""
    return ", ".join(text.number(ratio) for ratio in item.ratios)


def item_sentence(item: GateItem) -> str:
    """The item in a sentence, without its ruling: name, numbers, reason."""
    head = ": ".join(part for part in (name(item), item_numbers(item)) if part)
    reason = text.clean(item.reason)
    return f"{head}; {reason}" if reason else head


def item_place(item: GateItem) -> str:
    """``rnncheck.yaml:12:3``."""
    return text.clean(str(Place(item.path, item.line, item.column))) if item.path else ""


def row(item: GateItem) -> tuple[str, ...]:
    """The item as text, in the order of ``_HEADINGS``."""
    return (
        str(item.part),
        name(item),
        text.word(item),
        item_numbers(item),
        text.clean(item.reason),
        item_place(item),
    )
