"""All documented combinations at a glance: one row for each option of the recurrent modules, one column a backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rnncheck.pipeline.backends.facts import Facts
from rnncheck.pipeline.backends.matrix import Vmap, verdict
from rnncheck.pipeline.backends.precision import resolve, sources
from rnncheck.results.variant import BACKENDS, COMPILES, MATMUL_PRECISIONS, Variant

LSTM = Facts("lstm", 4, 16)
GRU = Facts("gru", 4, 16)
PLAIN = Variant()


@dataclass(frozen=True)
class Row:
    """An option: a module that has it, and how it is run."""

    option: str
    facts: Facts = LSTM
    variant: Variant = PLAIN
    vmap: Vmap = "none"


OPTIONS: tuple[Row, ...] = (
    Row("LSTM"),
    Row("GRU", GRU),
    Row("two layers, dropout", replace(LSTM, num_layers=2, dropout=0.1)),
    Row("proj_size", replace(LSTM, proj_size=8)),
    Row("bidirectional", replace(LSTM, bidirectional=True)),
    Row("python_based", variant=Variant(python_based=True)),
    Row("recompute full", variant=Variant(recompute="full")),
    Row("compute bfloat16", variant=Variant(compute_dtype="bfloat16")),
    *(
        Row(f"precision {n}", variant=Variant(matmul_precision=n))
        for n in MATMUL_PRECISIONS
        if n != "auto"
    ),
    Row("float64", variant=Variant(dtype="float64")),
    Row("bfloat16", variant=Variant(dtype="bfloat16")),
    Row("float16", variant=Variant(dtype="float16")),
    *(
        Row(f"compile {name}", variant=Variant(compile=name))
        for name in COMPILES
        if name != "eager"
    ),
    Row("vmap over data", vmap="data"),
    Row("vmap over parameters", vmap="parameters"),
)


@dataclass(frozen=True)
class Combination:
    """One option with one backend on one device: ``runs``, ``interpreted`` or ``cannot``, and why or what of it."""

    option: str
    backend: str
    device: str
    ability: str
    reason: str


def combinations(device: str) -> Iterator[Combination]:
    """Every option with every backend on ``device``."""
    for row in OPTIONS:
        for backend in BACKENDS:
            found = verdict(row.facts, replace(row.variant, backend=backend), device, vmap=row.vmap)
            yield Combination(row.option, backend, device, str(found.ability), found.reason)


@dataclass(frozen=True)
class Precision:
    """What the precision of a recurrent product is here when a module does not ask for one itself, and who says so."""

    auto: str
    source: str
    setting: str
    sources: dict[str, str]  # strongest first
    fast: str
    high_prec: str


def precision() -> Precision:
    """Resolved in this process, on its current device."""
    auto = resolve()
    return Precision(
        auto.mode,
        auto.source,
        auto.setting,
        sources(),
        resolve("fast").mode,
        resolve("high-prec").mode,
    )
