"""What a stored case says: which check failed on what, and how to have it again. No torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rnncheck.errors import UserError
from rnncheck.results.model import CheckResult, Environment, Finding, Stage

CASE_FORMAT = 2  # raised when a field changes its meaning
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


class CaseError(UserError):
    """A case that cannot be stored, found, read or run again."""


@dataclass(frozen=True)
class StoredEntry:
    """One tensor of a tensordict, or of a network: where it belongs and where it is stored."""

    key: tuple[str, ...]
    tensor: str  # its name among the stored tensors
    dtype: str  # torch's name


@dataclass(frozen=True)
class StoredBatch:
    """One tensordict, without what is no tensor."""

    shape: tuple[int, ...]
    entries: tuple[StoredEntry, ...]


@dataclass(frozen=True)
class Extent:
    """How large a case is."""

    envs: int = 0
    collected: tuple[tuple[int, ...], ...] = ()  # shapes of the collected batches
    trained: tuple[tuple[int, ...], ...] = ()  # shapes of the training batches
    steps: int = 0  # of what the checks lay out themselves (``verify.steps``)
    weights: int = 0  # numbers in policy and critic


@dataclass(frozen=True)
class Reduction:
    """How the case became as small as it is. ``was`` is what each of its overrides replaced."""

    extent: Extent
    was: tuple[str, ...] = ()
    tries: int = 0
    seconds: float = 0.0
    ended: str = ""  # why it went no further


@dataclass(frozen=True)
class SawFault:
    """What the check saw. ``reason`` is the same wherever the same fault is seen again."""

    message: str
    quantity: str
    measured: float | None
    key: str
    reason: str


@dataclass(frozen=True)
class StoredScript:
    """How a script was run: with ``module`` by the name of a module, in ``folder`` as seen from the
    folder that has the cases, until it had done so many ``updates`` or ``seconds`` were over.

    ``unkept`` says why what was seen of it is not stored; empty where it is.
    """

    name: str
    module: bool
    arguments: tuple[str, ...]
    folder: str
    updates: int
    seconds: float
    backends: tuple[str, ...] = ()
    unkept: str = ""


@dataclass(frozen=True)
class StoredParts:
    """What Python handed to ``rnncheck.verify``, by name, in the forms of a saved run; their bytes
    are with the tensors."""

    form: dict[str, Any]
    nodes: list[Any]
    device: str
    steps: int
    timeout: float  # s
    backends: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoredCase:
    """A failing case: of a spec, of a ``script``, or of live ``parts``.

    ``spec_file`` is the file of the spec, of the script, or that called ``rnncheck.verify``.
    ``given`` are the user's own ``--set`` texts, ``smaller`` those that reduce it. ``spec`` is the
    effective spec with both. ``repeats``: building it anew gives the same data and weights to the
    bit, so that what is stored is needed for ``--stored`` alone.
    """

    id: str
    code: str
    name: str
    stage: Stage
    seen: SawFault
    spec_file: str
    spec: dict[str, Any]
    spec_hash: str
    given: tuple[str, ...]
    smaller: tuple[str, ...]
    seed: int
    thorough: bool
    repeats: bool
    environment: Environment
    created: str  # ISO 8601, UTC
    reduction: Reduction
    collected: tuple[StoredBatch, ...] = ()
    trained: tuple[StoredBatch, ...] = ()
    weights: tuple[StoredEntry, ...] = ()
    script: StoredScript | None = None
    parts: StoredParts | None = None
    format: int = CASE_FORMAT


class ReplayEnding(StrEnum):
    """What became of a case."""

    FAILING = "still failing"
    FIXED = "fixed"
    CANNOT_RUN = "cannot run here"


@dataclass(frozen=True)
class ReplayResult:
    """How it ended, ``why`` it cannot run, what the check sees now, and what to know of it."""

    ending: ReplayEnding
    why: str = ""
    now: SawFault | None = None
    ran: str = ""  # which spec, weights and data
    smaller: tuple[str, ...] = ()  # what made it small
    remarks: tuple[str, ...] = ()


def seen_in(result: CheckResult) -> SawFault:
    """The first finding of a failed check, as a case keeps it."""
    one = result.findings[0]
    return SawFault(one.message, one.quantity, one.measured, one.key, fault_of(one))


def fault_of(finding: Finding) -> str:
    """Cause and fix without their numbers: the same fault in a larger or smaller pipeline has the
    same."""
    said = f"{finding.cause}|{finding.fix}" if finding.cause else finding.message
    return f"{finding.code}|{finding.stage}|{_NUMBER.sub('#', said)}"
