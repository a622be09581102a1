"""What a report draws, as numbers: strips of batches, matrices of influence, curves, the way of a
fault.

All of it is bounded where it is collected: at most ``MOST_ROWS`` rows of ``MOST_STEPS`` steps.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_ROWS = 8  # rows of a strip: chosen, what one look takes in
MOST_STEPS = 64  # steps of a row, of a curve, of a matrix's side: chosen, readable on a screen


@dataclass(frozen=True)
class StripRow:
    """Neighbouring steps of one row of a batch; all positions count from ``first``.

    ``segments`` numbers the true stretch of time that each step belongs to, -1 where that is not
    known. ``starts`` have a true start flag, ``begins`` are the first of an episode, ``ends`` its
    last. ``stored`` are starts from a stored state that is not zero.
    """

    label: str
    first: int
    segments: tuple[int, ...]
    starts: tuple[int, ...] = ()
    begins: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    burn_in: tuple[int, ...] = ()
    stored: tuple[int, ...] = ()


@dataclass(frozen=True)
class Marked:
    """A step of a strip that a finding names: the line of the strip and the position in it."""

    line: int
    position: int
    code: str


@dataclass(frozen=True)
class BatchStrip:
    """A batch as rows of steps; ``explains`` are the checks whose finding it shows."""

    of: str
    rows: tuple[StripRow, ...]
    marks: tuple[Marked, ...] = ()
    left_out: str = ""  # what of the batch is not shown
    explains: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepMatrix:
    """How far what is given at one place (line) moves with what is read at another (column).

    ``places`` are rows and steps of the batch; ``borders`` the positions at which a segment begins.
    In a ``causal`` one nothing may move with what comes later. ``judged_by`` are the checks that
    say whether anything may lie off the blocks, ``broken`` whether one of them failed.
    """

    of: str
    output: str
    unit: str
    places: tuple[tuple[int, int], ...]
    borders: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]
    causal: bool = False
    by_segment: bool = False  # a line is a whole segment
    judged_by: tuple[str, ...] = ()
    broken: bool = False
    explains: tuple[str, ...] = ()

    def allowed(self, line: int, column: int) -> bool:
        """Whether what is given at ``line`` may move with what is read at ``column``."""
        same = self._block(line) == self._block(column)
        return same and not (self.causal and column > line)

    def _block(self, place: int) -> int:
        return sum(border <= place for border in self.borders)

    @property
    def crossings(self) -> int:
        """How many values that are not zero lie off the blocks."""
        return sum(
            value != 0 and not self.allowed(i, j)
            for i, line in enumerate(self.values)
            for j, value in enumerate(line)
        )


@dataclass(frozen=True)
class Line:
    """One line of a curve."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """Lines over the same axis; ``parts_at`` is where they part, ``limit`` what they are held
    to."""

    of: str
    over: str
    unit: str
    lines: tuple[Line, ...]
    logarithmic: bool = False
    parts_at: float | None = None
    limit: float | None = None
    explains: tuple[str, ...] = ()


@dataclass(frozen=True)
class WayPoint:
    """A station of a fault: the stage, the entry there, and the first step that carries it."""

    stage: str
    key: str
    at: str
    said: str = ""


@dataclass(frozen=True)
class FaultWay:
    """Where a fault enters and what it reaches, in order."""

    of: str
    points: tuple[WayPoint, ...]
    explains: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exhibits:
    """All that a run shows of its batches. ``whole`` where also what takes time was asked for;
    ``untold`` says what could not be shown and why."""

    strips: tuple[BatchStrip, ...] = ()
    matrices: tuple[StepMatrix, ...] = ()
    curves: tuple[Curves, ...] = ()
    ways: tuple[FaultWay, ...] = ()
    untold: tuple[str, ...] = ()
    whole: bool = False
