"""The cells of a sweep: a product, thinned by rules, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.bench.plan import groups, plan_cells, swept_variants, with_references
from rnncheck.errors import SpecError
from rnncheck.results.cells import Phase
from rnncheck.results.variant import Variant
from rnncheck.spec.load import load_spec
from rnncheck.spec.model import Spec

SPEC = Path("fixtures/specs/cartpole_dqn.yaml")


def spec_with(*overrides: str) -> Spec:
    return load_spec(SPEC, list(overrides))


def test_cells_are_the_product_and_acting_has_no_resets() -> None:
    cells = plan_cells(spec_with("bench.compile=[false, true]", "bench.resets=[0.0, 0.03]"))
    by_phase = {phase: [c for c in cells if c.phase is phase] for phase in Phase}
    assert len(by_phase[Phase.FORWARD]) == len(by_phase[Phase.TRAIN]) == 2 * 2 * 2
    assert [c.variant.label for c in by_phase[Phase.ACT]] == [
        "pad", "pad-compiled", "scan", "scan-compiled",
    ]  # fmt: skip
    assert {c.resets for c in by_phase[Phase.ACT]} == {0.0}
    assert len({c.key for c in cells}) == len(cells)


def test_rules_thin_the_product() -> None:
    excluded = plan_cells(spec_with("bench.exclude=[{backend: scan, phase: [train, act]}]"))
    assert not [
        c for c in excluded if c.variant == Variant("scan") and c.phase is not Phase.FORWARD
    ]
    included = plan_cells(spec_with("bench.include=[{phase: act, compile: false}]"))
    assert {c.phase for c in included} == {Phase.ACT}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bench.exclude=[{bakend: scan}]", "did you mean 'backend'"),
        ("bench.include=[{backend: triton}]", "no cell is left"),
        ("bench.reference=pat", "names no recurrent backend"),
    ],
)
def test_a_wrong_rule_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan_cells(spec_with(text))
    assert said in str(caught.value)


def test_the_reference_joins_every_group() -> None:
    spec = spec_with("bench.backend=[scan]", "bench.phases=[forward]")
    cells = with_references(plan_cells(spec), spec)
    assert all(
        {c.variant for c in group} == {Variant("scan"), Variant()} for group in groups(cells)
    )


def test_overrides_and_shapes_make_groups_of_their_own() -> None:
    spec = spec_with(
        "bench.overrides=[{hidden_size: 8}, {kind: GRU}]",
        "bench.shapes=[{batch: 2, steps: 4}, {batch: 3, steps: 4, resets: 0.5}]",
        "bench.phases=[forward]",
    )
    names = {group[0].group for group in groups(plan_cells(spec))}
    assert "forward, 3 x 4, 0.5 resets, kind GRU" in names
    assert len(names) == 2 * (2 + 1)


def test_the_default_variants_are_pad_and_scan() -> None:
    assert [variant.label for variant in swept_variants(spec_with().bench)] == ["pad", "scan"]
