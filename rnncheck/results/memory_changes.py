"""Two studies of the memory, figure by figure, judged by their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rnncheck.results.changes import Change, RowChange
from rnncheck.results.memory import Estimated, MemoryResult


def compared_memories(
    first: MemoryResult | None, second: MemoryResult | None
) -> Iterator[RowChange]:
    """Half-life and reach of each curve, burn-in of each start, the loss under each treatment."""
    old = {} if first is None else figures_of(first)
    new = {} if second is None else figures_of(second)
    for label in {**new, **old}:
        yield _changed(label, old, new)


def figures_of(found: MemoryResult) -> dict[str, Estimated]:
    """By what it is, each figure that has an interval; a horizon is its own."""
    figures = dict[str, Estimated]()
    for curve in found.curves:
        through = f" through {curve.through}" if curve.through else ""
        agent = "" if curve.agent is None else f" of agent {curve.agent}"
        name = f"{curve.named}{through}{agent}, {curve.method}"
        last, open_ = curve.horizon, 0 < curve.horizon == curve.longest
        figures[f"horizon, {name}"] = Estimated(last, last, last, open_)
        for what, figure in (("reach", curve.reach), ("half-life", curve.half_life)):
            if figure is not None:
                figures[f"{what}, {name}"] = figure
    for slice_ in found.replay:
        if slice_.burn_in is not None:
            figures[f"burn-in, {slice_.named} from {slice_.start}"] = slice_.burn_in
    for under in found.returns:
        if under.lost is not None:
            figures[f"return lost, {under.treatment}"] = under.lost
    return figures


def _changed(label: str, old: Mapping[str, Estimated], new: Mapping[str, Estimated]) -> RowChange:
    before, now = old.get(label), new.get(label)
    if before is None or now is None:
        return RowChange(label, Change.NEW if before is None else Change.GONE)
    told = f"{_figure(before)}, then {_figure(now)}"
    if now.low > before.high or now.high < before.low:
        more = now.value > before.value
        if (before if more else now).beyond:  # at least that: it may be as much as the other
            return RowChange(label, Change.UNCLEAR, told)
        return RowChange(label, Change.MORE if more else Change.LESS, told)
    near = before.low <= now.value <= before.high and now.low <= before.value <= now.high
    return RowChange(label, Change.SAME if near else Change.UNCLEAR, told)


def _figure(found: Estimated) -> str:
    least = "at least " if found.beyond else ""
    return f"{least}{found.value:.4g} [{found.low:.4g}, {found.high:.4g}]"
