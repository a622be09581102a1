"""Which cells a sweep has: the product of the spec's lists, thinned by its rules."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from rnncheck.errors import SpecError, UserError, did_you_mean
from rnncheck.results.cells import Cell, Phase
from rnncheck.results.variant import Own, Variant, parse_variant
from rnncheck.spec.model import Spec
from rnncheck.spec.settings import BenchSpec, CellFilter, OverrideSpec, ShapeSpec

VARIANT_FIELDS = tuple(field.name for field in fields(Variant))
CELL_FIELDS = ("phase", "batch", "steps", "resets", "target")
OVERRIDES = tuple(OverrideSpec.model_fields)
RULE_FIELDS = (*VARIANT_FIELDS, *CELL_FIELDS, *OVERRIDES)
_COMPILE_MODES: dict[bool, str] = {False: "eager", True: "default"}


def plan_cells(spec: Spec, *, quick: bool = False) -> list[Cell]:
    """The cells of ``spec`` in order, each once. ``quick`` keeps the first shape and override,
    and no forward pass where training is asked for.

    Raises a SpecError for a rule that names no field of a cell, for an unknown reference, and where
    the rules leave nothing.
    """
    bench = spec.bench
    _check_rules(spec)
    reference_of(spec)
    cells = [cell for cell in _unique(_product(bench, quick=quick)) if _kept(cell, bench)]
    if not cells:
        raise SpecError(
            "the sweep is empty: no cell is left by `include` and `exclude`",
            place=spec.locate(("bench",)),
            hint="see the cells without rules: remove them and run `rnncheck bench --plan`",
        )
    return cells


def _unique(cells: Iterable[Cell]) -> list[Cell]:
    return list({cell.key: cell for cell in cells}.values())


def _product(bench: BenchSpec, *, quick: bool) -> Iterator[Cell]:
    shapes = bench.shapes[:1] if quick else bench.shapes
    overrides = bench.overrides[:1] if quick else bench.overrides
    left_out = {"forward"} if quick and "train" in bench.phases else set[str]()
    phases = [phase for phase in bench.phases if phase not in left_out]
    for phase, shape, override in itertools.product(phases, shapes, overrides):
        for resets in _resets(bench, shape, Phase(phase), quick=quick):
            for variant in swept_variants(bench):
                yield Cell(
                    phase=Phase(phase),
                    variant=variant,
                    batch=shape.batch,
                    steps=1 if phase == "act" else shape.steps,
                    resets=resets,
                    target=bench.target,
                    overrides=override.model_dump(exclude_none=True),
                )


def _resets(bench: BenchSpec, shape: ShapeSpec, phase: Phase, *, quick: bool) -> tuple[float, ...]:
    """Acting is one step: resets do not change what it costs."""
    if phase is Phase.ACT:
        return (0.0,)
    own = bench.resets if shape.resets is None else (shape.resets,)
    return own[-1:] if quick else own


def swept_variants(bench: BenchSpec) -> list[Variant]:
    """The product of what concerns the recurrent modules."""
    compiling = [_COMPILE_MODES.get(c, c) if isinstance(c, bool) else c for c in bench.compile]
    lists: list[Sequence[Any]] = [
        bench.backend, bench.recompute, bench.compute_dtype, bench.matmul_precision,
        bench.dtype, bench.python_based, compiling,
    ]  # fmt: skip
    return [Variant(*values) for values in itertools.product(*lists)]


def reference_of(spec: Spec) -> Variant:
    """What speed-ups are measured against."""
    try:
        return parse_variant(spec.bench.reference)
    except UserError as error:
        raise SpecError(
            error.message,
            place=spec.locate(("bench", "reference")),
            accepted=error.accepted,
            hint=error.hint,
        ) from None


def with_references(cells: Sequence[Cell], spec: Spec) -> list[Cell]:
    """``cells`` and, where a group lacks it, the reference cell: without it there is no
    speed-up."""
    reference = reference_of(spec)
    wanted = [*cells, *(replace(cell, variant=reference) for cell in cells)]
    order = list(dict.fromkeys(cell.group for cell in cells))
    return sorted(_unique(wanted), key=lambda cell: order.index(cell.group))


# --- rules -----------------------------------------------------------------------------------


def _check_rules(spec: Spec) -> None:
    for name in ("include", "exclude"):
        for index, rule in enumerate(getattr(spec.bench, name)):
            for key in rule:
                if key not in RULE_FIELDS:
                    raise SpecError(
                        f"bench.{name}: {key!r} is no field of a cell",
                        place=spec.locate(("bench", name, index, key)),
                        accepted=", ".join(RULE_FIELDS),
                        hint=did_you_mean(key, RULE_FIELDS),
                    )


def _kept(cell: Cell, bench: BenchSpec) -> bool:
    included = not bench.include or any(matches(cell, rule) for rule in bench.include)
    return included and not any(matches(cell, rule) for rule in bench.exclude)


def matches(cell: Cell, rule: CellFilter) -> bool:
    """Whether every field that ``rule`` names has one of the values that it allows."""
    values = fields_by_name(cell)
    return all(values.get(name) in _allowed(name, wanted) for name, wanted in rule.items())


def _allowed(name: str, wanted: Any) -> list[Any]:
    values = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
    if name == "compile":
        return [
            _COMPILE_MODES.get(value, value) if isinstance(value, bool) else value
            for value in values
        ]
    return values


def fields_by_name(cell: Cell) -> dict[str, Any]:
    """All fields of a cell by name."""
    variant = cell.variant
    own = {} if isinstance(variant, Own) else vars(variant)
    mine = {name: getattr(cell, name) for name in CELL_FIELDS}
    return {**own, **mine, "phase": str(cell.phase), **cell.overrides}


# --- groups -------------------------------------------------------------------------------------


def groups(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Cells that are compared with each other, in the order of the sweep; a bare module goes with
    its policy."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(replace(cell, target="policy").group, []).append(cell)
    return list(found.values())
