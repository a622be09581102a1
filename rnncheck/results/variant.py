"""One way to run an LSTMModule or GRUModule: a backend, its precisions and how it is compiled.

As text a variant is its backend followed by what differs from the defaults, joined by hyphens:
``pad``, ``scan-recompute``, ``pad-compiled``, ``triton-compute_bfloat16-tf32x3``. ``label`` and
``parse_variant`` are inverses. Plain data: what a variant does to a module is the pipeline's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from rnncheck.errors import Place, SpecError, did_you_mean

Backend = Literal["pad", "scan", "triton", "auto"]
Recompute = Literal["none", "full"]
ComputeDtype = Literal["float32", "bfloat16"]
MatmulPrecision = Literal["auto", "ieee", "tf32", "tf32x3", "fast", "high-prec"]
Dtype = Literal["float64", "float32", "bfloat16", "float16"]
Compile = Literal["eager", "default", "reduce-overhead", "fullgraph"]

BACKENDS: Final[tuple[Backend, ...]] = ("pad", "scan", "triton", "auto")
RECOMPUTES: Final[tuple[Recompute, ...]] = ("none", "full")
COMPUTE_DTYPES: Final[tuple[ComputeDtype, ...]] = ("float32", "bfloat16")
MATMUL_PRECISIONS: Final[tuple[MatmulPrecision, ...]] = (
    "auto", "ieee", "tf32", "tf32x3", "fast", "high-prec",
)  # fmt: skip
DTYPES: Final[tuple[Dtype, ...]] = ("float64", "float32", "bfloat16", "float16")
COMPILES: Final[tuple[Compile, ...]] = ("eager", "default", "reduce-overhead", "fullgraph")


@dataclass(frozen=True)
class Variant:
    """How a recurrent module runs. Every field has a concrete value.

    Names are TorchRL's and torch's own.
    """

    backend: Backend = "pad"
    recompute: Recompute = "none"
    compute_dtype: ComputeDtype = "float32"
    matmul_precision: MatmulPrecision = "auto"
    dtype: Dtype = "float32"
    python_based: bool = False
    compile: Compile = "eager"

    @property
    def label(self) -> str:
        """The shortest text that ``parse_variant`` turns into this variant."""
        return "-".join([self.backend, *_words(self)])

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True)
class Own:
    """In the place of a variant: the policy as it is, nothing exchanged."""

    @property
    def label(self) -> str:
        """As a spec and a stored result write it."""
        return "own"

    def __str__(self) -> str:
        return self.label


OWN: Final = Own()

# What each word after the backend changes.
_WORDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "recompute": {"recompute": "full"},
    **{f"compute_{name}": {"compute_dtype": name} for name in COMPUTE_DTYPES if name != "float32"},
    **{name: {"matmul_precision": name} for name in MATMUL_PRECISIONS if name != "auto"},
    **{name: {"dtype": name} for name in DTYPES if name != "float32"},
    "python": {"python_based": True},
    "compiled": {"compile": "default"},
    "reduce-overhead": {"compile": "reduce-overhead"},
    "fullgraph": {"compile": "fullgraph"},
}


def _words(variant: Variant) -> Iterator[str]:
    for word, change in _WORDS.items():
        if all(getattr(variant, name) == value for name, value in change.items()):
            yield word


def parse_variant(text: str, place: Place | None = None) -> Variant:
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
                accepted=f"joined by hyphens: {', '.join(_WORDS)}",
                hint=did_you_mean(rest, _WORDS),
            )
        variant = replace(variant, **_WORDS[word])
        rest = rest[len(word) + 1 :]
    return variant


def _first_word(rest: str) -> str | None:
    """The known word that ``rest`` begins with; some of them contain a hyphen themselves."""
    fitting = [word for word in _WORDS if rest == word or rest.startswith(f"{word}-")]
    return max(fitting, key=len, default=None)


def parse_variant_or_own(text: str, place: Place | None = None) -> Variant | Own:
    """The same where ``own`` is accepted, too."""
    if text == OWN.label:
        return OWN
    try:
        return parse_variant(text, place)
    except SpecError as error:
        accepted = f"{OWN.label}; {error.accepted}"
        raise SpecError(
            error.message, place=error.place, accepted=accepted, hint=error.hint
        ) from None


class _ReadFromLabel:
    """Makes pydantic read a stored label; pydantic is imported when it does."""

    @staticmethod
    def __get_pydantic_core_schema__(source: object, handler: object) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(_read)


def _read(value: object) -> Variant | Own:
    from pydantic_core import PydanticCustomError

    if isinstance(value, Variant | Own):
        return value
    try:
        return parse_variant_or_own(value if isinstance(value, str) else repr(value))
    except SpecError as error:
        raise PydanticCustomError("variant", "{said}", {"said": error.message}) from error


CellVariant = Annotated[Variant | Own, _ReadFromLabel]
