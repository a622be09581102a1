"""PR901 to PR903 on cells of one's own, and through the CLI on what TorchRL's modules can be
asked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.collect import RunCollector
from rnncheck.results.model import CheckResult, Outcome
from rnncheck.spec.load import load_spec

ROOT = Path(__file__).parents[3]
BROKEN = ROOT / "fixtures" / "broken"
CARTPOLE = str(ROOT / "fixtures" / "specs" / "cartpole_dqn.yaml")
SMALL = ("--set", "policy.modules.1.hidden_size=16", "--set", "collect.frames_per_batch=64")
ARGUMENT = "policy.modules.1.recurrent_matmul_precision"

SPEC = """\
schema: 1
name: precision
env:
  use: GymEnv
  env_name: CartPole-v1
  transforms:
    - InitTracker
    - use: TensorDictPrimer
      h: {{use: Unbounded, shape: [16], dtype: {dtype}}}
      expand_specs: true
policy:
  modules:
    - {{factory: "precise_cells:{cell}"}}
    - {{use: MLP, in_keys: [embed], out_keys: [action_value], num_cells: [], out_features: auto}}
    - QValueModule
collect: {{use: Collector, frames_per_batch: 64, batches: 2}}
{more}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("precision")
    shutil.copy(Path(__file__).parent / "precise_cells.py", made)
    shutil.copy(BROKEN / "plain_cell.py", made)
    return made


def verified(
    folder: Path, cell: str, dtype: str = "float32", more: str = ""
) -> dict[str, CheckResult]:
    """The results of the family on a policy with this cell, by code."""
    file = folder / f"{cell}.yaml"
    file.write_text(SPEC.format(cell=cell, dtype=dtype, more=more))
    collector = RunCollector()
    spec = load_spec(file)
    for event in verify_events(spec, select_rules(spec, ["PR"])):
        collector(event)
    run = collector.finish(interrupted=False, seconds=0.0)
    return {check.code: check for check in run.checks}


def failed(results: dict[str, CheckResult]) -> set[str]:
    assert not [c for c in results.values() if c.outcome is Outcome.ERROR]
    return {code for code, check in results.items() if check.outcome is Outcome.FAILED}


@pytest.mark.parametrize(
    ("cell", "dtype"),
    [
        ("AutocastInside", "float32"),
        ("NarrowThroughout", "bfloat16"),
        pytest.param("Integrator", "float32", marks=pytest.mark.slow),
        pytest.param("Counter", "float32", marks=pytest.mark.slow),
        ("Normalised", "float32"),
        ("Quantised", "float32"),
        ("Discrete", "float32"),
        ("Cancelling", "float32"),
        pytest.param("SpectralNorm", "float32", marks=pytest.mark.slow),
        pytest.param("Huge", "float32", marks=pytest.mark.slow),
    ],
)
def test_what_is_meant_is_not_blamed(folder: Path, cell: str, dtype: str) -> None:
    assert failed(verified(folder, cell, dtype)) == set()


@pytest.mark.parametrize("cell", ["CastInside", "CastElementwise"])
def test_a_cast_that_nobody_asked_for_is_found_by_its_line(folder: Path, cell: str) -> None:
    results = verified(folder, cell)
    assert failed(results) == {"PR901"}
    (finding,) = results["PR901"].findings
    assert "sequential mode and recurrent mode" in finding.message
    assert finding.source is not None
    assert Path(finding.source.path).name == "precise_cells.py"
    text = dict(finding.source.frame)[finding.source.line]
    assert "bfloat16()" in text


@pytest.mark.parametrize(
    ("cell", "more", "place"),
    [
        ("RoundingWrapper", "", "RoundingWrapper module.0 of the policy writes it"),
        ("PlainCell", 'replay: {factory: "precise_cells:make_buffer"}\n', "training batch holds"),
    ],
)
def test_where_the_state_loses_its_bits_is_said(
    folder: Path, cell: str, more: str, place: str
) -> None:
    results = verified(folder, cell, more=more)
    assert failed(results) == {"PR903"}
    (finding,) = results["PR903"].findings
    assert place in finding.message
    assert (finding.measured, finding.bound) == (11, 24)


def asked(rnncheck: Any, *arguments: str, spec: str = CARTPOLE) -> dict[str, Any]:
    done = rnncheck("verify", spec, "--select", "PR901", "--report", "json", *arguments)
    (check,) = json.loads(done.stdout)["checks"]
    return check  # type: ignore[no-any-return]


def test_tensor_cores_are_skipped_on_the_cpu_with_the_reason(rnncheck: Any) -> None:
    check = asked(rnncheck, *SMALL, "--set", f"{ARGUMENT}=tf32")
    assert check["outcome"] == "could-not-look"
    assert "recurrent_matmul_precision=tf32" in check["reason"]
    assert "the CPU has no tensor cores" in check["reason"]


def test_what_a_preset_stands_for_is_measured(rnncheck: Any) -> None:
    check = asked(rnncheck, *SMALL, "--set", f"{ARGUMENT}=fast")
    assert check["outcome"] == "passed"
    assert "ieee by recurrent_matmul_precision=fast" in check["reason"]


def test_a_compute_dtype_that_the_backend_ignores_is_named(rnncheck: Any) -> None:
    dtype = "policy.modules.1.recurrent_compute_dtype=bfloat16"
    check = asked(rnncheck, *SMALL, "--set", dtype)
    assert check["outcome"] == "failed"
    (finding,) = check["findings"]
    assert "bfloat16 was asked for, by recurrent_compute_dtype=bfloat16" in finding["message"]
    assert "the pad backend ignores it" in finding["cause"]
    assert finding["measured"] < finding["bound"]


def test_the_variable_asks_of_every_module(rnncheck: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHRL_RNN_PRECISION", "ieee")
    spec = str(BROKEN / "pr901_precision_not_honoured.yaml")
    remove = "policy.modules.0.recurrent_matmul_precision=auto"
    check = asked(rnncheck, "--set", remove, spec=spec)
    assert check["outcome"] == "failed"
    assert "autocast" in check["findings"][0]["cause"]


def test_the_budget_is_the_users(rnncheck: Any) -> None:
    spec = str(BROKEN / "pr902_drift.yaml")
    budget = ("--set", "verify.drift=1e6")
    done = rnncheck("verify", spec, "--select", "PR902", "--strict", *budget)
    assert done.returncode == 0, done.stdout
    done = rnncheck("verify", spec, "--select", "PR902", "--strict", "-v", width=200)
    assert done.returncode == 1
    for curve in ("as it acts", "in recurrent mode", "emulated tf32x3", "emulated tf32"):
        assert f"{curve}: step 1: " in done.stdout
