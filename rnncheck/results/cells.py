"""Cells: the rows of a sweep, as data. What was asked for, what was measured, and why a row may be
distrusted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from rnncheck.errors import Place, UserError
from rnncheck.results.plain import fields_of, plain_value
from rnncheck.results.variant import CellVariant

if TYPE_CHECKING:
    from pydantic import TypeAdapter


MIB = 2**20  # bytes


class Status(StrEnum):
    """How a cell ended. Only ``OK`` has a speed that counts."""

    OK = "ok"
    WRONG = "wrong"  # it ran, and its numbers are not those of the float64 oracle
    CANNOT = "cannot"  # it cannot run here, and the reason is known beforehand
    FAILED = "failed"  # it raised
    TIMEOUT = "timeout"
    OOM = "oom"
    CRASHED = "crashed"  # its process died
    SKIPPED = "skipped"  # the budget was spent, or the run was interrupted, before it was measured


class Phase(StrEnum):
    """What is timed."""

    FORWARD = "forward"  # recurrent mode over [batch, steps], no gradient
    TRAIN = "train"  # forward and backward, through the spec's loss where it has one
    ACT = "act"  # one sequential step of [batch]


@dataclass(frozen=True)
class Cell:
    """One row: a variant of the recurrent modules, a shape, a phase.

    ``resets`` is the probability that a step starts a new trajectory. ``overrides`` change the
    recurrent modules (``hidden_size``, ``num_layers``, ``kind``). Stored, a variant is its label.
    """

    phase: Phase
    variant: CellVariant
    batch: int
    steps: int
    resets: float
    target: str = "policy"
    overrides: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """A hash over everything above: the same cell in another run has the same."""
        text = json.dumps(fields_of(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def group(self) -> str:
        """What is compared with each other: everything but the variant."""
        steps = "" if self.phase is Phase.ACT else f" x {self.steps}"
        parts = [str(self.phase), f"{self.batch}{steps}"]
        if self.phase is not Phase.ACT:
            parts.append(f"{self.resets:.4g} resets")
        parts += [f"{name} {value}" for name, value in sorted(self.overrides.items())]
        return ", ".join([*parts, *(["bare module"] if self.target == "module" else [])])

    @property
    def label(self) -> str:
        """The whole row in words."""
        return f"{self.variant.label} | {self.group}"


@dataclass(frozen=True)
class Samples:
    """Raw timings: one entry a round, seconds for one call; ``rounds`` says which round, for
    pairing.

    ``wall`` is without the seconds ``waited`` for a core that other processes had: both together
    are what a clock on the wall showed. ``speed`` is the core's beside each, told by a fixed piece
    of work, where 1 is as fast as it was seen to be; it is empty where that was not measured.
    """

    rounds: tuple[int, ...] = ()
    wall: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()  # CPU time of the process, all threads
    repetitions: int = 1  # calls within one sample
    workers: tuple[int, ...] = ()  # which worker process took the sample
    waited: tuple[float, ...] = ()
    speed: tuple[float, ...] = ()

    @property
    def steady(self) -> tuple[float, ...]:
        """Seconds for one call on a core that is as fast as it was seen to be."""
        speeds = self.speed or (1.0,) * len(self.wall)
        return tuple(wall * speed for wall, speed in zip(self.wall, speeds, strict=True))


@dataclass(frozen=True)
class Timing:
    """Seconds for one call, of ``Samples.steady``; ``low`` and ``high`` are the 95 % interval of
    the median."""

    median: float
    low: float
    high: float
    samples: int
    stopped: str  # "interval reached" or "budget spent"
    cpu: float = 0.0

    @property
    def relative(self) -> float:
        """Half the interval over the median."""
        return (self.high - self.low) / 2 / self.median if self.median else float("inf")


@dataclass(frozen=True)
class Ratio:
    """How many times faster than ``reference`` in the same rounds; above 1 is faster."""

    reference: str  # label of the reference's variant
    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, or ``unclear`` where the interval holds 1."""
        if self.low > 1:
            return "faster"
        return "slower" if self.high < 1 else "unclear"


@dataclass(frozen=True)
class Accuracy:
    """Errors against the float64 oracle, relative to the quantity's largest magnitude, with their
    bounds."""

    output: float
    output_bound: float
    gradient: float | None = None
    gradient_bound: float | None = None
    worst: str = ""  # the entry that decides

    @property
    def error(self) -> float:
        """The larger of both."""
        return max(self.output, self.gradient or 0.0)

    @property
    def right(self) -> bool:
        """Whether both are within their bounds."""
        outputs = self.output <= self.output_bound
        if self.gradient is None or self.gradient_bound is None:
            return outputs
        return outputs and self.gradient <= self.gradient_bound


@dataclass(frozen=True)
class Memory:
    """Bytes above what the process held before the call; of several calls the median, the least and
    the most."""

    peak: int
    reserved: int | None = None  # CUDA: what the allocator took
    kind: str = "cpu"
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class CellResult:
    """A cell with all that was measured on it."""

    cell: Cell
    status: Status
    reason: str = ""
    samples: Samples = Samples()
    timing: Timing | None = None
    ratio: Ratio | None = None
    accuracy: Accuracy | None = None
    memory: Memory | None = None
    first_call: float | None = None  # seconds, compilation included
    compile: float | None = None  # seconds of the first call beyond a steady one
    distrust: tuple[str, ...] = ()
    engine: str = ""  # "kernels", or "interpreted" for Triton on a CPU
    node: str = ""  # the machine of a Ray cluster that measured it; empty: the run's own

    @property
    def counts(self) -> bool:
        """Whether its speed may be recommended."""
        return self.status is Status.OK and self.timing is not None


def cell_to_json(result: CellResult) -> dict[str, Any]:
    """The stored form; ``key``, ``group`` and ``label`` are written for readers without this
    package."""
    stored: dict[str, Any] = plain_value(result)
    cell = result.cell
    return {"key": cell.key, "label": cell.label, "group": cell.group, **stored}


def cell_from_json(data: dict[str, Any]) -> CellResult:
    """The result that ``cell_to_json`` wrote. Raises pydantic's ValidationError."""
    derived = ("key", "label", "group")
    found: CellResult = _adapter().validate_python(
        {name: value for name, value in data.items() if name not in derived}
    )
    return found


@cache
def _adapter() -> TypeAdapter[CellResult]:
    from pydantic import TypeAdapter

    return TypeAdapter(CellResult)


def cells_from_json(
    cells: Iterable[dict[str, Any]], place: Place | None = None
) -> Iterator[CellResult]:
    """All cells of a stored run. Raises a UserError that names the first one that is none."""
    from pydantic import ValidationError

    for index, data in enumerate(cells):
        try:
            yield cell_from_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            at = ".".join(["", *(str(part) for part in first["loc"])])
            raise UserError(
                f"cells[{index}]{at}: {first['msg'][:1].lower()}{first['msg'][1:]}",
                place=place,
                accepted="a result as rnncheck stored it",
            ) from error
