"""What changed between two runs, in a terminal or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from rnncheck.printable import json_text
from rnncheck.report import text
from rnncheck.report.layout import hanging, paragraph
from rnncheck.report.printed import printed
from rnncheck.results.changes import Change, RowChange
from rnncheck.results.compare import environment_differences
from rnncheck.results.model import Run
from rnncheck.results.plain import plain_value

LABEL_AT = 19  # cells before a row's label: 2, the longest change (no longer fails), 2
_STYLES = {
    Change.SLOWER: "bold red",
    Change.BROKEN: "bold red",
    Change.FAILS: "bold red",
    Change.FASTER: "green",
    Change.FIXED: "green",
    Change.PASSES: "green",
    Change.UNCLEAR: "yellow",
    Change.INCOMPARABLE: "yellow",
}


def as_json(changes: Sequence[RowChange]) -> str:
    """A list of objects."""
    return json_text([plain_value(change) for change in changes], indent=2) + "\n"


def show_comparison(
    first: Run, second: Run, changes: Sequence[RowChange], console: Console, *, everything: bool
) -> None:
    """The rows that changed, or all, then how many of each."""
    first, second, changes = printed(first), printed(second), printed(changes)
    for name, run in (("first", first), ("second", second)):
        for line in paragraph(console, Text(f"{name + ':':<8}{text.header(run)}, {run.started}")):
            console.print(line)
    for line in _machines(first, second, console):
        console.print(line)
    console.print()
    for change in changes:
        if everything or change.change is not Change.SAME:
            head = Text(f"  {change.change}", style=_STYLES.get(change.change, "dim"))
            for line in hanging(console, head, Text(change_sentence(change)), LABEL_AT):
                console.print(line)
    counted = Counter(str(change.change) for change in changes)
    console.print(", ".join(f"{n} {name}" for name, n in counted.items()) or "nothing to compare")


def _machines(first: Run, second: Run, console: Console) -> list[Text]:
    others = environment_differences(first.environment, second.environment)
    if not others:
        return []
    said = f"another machine or other libraries: {'; '.join(others)}"
    return list(paragraph(console, Text(text.clean(said), style="yellow")))


def change_sentence(change: RowChange) -> str:
    """A row in words."""
    if change.value is None or change.low is None or change.high is None:
        return text.clean(": ".join(filter(None, [change.label, change.reason])))
    numbers = f"{change.value:.3f}x [{change.low:.3f}, {change.high:.3f}] by {change.basis}"
    return text.clean(f"{change.label}: {numbers}")
