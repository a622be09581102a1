"""All documented combinations at a glance: one row for each option of the recurrent modules, one
column a backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rnncheck.pipeline.backends.facts import Facts
from rnncheck.pipeline.backends.matrix import Vmap, backend_verdict
from rnncheck.pipeline.backends.precision import precision_sources, resolve
from rnncheck.results.variant import BACKENDS, COMPILES, MATMUL_PRECISIONS, Variant

LSTM = Facts("lstm", 4, 16)
GRU = Facts("gru", 4, 16)
PLAIN = Variant()


@dataclass(frozen=True)
class _Option:
    """An option: a module that has it, and how it is run."""

    option: str
    facts: Facts = LSTM
    variant: Variant = PLAIN
    vmap: Vmap = "none"


OPTIONS: tuple[_Option, ...] = (
    _Option("LSTM"),
    _Option("GRU", GRU),
    _Option("two layers, dropout", replace(LSTM, num_layers=2, dropout=0.1)),
    _Option("proj_size", replace(LSTM, proj_size=8)),
    _Option("bidirectional", replace(LSTM, bidirectional=True)),
    _Option("python_based", variant=Variant(python_based=True)),
    _Option("recompute full", variant=Variant(recompute="full")),
    _Option("compute bfloat16", variant=Variant(compute_dtype="bfloat16")),
    *(
        _Option(f"precision {n}", variant=Variant(matmul_precision=n))
        for n in MATMUL_PRECISIONS
        if n != "auto"
    ),
    _Option("float64", variant=Variant(dtype="float64")),
    _Option("bfloat16", variant=Variant(dtype="bfloat16")),
    _Option("float16", variant=Variant(dtype="float16")),
    *(
        _Option(f"compile {name}", variant=Variant(compile=name))
        for name in COMPILES
        if name != "eager"
    ),
    _Option("vmap over data", vmap="data"),
    _Option("vmap over parameters", vmap="parameters"),
)


@dataclass(frozen=True)
class Combination:
    """One option with one backend on one device: ``runs``, ``interpreted`` or ``cannot``, and why
    or what of it."""

    option: str
    backend: str
    device: str
    ability: str
    reason: str


def combinations(device: str) -> Iterator[Combination]:
    """Every option with every backend on ``device``."""
    for row in OPTIONS:
        for backend in BACKENDS:
            found = backend_verdict(
                row.facts, replace(row.variant, backend=backend), device, vmap=row.vmap
            )
            yield Combination(row.option, backend, device, str(found.ability), found.reason)


@dataclass(frozen=True)
class ProcessPrecision:
    """What the precision of a recurrent product is here when a module does not ask for one itself,
    and who says so."""

    auto: str
    source: str
    setting: str
    sources: dict[str, str]  # strongest first
    fast: str
    high_prec: str


def precision() -> ProcessPrecision:
    """Resolved in this process, on its current device."""
    auto = resolve()
    return ProcessPrecision(
        auto.mode,
        auto.source,
        auto.setting,
        precision_sources(),
        resolve("fast").mode,
        resolve("high-prec").mode,
    )
