"""A variant as text and back."""

from __future__ import annotations

import itertools

import pytest

from rnncheck.errors import UserError
from rnncheck.results.variant import (
    BACKENDS,
    COMPILES,
    COMPUTE_DTYPES,
    DTYPES,
    MATMUL_PRECISIONS,
    RECOMPUTES,
    Variant,
    parse_variant,
)


def test_every_point_has_a_label_of_its_own_that_parses_back() -> None:
    fields = (
        BACKENDS,
        RECOMPUTES,
        COMPUTE_DTYPES,
        MATMUL_PRECISIONS,
        DTYPES,
        (False, True),
        COMPILES,
    )
    points = [Variant(*values) for values in itertools.product(*fields)]
    labels = {point.label: point for point in points}
    assert len(labels) == len(points)
    assert all(parse_variant(label) == point for label, point in labels.items())


@pytest.mark.parametrize(
    ("text", "variant"),
    [
        ("pad", Variant()),
        (" scan-recompute ", Variant("scan", recompute="full")),
        ("pad-compiled", Variant(compile="default")),
        ("scan-python-fullgraph", Variant("scan", python_based=True, compile="fullgraph")),
        ("triton-high-prec", Variant("triton", matmul_precision="high-prec")),
        ("scan-reduce-overhead", Variant("scan", compile="reduce-overhead")),
    ],
)
def test_a_text_is_read(text: str, variant: Variant) -> None:
    assert parse_variant(text) == variant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pda", "did you mean 'pad'"),
        ("", "names no recurrent backend"),
        ("scan-fullgrap", "did you mean 'fullgraph'"),
        ("pad-compiled-x", "'x' is not understood"),
    ],
)
def test_what_is_no_variant_is_refused_with_what_is(text: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_variant(text)
    assert said in str(raised.value)
    assert "accepted" in str(raised.value)
