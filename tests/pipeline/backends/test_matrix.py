"""The matrix against what TorchRL does: what runs does run, what cannot raises, and every reason is
true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rnncheck.numerics.kernels import LayerTrial
from rnncheck.pipeline.backends.case import standard_cases
from rnncheck.pipeline.backends.facts import Facts, new_module
from rnncheck.pipeline.backends.matrix import Ability, Machine, Vmap, backend_verdict, this_machine
from rnncheck.pipeline.backends.trial import Refused, run_trial
from rnncheck.results.variant import Variant, parse_variant

LSTM, GRU = Facts("lstm", 3, 5), Facts("gru", 3, 5)
MODULES = {
    "lstm": LSTM,
    "gru": GRU,
    "no bias": replace(LSTM, bias=False),
    "dropout": replace(LSTM, num_layers=2, dropout=0.5),
    "gru dropout": replace(GRU, num_layers=2, dropout=0.5),
    "projection": replace(LSTM, proj_size=2),
    "bidirectional": replace(LSTM, bidirectional=True),
    "gru bidirectional": replace(GRU, bidirectional=True),
}
VARIANTS = (
    "pad", "pad-python", "pad-float64", "pad-bfloat16", "pad-float16", "pad-recompute",
    "auto", "auto-recompute", "scan-recompute", "scan-python-recompute",
    "scan-recompute-bfloat16", "pad-tf32", "pad-compute_bfloat16",
)  # fmt: skip
HERE = Machine(
    cuda=False, torch="2.13.0", hoptorch="0.1.4", triton="3.9.0", numpy="2.4.6", compiler=True
)


def no_kernel(trial: LayerTrial) -> str:
    return f"no kernel for {trial.label}"


@pytest.mark.parametrize("text", VARIANTS)
@pytest.mark.parametrize("name", MODULES)
def test_a_verdict_is_what_happens(name: str, text: str) -> None:
    facts, variant = MODULES[name], parse_variant(text)
    answer = backend_verdict(facts, variant)
    if answer.runs:
        run_trial(new_module(replace(facts), Variant()), variant, standard_cases(facts)[0])
        return
    assert answer.reason
    with pytest.raises((ValueError, RuntimeError, NotImplementedError, Refused)):
        module = new_module(
            facts, variant
        )  # some are refused when they are built, some when they run
        run_trial(module, variant, standard_cases(facts)[0])


@pytest.mark.parametrize(
    ("change", "facts", "text", "said"),
    [
        ({"hoptorch": ""}, LSTM, "scan", "hoptorch"),
        ({"hoptorch": ""}, LSTM, "auto-compiled", "hoptorch"),
        ({"torch": "2.5.1"}, LSTM, "scan", "torch 2.6"),
        ({"triton": ""}, LSTM, "triton", "not installed"),
        ({"triton": "2.1"}, LSTM, "triton", "2.2 or newer"),
        ({"triton": "3.6.0"}, LSTM, "triton", "fails with numpy"),
        ({"triton": "3.6.0", "numpy": "2.1"}, LSTM, "triton", "not one that was tried"),
        ({"triton": "4.1"}, LSTM, "triton", "not one that was tried"),
        ({"compiler": False}, LSTM, "pad-compiled", "C++ compiler"),
        ({"settings": False}, LSTM, "scan", "0.13"),
        ({"missing": no_kernel}, LSTM, "pad-bfloat16", "no kernel for bfloat16 LSTM"),
        ({"missing": no_kernel}, GRU, "auto-float16", "no kernel for float16 GRU"),
        ({}, LSTM, "triton-float64", "float32"),
        ({}, LSTM, "triton-bfloat16", "bfloat16"),
        ({}, LSTM, "triton-compiled", "CUDA"),
        ({}, LSTM, "pad-fullgraph", "full graph"),
        ({}, LSTM, "scan-fullgraph", "python_based"),
        ({}, GRU, "scan-python-fullgraph", "GRUModule"),
        ({"cuda": True}, LSTM, "triton", "CUDA device that is here"),
    ],
)
def test_what_a_machine_lacks_is_said(
    change: dict[str, Any], facts: Facts, text: str, said: str
) -> None:
    answer = backend_verdict(facts, parse_variant(text), machine=replace(HERE, **change))
    assert answer.ability is Ability.CANNOT
    assert said in answer.reason


@pytest.mark.parametrize("text", ["pad", "pad-float64", "scan-bfloat16", "pad-python-bfloat16"])
def test_what_needs_no_kernel_of_the_processor_runs_without_it(text: str) -> None:
    assert backend_verdict(LSTM, parse_variant(text), machine=replace(HERE, missing=no_kernel)).runs


def test_triton_is_interpreted_without_cuda_and_real_with_it() -> None:
    assert (
        backend_verdict(LSTM, parse_variant("triton"), machine=HERE).ability is Ability.INTERPRETED
    )
    with_cuda = replace(HERE, cuda=True)
    assert (
        backend_verdict(LSTM, parse_variant("triton"), "cuda", machine=with_cuda).ability
        is Ability.RUNS
    )
    assert "no CUDA" in backend_verdict(LSTM, parse_variant("pad"), "cuda:0", machine=HERE).reason


def test_what_the_triton_backend_hands_to_pad_needs_no_gpu() -> None:
    answer = backend_verdict(replace(LSTM, proj_size=2), parse_variant("triton"), machine=HERE)
    assert answer.ability is Ability.RUNS
    assert "pad backend" in answer.reason


@pytest.mark.parametrize(
    ("facts", "text", "vmap", "runs"),
    [
        (LSTM, "pad", "data", False),
        (LSTM, "scan", "data", True),
        (LSTM, "scan", "parameters", False),
        (LSTM, "scan-recompute", "data", False),
        (GRU, "scan", "data", False),
        (LSTM, "triton", "data", False),
    ],
)
def test_vmap_is_allowed_where_it_is(facts: Facts, text: str, vmap: Vmap, runs: bool) -> None:
    assert backend_verdict(facts, parse_variant(text), vmap=vmap, machine=HERE).runs is runs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pad-tf32", "no effect"),
        ("scan-compute_bfloat16", "ignored by scan"),
        ("triton-ieee", "no effect"),
        ("scan-reduce-overhead", "CUDA graphs"),
        ("auto-compiled", "ensure_scan_backward"),
    ],
)
def test_a_setting_without_effect_is_remarked(text: str, said: str) -> None:
    answer = backend_verdict(LSTM, parse_variant(text), machine=HERE)
    assert answer.runs
    assert said in answer.reason


def test_this_machine_is_looked_at() -> None:
    machine = this_machine()
    assert machine.torch.startswith("2.")
    assert machine.settings
