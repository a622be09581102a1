"""The lines of a journal that may come from anyone: bounded, JSON to the letter, and each a cell
that a sweep could have measured.

A folder with a spec may bring a ``.rnncheck`` with it; ``--resume`` then reads what its author put
there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rnncheck.errors import Place, UserError
from rnncheck.results.cells import CellResult, Samples, Timing, cell_to_json, cells_from_json
from rnncheck.results.encode import restore_cells
from rnncheck.results.stranger import bounded_text, difference, strict_json

# Chosen: many times the cells of the largest sweep that anyone waits for.
MAX_LINES = 100_000
# Seconds, and as often as no cell is: one of a week has WEEK of them.
_LONGEST = 10 * 365 * 86_400.0
_MOST = 2**31  # rows, steps, rounds, repetitions, workers
_BYTES = 2**60
ACCEPTED = "a journal as `rnncheck bench` wrote it; start a new sweep without --resume"


def read_journal(path: Path) -> tuple[dict[str, Any], list[CellResult]]:
    """The head and the finished cells; a last line that has no end is left out. Raises UserError,
    one sentence with the line, for whatever no sweep writes."""
    lines = bounded_text(path, ACCEPTED).split("\n")[:-1]
    if len(lines) > MAX_LINES:
        raise _wrong(f"this holds more than {MAX_LINES} lines", path)
    head = _object(lines[0], path, 1) if lines else {}
    inner = head.get("head")
    if not isinstance(inner, dict):
        raise _wrong("this is no journal of a sweep", path)
    return inner, [_cell(line, path, number) for number, line in enumerate(lines[1:], start=2)]


def _cell(line: str, path: Path, number: int) -> CellResult:
    data = _object(line, path, number)
    place = Place(str(path), number)
    try:
        (found,) = cells_from_json([restore_cells(data)], place)
    except UserError as error:
        said = error.message.removeprefix("cells[0]").lstrip(".: ")
        raise UserError(said, place=place, accepted=ACCEPTED) from error
    said = next(_implausible(found), "") or difference(data, cell_to_json(found))
    if said or data.keys() != cell_to_json(found).keys():
        raise UserError(
            said or "its fields are not those of a cell", place=place, accepted=ACCEPTED
        )
    return found


def _object(line: str, path: Path, number: int) -> dict[str, Any]:
    place = Place(str(path), number)
    found = strict_json(line, place, ACCEPTED)
    if not isinstance(found, dict):
        raise UserError("this is no journal of a sweep", place=place, accepted=ACCEPTED)
    return found


def _wrong(said: str, path: Path) -> UserError:
    return UserError(said, place=Place(str(path)), accepted=ACCEPTED)


def _implausible(row: CellResult) -> Iterator[str]:
    """What no sweep measures, in words."""
    cell, memory = row.cell, row.memory
    counts = {"batch": cell.batch, "steps": cell.steps}
    yield from (f"cell.{name}: {n} is no size" for name, n in counts.items() if not 0 < n < _MOST)
    if not 0 <= cell.resets <= 1:
        yield f"cell.resets: {cell.resets} is no probability"
    yield from _odd_samples(row.samples)
    seconds = {"first_call": row.first_call, "compile": row.compile}
    yield from (f"{name}: a call does not take {s} s" for name, s in seconds.items() if _odd(s))
    if row.timing is not None:
        yield from _odd_timing(row.timing, row.samples)
    if row.ratio is not None and not 0 < row.ratio.low <= row.ratio.value <= row.ratio.high:
        yield "ratio: its value is not within its interval"
    sizes = (memory.peak, memory.reserved, memory.low, memory.high) if memory else ()
    yield from (f"memory: {n} is no size" for n in sizes if n is not None and not 0 <= n < _BYTES)


def _odd(seconds: float | None) -> bool:
    return seconds is not None and not 0 <= seconds < _LONGEST


def _odd_samples(samples: Samples) -> Iterator[str]:
    rounds = samples.rounds
    if not len(rounds) == len(samples.wall) == len(samples.cpu):
        yield "samples: rounds, wall and cpu are not of one length"
    if samples.speed and len(samples.speed) != len(rounds):
        yield "samples: speed and rounds are not of one length"
    yield from (f"samples.speed: {s} is no speed" for s in samples.speed if not 0 < s < _MOST)
    if samples.workers and len(samples.workers) != len(rounds):
        yield "samples: workers and rounds are not of one length"
    if list(rounds) != sorted(set(rounds)):
        yield "samples.rounds: they do not ascend"
    whole = (*rounds, *samples.workers, samples.repetitions)
    yield from (f"samples: {n} is no count" for n in whole if not 0 <= n < _MOST)
    if not samples.repetitions:
        yield "samples.repetitions: 0 is no count"
    taken = (*samples.wall, *samples.cpu)
    yield from (f"samples: a call does not take {s} s" for s in taken if _odd(s))
    if any(s <= 0 for s in samples.wall):
        yield "samples.wall: a call does not take 0 s"


def _odd_timing(timing: Timing, samples: Samples) -> Iterator[str]:
    if not 0 < timing.low <= timing.median <= timing.high or not math.isfinite(timing.high):
        yield "timing: its median is not within its interval"
    if _odd(timing.high) or _odd(timing.cpu):
        yield f"timing: a call does not take {max(timing.high, timing.cpu)} s"
    if timing.samples != len(samples.wall):
        yield f"timing.samples: {timing.samples} of {len(samples.wall)}"
