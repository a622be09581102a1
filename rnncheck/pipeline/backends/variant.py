"""One way to run an LSTMModule or GRUModule: a point in the space of backends, precisions and compilation.

As text a variant is its backend followed by what differs from the defaults, joined by hyphens: ``pad``,
``scan-recompute``, ``pad-compiled``, ``triton-tf32x3-compute_bfloat16``. ``label`` and ``parse`` are inverses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rnncheck.errors import Place, SpecError, did_you_mean

Backend = Literal["pad", "scan", "triton", "auto"]
Recompute = Literal["none", "full"]
ComputeDtype = Literal["float32", "bfloat16"]
MatmulPrecision = Literal["auto", "ieee", "tf32", "tf32x3", "fast", "high-prec"]
Dtype = Literal["float64", "float32", "bfloat16", "float16"]
Compile = Literal["eager", "default", "reduce-overhead", "fullgraph"]

OWN: Final = "own"  # in the place of a variant's label: the policy as it is, nothing exchanged
BACKENDS: Final[tuple[Backend, ...]] = ("pad", "scan", "triton", "auto")
RECOMPUTES: Final[tuple[Recompute, ...]] = ("none", "full")
COMPUTE_DTYPES: Final[tuple[ComputeDtype, ...]] = ("float32", "bfloat16")
PRECISIONS: Final[tuple[MatmulPrecision, ...]] = (
    "auto", "ieee", "tf32", "tf32x3", "fast", "high-prec",
)  # fmt: skip
DTYPES: Final[tuple[Dtype, ...]] = ("float64", "float32", "bfloat16", "float16")
COMPILES: Final[tuple[Compile, ...]] = ("eager", "default", "reduce-overhead", "fullgraph")


@dataclass(frozen=True)
class Variant:
    """How a recurrent module runs. Every field has a concrete value; names are TorchRL's and torch's own."""

    backend: Backend = "pad"
    recompute: Recompute = "none"
    compute_dtype: ComputeDtype = "float32"
    matmul_precision: MatmulPrecision = "auto"
    dtype: Dtype = "float32"
    python_based: bool = False
    compile: Compile = "eager"

    @property
    def label(self) -> str:
        """The shortest text that ``parse`` turns into this variant."""
        return "-".join([self.backend, *_words(self)])

    def __str__(self) -> str:
        return self.label


# What each word after the backend changes.
WORDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "recompute": {"recompute": "full"},
    **{f"compute_{name}": {"compute_dtype": name} for name in COMPUTE_DTYPES if name != "float32"},
    **{name: {"matmul_precision": name} for name in PRECISIONS if name != "auto"},
    **{name: {"dtype": name} for name in DTYPES if name != "float32"},
    "python": {"python_based": True},
    "compiled": {"compile": "default"},
    "reduce-overhead": {"compile": "reduce-overhead"},
    "fullgraph": {"compile": "fullgraph"},
}


def _words(variant: Variant) -> Iterator[str]:
    for word, change in WORDS.items():
        if all(getattr(variant, name) == value for name, value in change.items()):
            yield word


def parse(text: str, place: Place | None = None) -> Variant:
    """The variant that ``text`` names; a SpecError at ``place`` says what is accepted."""
    backend, _, rest = text.strip().partition("-")
    if backend not in BACKENDS:
        raise SpecError(
            f"{text!r} names no recurrent backend",
            place=place,
            accepted=f"{', '.join(BACKENDS)}, each also with what differs, e.g. scan-recompute",
            hint=did_you_mean(backend, BACKENDS),
        )
    variant = Variant(backend=backend)
    while rest:
        word = _first_word(rest)
        if word is None:
            raise SpecError(
                f"{text!r}: {rest!r} is not understood after the backend",
                place=place,
                accepted=f"joined by hyphens: {', '.join(WORDS)}",
                hint=did_you_mean(rest, WORDS),
            )
        variant = replace(variant, **WORDS[word])
        rest = rest[len(word) + 1 :]
    return variant


def _first_word(rest: str) -> str | None:
    """The known word that ``rest`` begins with; some of them contain a hyphen themselves."""
    fitting = [word for word in WORDS if rest == word or rest.startswith(f"{word}-")]
    return max(fitting, key=len, default=None)
