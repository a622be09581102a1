"""The cells that a gate measures, out of the spec: its own, and what its budgets and comparisons
need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rnncheck.bench.plan import reference_of
from rnncheck.errors import SpecError
from rnncheck.results.cells import Cell, Phase
from rnncheck.results.variant import Own, Variant, parse_variant_or_own
from rnncheck.spec.model import KeyPath, Spec
from rnncheck.spec.settings import GateCellSpec, TimeLimit


def asked_cells(spec: Spec) -> list[Cell]:
    """The cells of ``gate.cells``. Raises SpecError for a variant that does not exist."""
    found = []
    for index, wanted in enumerate(spec.gate.cells):
        at: KeyPath = ("gate", "cells", index)
        found.append(cell_of(wanted, spec, at, Phase(wanted.phase)))
    return unique(found)


def cell_of(wanted: GateCellSpec | TimeLimit, spec: Spec, at: KeyPath, phase: Phase) -> Cell:
    """One cell; what ``wanted`` leaves open is the sweep's first shape and its last share of
    resets."""
    if not spec.bench.shapes:
        raise SpecError("`bench.shapes` is empty", place=spec.locate(("bench", "shapes")))
    shape, resets = spec.bench.shapes[0], wanted.resets
    for known in (shape.resets, *spec.bench.resets[::-1], 0.0):
        resets = known if resets is None else resets
    acts = phase is Phase.ACT
    return Cell(
        phase=phase,
        variant=variant_at(wanted.variant, spec, (*at, "variant")),
        batch=wanted.batch or shape.batch,
        steps=1 if acts else wanted.steps or shape.steps,
        resets=0.0 if acts else float(resets or 0.0),
        target=spec.bench.target,
    )


def variant_at(text: str, spec: Spec, at: KeyPath) -> Variant | Own:
    """The variant that ``text`` names, or the policy as it is. Raises SpecError at ``at``."""
    return parse_variant_or_own(text, spec.locate(at))


def with_reference(cells: Sequence[Cell], spec: Spec) -> list[Cell]:
    """``cells`` and the reference of each group, by whose speed those of another machine are
    compared."""
    reference = reference_of(spec)
    mine = [replace(cell, variant=reference) for cell in cells if cell.target == spec.bench.target]
    return unique([*cells, *mine])


def unique(cells: Iterable[Cell]) -> list[Cell]:
    """Each cell once, in order."""
    return list({cell.key: cell for cell in cells}.values())
