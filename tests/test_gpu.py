"""`make gpu`, as far as it can be run without one: its steps, its tables, and how it stops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gpu
import gpu_verdicts
import pytest

from rnncheck.bench.plan import plan_cells
from rnncheck.results.encode import run_to_json
from rnncheck.results.variant import Variant
from rnncheck.spec.load import load_spec
from tests.report.swept import SWEEP

ROOT = Path(__file__).parent.parent
TURING = SimpleNamespace(name="Tesla T4", major=7, minor=5, total_memory=15 * 2**30)
HOPPER = SimpleNamespace(name="NVIDIA H100", major=9, minor=0, total_memory=79 * 2**30)


def test_without_cuda_it_stops_with_one_sentence() -> None:
    env = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "gpu.py")],
        env=env, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == gpu.NO_CUDA


def test_each_step_keeps_its_result_and_names_what_exists(tmp_path: Path) -> None:
    found = gpu.steps(tmp_path, "cuda", HOPPER)
    assert [step.name for step in found] == [
        "tests", "verify_cartpole_dqn", "verify_two_layer_lstm", "verify_gru_actor_critic",
        "verdicts", "scripts", "kernels", "sweep", "claims", "peers",
    ]  # fmt: skip
    for step in found[1:]:
        assert step.stores in " ".join(step.command)
        assert [word for word in step.command if word.endswith((".yaml", ".py"))]
    words = [word for step in found for word in step.command if word.endswith((".yaml", ".py"))]
    assert [word for word in words if not (ROOT / word).is_file()] == []
    assert "device=cuda" in found[1].command and "--claims" in found[8].command


@pytest.mark.parametrize(("card", "left_out"), [(TURING, True), (HOPPER, False), (None, False)])
def test_what_a_card_cannot_compute_is_left_out(card: Any, left_out: bool, tmp_path: Path) -> None:
    sweep = next(step for step in gpu.steps(tmp_path, "cuda", card) if step.name == "sweep")
    texts = [word for word in sweep.command if word.startswith("bench.")]
    cells = plan_cells(load_spec(ROOT / gpu.SWEEP, texts))
    variants = [cell.variant for cell in cells if isinstance(cell.variant, Variant)]
    assert {one.backend for one in variants} == {"pad", "scan", "triton", "auto"}
    assert {(cell.batch, cell.steps) for cell in cells if cell.steps > 1} == {
        (32, 64), (256, 128), (1024, 64),
    }  # fmt: skip
    precisions = {one.matmul_precision for one in variants}
    assert precisions == {"auto", "ieee"} | (set() if left_out else {"tf32", "tf32x3"})
    assert ("bfloat16" in {one.dtype for one in variants}) is not left_out


def test_a_card_is_described() -> None:
    assert gpu.described(HOPPER) == "NVIDIA H100, compute capability 9.0, 79 GiB"


def test_the_tables_say_what_was_measured_where_and_what_was_not() -> None:
    run = run_to_json(SWEEP)
    run["environment"]["gpu"] = "NVIDIA H100"
    lines = gpu.table_of(json.loads(json.dumps(run))).splitlines()
    packages = run["environment"]["packages"]
    assert lines[0] == (
        f"As measured on NVIDIA H100 (torch {packages['torch']}, TorchRL {packages['torchrl']}):"
    )
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert len(rows) == len(run["cells"])
    assert {row.count("|") for row in rows} == {6}
    for row, cell in zip(rows, run["cells"], strict=True):
        assert cell["label"].replace("|", "at") in row
        assert (cell["reason"] in row) if cell["timing"] is None else (" ms ±" in row)


def test_the_document_takes_the_tables_between_its_marks() -> None:
    text = gpu.MEASUREMENTS.read_text(encoding="utf-8")
    once = gpu.with_tables(text, ["| a |", "| b |"])
    assert gpu.with_tables(once, ["| c |"]).count("| a |") == 0
    assert once.partition(gpu.BEGIN)[0] == text.partition(gpu.BEGIN)[0]
    assert once.partition(gpu.END)[2] == text.partition(gpu.END)[2]
    with pytest.raises(ValueError, match="do not stand"):
        gpu.with_tables("nothing", [])


def test_a_step_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--device", "cpu", "--only", "swep"]) == 2
    assert capsys.readouterr().err == "error: there is no step swep\n"
    assert gpu.main(["--device", "cpu", "--list", "--only", "claims"]) == 0
    assert capsys.readouterr().out.startswith("claims: -m rnncheck bench")


@pytest.mark.slow
def test_verdicts_are_kept_with_where_they_were_found(tmp_path: Path) -> None:
    specs = ["fixtures/specs/cartpole_dqn.yaml", "fixtures/broken/wr102_missing_init_tracker.yaml"]
    kept = tmp_path / "runs.jsonl"
    assert gpu_verdicts.main([*specs, "--device", "cpu", "--jobs", "2", "--out", str(kept)]) == 0
    place, healthy, faulty = map(json.loads, kept.read_text(encoding="utf-8").splitlines())
    assert place["environment"]["device"] == "cpu"
    assert (healthy["spec"], healthy["failed"], healthy["not_looked"]) == (specs[0], {}, [])
    assert faulty["spec"] == specs[1]
    assert "WR102" in faulty["failed"]
    assert set(specs) <= set(gpu_verdicts.all_specs())


def test_a_spec_that_keeps_no_run_is_told_of(tmp_path: Path) -> None:
    kept = tmp_path / "runs.jsonl"
    assert gpu_verdicts.main(["no.yaml", "--device", "cpu", "--out", str(kept)]) == 1
    assert "no.yaml" in json.loads(kept.read_text(encoding="utf-8").splitlines()[1])["said"]


@pytest.mark.slow
def test_a_rehearsal_keeps_what_was_measured(tmp_path: Path) -> None:
    small = [
        "bench.shapes=[{batch: 4, steps: 8}]", "bench.compile=[false]", "bench.budget=240",
        "bench.interval=0.5", "bench.matmul_precision=[auto]", "bench.dtype=[float32]",
        "bench.phases=[forward]", "policy.modules.1.hidden_size=8",
    ]  # fmt: skip
    more = [word for text in small for word in ("--set", text)]
    before = gpu.MEASUREMENTS.read_text(encoding="utf-8")
    assert gpu.main(["--device", "cpu", "--out", str(tmp_path), *more, "--only", "sweep"]) == 0
    assert gpu.MEASUREMENTS.read_text(encoding="utf-8") == before
    sweep = json.loads((tmp_path / "gpu_sweep.json").read_text(encoding="utf-8"))
    rows = {cell["cell"]["variant"]: cell for cell in sweep["cells"]}
    assert rows["pad"]["status"] == rows["scan"]["status"] == "ok"
    assert rows["triton"]["status"] == "cannot"
    assert "ms ±" in gpu.table_of(sweep)


@pytest.mark.slow
def test_a_rehearsal_verifies_triton_under_its_interpreter(tmp_path: Path) -> None:
    step = "verify_cartpole_dqn"
    assert gpu.main(["--device", "cpu", "--out", str(tmp_path), "--only", step]) == 0
    verified = json.loads((tmp_path / f"gpu_{step}.json").read_text(encoding="utf-8"))
    checks = {one["code"]: one["outcome"] for one in verified["checks"]}
    assert checks["EQ207"] == "passed"
