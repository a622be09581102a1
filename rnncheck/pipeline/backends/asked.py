"""Which variants a run looks at: what was asked for by name, or the module's own and pad."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pydantic import BaseModel
from torch import nn

from rnncheck.pipeline.backends.facts import variant_of
from rnncheck.pipeline.backends.swap import own_variant
from rnncheck.results.variant import Variant, parse_variant
from rnncheck.spec.model import Component, Spec

EVERY = "all"
EAGER = (
    "pad", "pad-python", "scan", "scan-recompute", "auto", "triton", "triton-recompute",
)  # fmt: skip
# Slow to start or of another precision: part of `all` under --thorough, and by name.
MORE = (
    "pad-compiled", "scan-compiled", "auto-compiled", "scan-python-fullgraph",
    "pad-float64", "scan-float64", "pad-bfloat16", "scan-bfloat16", "pad-float16", "scan-float16",
    "triton-float16", "triton-compute_bfloat16",
)  # fmt: skip


def is_named(asked: Sequence[str]) -> bool:
    """Whether the user named backends: then more cases of each are run."""
    return bool(asked)


def check_asked(spec: Spec) -> None:
    """Raise a SpecError at the entry of ``verify.backends`` that is neither ``all`` nor a
    variant."""
    for index, text in enumerate(spec.verify.backends):
        place = spec.locate(("verify", "backends", index))
        if text != EVERY:
            parse_variant(text, place)


def expand(module: nn.Module, asked: Sequence[str], *, thorough: bool = False) -> list[Variant]:
    """The variants for one module, each once; dtype and precisions are the module's own unless
    named."""
    if not asked:
        own = variant_of(module)
        return list(dict.fromkeys([own_variant(module, "pad"), own]))
    every = (*EAGER, *MORE) if thorough else EAGER
    texts = [word for text in asked for word in (every if text == EVERY else (text,))]
    return list(dict.fromkeys(_as_own(parse_variant(text), module) for text in texts))


def _as_own(named: Variant, module: nn.Module) -> Variant:
    own, plain = variant_of(module), Variant()
    fields = ("dtype", "compute_dtype", "matmul_precision")
    kept = {
        name: getattr(own, name) for name in fields if getattr(named, name) == getattr(plain, name)
    }
    return replace(named, **kept)


def factory_modules(spec: Spec) -> tuple[tuple[str, str], ...]:
    """``(folder, module)`` of every factory that the spec names: they may change TorchRL when they
    are imported."""
    folder = str(spec.folder)
    names = (component.factory for component in _components(spec) if component._live is None)
    modules = [name.partition(":")[0] for name in names if name]
    return tuple((folder, module) for module in dict.fromkeys(modules))


def _components(value: object) -> Iterator[Component]:
    if isinstance(value, Component):
        yield value
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _components(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _components(item)
