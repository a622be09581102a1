"""A gate in a terminal: its items by part, and those that fail it once more beside the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from rnncheck.report import gate, text
from rnncheck.report.layout import hanging, paragraph
from rnncheck.results.gate import GateItem, Ruling
from rnncheck.results.model import Run

RULING_AT = 2  # cells before an item's ruling
_NAME_AT = 18  # cells before its name: 2, the longest ruling (not comparable), 2
_STYLES = {
    Ruling.PASSED: "green",
    Ruling.FAILED: "bold red",
    Ruling.SLOWER: "bold red",
    Ruling.UNCLEAR: "yellow",
    Ruling.INCOMPARABLE: "yellow",
    Ruling.NOTED: "dim",
}


def gate_lines(run: Run, console: Console, verbose: bool) -> Iterator[Text]:
    """Every item with its numbers, its reason and the line that asks for it."""
    for name, items in gate.items_by_part(run).items():
        yield Text()
        yield Text(f"gate: {name}", style="bold")
        for item in items:
            yield from _item(item, console, verbose)


def _item(item: GateItem, console: Console, verbose: bool) -> Iterator[Text]:
    head = Text(" " * RULING_AT).append(text.word(item), style=_STYLES[item.ruling])
    yield from hanging(console, head, Text(gate.name(item)), _NAME_AT)
    ratios = f"pairs: {gate.pairs(item)}" if verbose and item.ratios else ""
    quiet = item.ruling is Ruling.PASSED and not verbose
    more = [gate.item_numbers(item), ratios, "" if quiet else text.clean(item.reason)]
    for line in filter(None, more):
        yield from paragraph(console, Text(line), _NAME_AT)
    if not quiet and (place := gate.item_place(item)):
        yield from paragraph(console, Text(place, style="dim"), _NAME_AT)


def failing_lines(run: Run, console: Console) -> Iterator[Text]:
    """What the gate fails because of, a sentence each."""
    for item in gate.failing_items(run):
        head = Text(f"{text.word(item)} ", style=_STYLES[item.ruling])
        yield from paragraph(console, head.append(gate.item_sentence(item), style="default"))
