"""Backends on the cases, held against the equations; the equations against torch.nn."""

from __future__ import annotations

import pytest
import torch

from rnncheck.numerics.rollout import rollout
from rnncheck.pipeline.backends.case import Case, other_sizes, short_case, standard_cases
from rnncheck.pipeline.backends.facts import Facts, new_module, rnn_parameters
from rnncheck.pipeline.backends.trial import CALL_WAYS, Refused, from_weights, run_trial
from rnncheck.results.variant import Variant, parse_variant

KINDS = {
    "lstm": Facts("lstm", 3, 5),
    "gru": Facts("gru", 3, 5),
    "layers": Facts("lstm", 3, 5, num_layers=2, bias=False),
    "gru layers": Facts("gru", 3, 5, num_layers=2),
    "projection": Facts("lstm", 3, 6, proj_size=2),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_equations_are_those_of_torch(name: str) -> None:
    facts = KINDS[name]
    module = new_module(facts, Variant(dtype="float64"))
    rnn = module.lstm if facts.kind == "lstm" else module.gru
    case = standard_cases(facts)[0]
    starts = torch.zeros_like(case.starts)
    stored = [part.double() for part in case.stored]
    with torch.no_grad():
        made = rollout(rnn_parameters(module), case.inputs.double(), starts, stored)
        first = tuple(part[:, 0].transpose(0, 1).contiguous() for part in stored)
        output, end = rnn(case.inputs.double(), first if len(first) == 2 else first[0])
    assert torch.allclose(made.outputs, output, rtol=0, atol=1e-14)
    ends = end if isinstance(end, tuple) else (end,)
    for state, value in zip(made.states, ends, strict=True):
        assert torch.allclose(state[:, -1].transpose(0, 1), value, rtol=0, atol=1e-14)


@pytest.mark.parametrize("text", ["pad", "scan-recompute", "pad-python", "auto"])
@pytest.mark.parametrize("name", ["lstm", "gru", "layers", "gru layers"])
def test_a_healthy_backend_is_the_equations(name: str, text: str) -> None:
    module = new_module(KINDS[name], Variant())
    for case in standard_cases(KINDS[name]):
        gave, truth = (
            run_trial(module, parse_variant(text), case),
            from_weights(rnn_parameters(module), case),
        )
        assert gave.values.keys() == truth.values.keys()
        assert gave.gradients.keys() == truth.gradients.keys()
        for name_, value in truth.values.items():
            assert torch.allclose(gave.values[name_].double(), value, rtol=0, atol=1e-6)
        scale = max(float(g.abs().max()) for g in truth.gradients.values())
        for name_, value in truth.gradients.items():
            close = torch.allclose(gave.gradients[name_].double(), value, rtol=0, atol=1e-5 * scale)
            assert close, name_


@pytest.mark.parametrize("kind", [pytest.param("lstm", marks=pytest.mark.slow), "gru"])
def test_scan_itself_is_the_equations(kind: str) -> None:
    facts = KINDS[kind]
    module, case = new_module(facts, Variant()), short_case(facts)
    gave, truth = (
        run_trial(module, Variant("scan"), case),
        from_weights(rnn_parameters(module), case),
    )
    assert torch.allclose(gave.values["output"].double(), truth.values["output"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("way", [way for way in CALL_WAYS if way != "vmap"])
def test_every_way_of_running_gives_the_same_bits(way: str) -> None:
    facts = KINDS["lstm"]
    module, case = new_module(facts, Variant()), standard_cases(facts)[-1]
    usual, other = run_trial(module, Variant(), case), run_trial(module, Variant(), case, way)
    assert all(torch.equal(usual.values[name], other.values[name]) for name in usual.values)


def test_vmap_over_scan_gives_the_same_numbers() -> None:
    facts = KINDS["lstm"]
    module, case = new_module(facts, Variant()), short_case(facts)
    usual, other = (run_trial(module, Variant("scan"), case, way) for way in ("call", "vmap"))
    assert torch.allclose(usual.values["output"], other.values["output"], rtol=0, atol=1e-6)
    with pytest.raises(Refused, match="vmap"):
        run_trial(module, Variant(), case, "vmap")


def test_a_frozen_module_has_gradients_and_the_original_is_untouched() -> None:
    facts = KINDS["gru"]
    module = new_module(facts, Variant()).requires_grad_(False)
    run_trial(module, Variant(), standard_cases(facts)[0])
    assert not any(p.requires_grad or p.grad is not None for p in module.parameters())


def test_what_a_backend_says_is_one_line() -> None:
    facts = KINDS["projection"]
    with pytest.raises(Refused) as raised:
        run_trial(new_module(facts, Variant()), Variant("scan"), short_case(facts))
    assert str(raised.value).startswith("NotImplementedError: ")
    assert "\n" not in str(raised.value)


def test_a_module_that_writes_into_its_inputs_does_not_change_the_case() -> None:
    facts = KINDS["lstm"]
    module = new_module(facts, Variant())
    inner = module.forward

    def forward(td: object) -> object:
        out = inner(td)
        td["h"].data.zero_()
        return out

    module.forward = forward
    case = standard_cases(facts)[0]
    before = case.stored[0].clone()
    run_trial(module, Variant(), case)
    assert torch.equal(case.stored[0], before)


def test_the_cases_have_resets_in_every_place_and_awkward_shapes() -> None:
    facts = KINDS["lstm"]
    rows, one_row, one_step, strided = standard_cases(facts)
    starts = dict(zip(rows.kinds, rows.starts, strict=True))
    assert not starts["no reset"].any()
    assert starts["a reset at every step"].all()
    assert starts["a reset at step 0"].nonzero().tolist() == [[0]]
    assert starts["a reset at the last step"].nonzero().tolist() == [[rows.starts.shape[1] - 1]]
    assert starts["resets anywhere"][1:].any()
    assert one_row.starts.shape[0] == one_step.starts.shape[1] == 1
    assert not strided.inputs.is_contiguous()
    assert not strided.stored[0].is_contiguous()
    assert all(float(part.abs().min()) > 0 for part in rows.stored)
    sizes = list(other_sizes(facts))
    assert all(size.hidden_size & (size.hidden_size - 1) for size in sizes)
    assert max(size.num_layers for size in sizes) > 1


def test_the_end_of_a_segment_is_the_step_before_a_start() -> None:
    starts = torch.tensor([[True, False, True, False]])
    case = Case("x", torch.zeros(1, 4, 1), starts, ())
    assert case.ends.tolist() == [[False, True, False, True]]
