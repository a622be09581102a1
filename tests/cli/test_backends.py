"""``verify --backends``: what is run, what is left out with a reason, and which backend a planted
fault is laid to."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
SPEC = """\
schema: 1
name: small
env: {use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}
policy:
  modules:
    - {use: LSTMModule, in_key: observation, out_key: features, hidden_size: 6MORE}
    - {use: MLP, in_keys: [features], out_keys: [action_value], num_cells: [], out_features: auto}
    - QValueModule
"""
HAS_TRITON = importlib.util.find_spec("triton") is not None


def verify(
    rnncheck: Any, folder: Path, *args: str, more: str = ""
) -> tuple[int, dict[str, Any], str]:
    """Exit code, checks by code, and standard error of a run of the two checks."""
    if not list(folder.glob("*.yaml")):
        (folder / "rnncheck.yaml").write_text(SPEC.replace("MORE", more), encoding="utf-8")
    spec = next(folder.glob("*.yaml")).name
    done = rnncheck(
        "verify",
        spec,
        "--select",
        "EQ207",
        "--select",
        "EQ208",
        "--report",
        "json",
        *args,
        cwd=folder,
    )
    found = json.loads(done.stdout) if done.stdout.strip() else {"checks": []}
    return done.returncode, {one["code"]: one for one in found["checks"]}, done.stderr


def test_who_names_backends_is_told_in_the_report_which_ran(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / "rnncheck.yaml").write_text(SPEC.replace("MORE", ""), encoding="utf-8")
    done = rnncheck("verify", "--select", "EQ207", "--backends", "pad,pad-python", cwd=tmp_path)
    assert "backends: pad, pad-python on the CPU: " in done.stdout
    plain = rnncheck("verify", "--select", "EQ207", cwd=tmp_path)
    assert "backends: " not in plain.stdout


def test_named_backends_are_run_and_what_cannot_is_said(rnncheck: Any, tmp_path: Path) -> None:
    code, checks, _ = verify(
        rnncheck,
        tmp_path,
        "--backends",
        "pad,scan-recompute,pad-python,triton-float64,pad-recompute",
    )
    assert code == 0
    reason = checks["EQ207"]["reason"]
    assert "pad, scan-recompute, pad-python on the CPU: 6x7x6, 1x7x6, 2x1x6" in reason
    assert "triton-float64 not run: " in reason
    assert "pad-recompute not run: recompute is for scan and triton alone" in reason
    assert checks["EQ208"]["outcome"] == "passed"


def test_without_a_choice_pad_and_the_own_backend_are_run(rnncheck: Any, tmp_path: Path) -> None:
    settings = ", recurrent_backend: scan, recurrent_recompute: full"
    code, checks, _ = verify(rnncheck, tmp_path, more=settings)
    assert code == 0
    assert checks["EQ207"]["reason"].startswith("pad, scan-recompute on the CPU: 6x7x6")


def test_a_backend_that_cannot_run_at_all_verifies_nothing(rnncheck: Any, tmp_path: Path) -> None:
    code, checks, _ = verify(
        rnncheck, tmp_path, "--backends", "scan", more=", num_layers: 2, dropout: 0.5"
    )
    assert code == 4
    assert checks["EQ207"]["outcome"] == checks["EQ208"]["outcome"] == "could-not-look"
    assert checks["EQ207"]["reason"] == "scan not run: the scan backend supports no dropout"


def test_an_unknown_backend_is_refused_before_anything_runs(rnncheck: Any, tmp_path: Path) -> None:
    code, _, said = verify(rnncheck, tmp_path, "--backends", "pad,scna")
    assert code == 2
    assert "'scna' names no recurrent backend" in said
    assert "did you mean 'scan'?" in said


@pytest.mark.skipif(HAS_TRITON, reason="triton is installed")
def test_without_triton_everything_else_is_run(rnncheck: Any, tmp_path: Path) -> None:
    code, checks, _ = verify(rnncheck, tmp_path, "--backends", "pad,triton")
    assert code == 0
    assert checks["EQ207"]["reason"].endswith("triton not run: triton is not installed")


@pytest.mark.gpu
def test_on_cuda_the_real_kernels_are_run(rnncheck: Any, tmp_path: Path) -> None:
    code, checks, _ = verify(rnncheck, tmp_path, "--backends", "all", "--set", "device=cuda")
    assert code == 0
    assert "triton" in checks["EQ207"]["reason"].partition(" on cuda")[0]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TRITON, reason="triton is not installed")
@pytest.mark.parametrize(
    ("fault", "failing", "message", "cause"),
    [
        (
            "state",
            "EQ207",
            "where a reset lies",
            "it takes the state stored one step before a reset",
        ),
        pytest.param(
            *("backward", "EQ208", "is wrong in gates g, o", "the backward pass"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_fault_in_triton_is_laid_to_triton(
    rnncheck: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    fault: str, failing: str, message: str, cause: str,
) -> None:  # fmt: skip
    for file in (ROOT / "fixtures" / "backends").glob("triton*"):
        shutil.copy(file, tmp_path)
    monkeypatch.setenv("TRITON_FAULT", fault)
    code, checks, _ = verify(rnncheck, tmp_path)
    assert code == 1
    (finding,) = checks[failing]["findings"]
    assert finding["message"].startswith("triton: ")
    assert message in finding["message"]
    assert finding["cause"].startswith(cause)
    assert finding["details"] == {"backends that agree with float64": "pad"}
    assert "interpreter" in finding["on"]
