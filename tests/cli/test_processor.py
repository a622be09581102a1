"""A kernel that the processor lacks is a sentence in every command, and no one's fault: exit 4."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.extent import rows
from tests.processor import IS_X86, LAYERS, PLAIN, said_by

SPEC = """\
schema: 1
name: narrow
env: {use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}
policy: POLICY
collect: {use: Collector, frames_per_batch: 32, batches: 1}
bench: {shapes: [{batch: 4, steps: 8}], phases: [forward], backend: [pad, scan], budget: 100}
"""
MODULES = """
  modules:
    - {factory: "narrow:make_lstm", dtype: DTYPE}
    - {use: MLP, in_keys: [embed], out_keys: [action_value], num_cells: [], out_features: auto}
    - QValueModule
"""
WHOLE = '{factory: "narrow:make_policy"}'
SENTENCE = "cannot run here: this processor ("
LSTM = "bfloat16 LSTM under autocast"
lesser = pytest.mark.skipif(not IS_X86, reason="only x86 has a lesser processor to pretend")


@pytest.fixture(params=rows(["this processor", "a lesser one"], ["this processor"]))
def raised(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What torch alone raises there, layer by layer."""
    variables = PLAIN if request.param == "a lesser one" else {}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found: dict[str, str] = said_by(LAYERS, **variables)
    assert found[LSTM] or not variables or not IS_X86
    return found


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(Path(__file__).parent / "narrow.py", tmp_path)
    (tmp_path / "whole.yaml").write_text(SPEC.replace("POLICY", WHOLE))
    for dtype in ("bfloat16", "float16"):
        modules = MODULES.replace("DTYPE", dtype)
        (tmp_path / f"{dtype}.yaml").write_text(SPEC.replace("POLICY", modules))
    return tmp_path


def told(rnncheck: Any, folder: Path, command: str, *args: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the run; nothing of a traceback may be printed."""
    done = rnncheck(command, *args, "--report", "json", cwd=folder)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.slow
def test_doctor_says_what_the_processor_lacks(rnncheck: Any, raised: dict[str, str]) -> None:
    found = {one["name"]: one for one in json.loads(rnncheck("doctor", "--json").stdout)["narrow"]}
    assert {name for name in found if not found[name]["works"]} == set(filter(raised.get, raised))
    for name, one in found.items():
        assert one["works"] != one["detail"].startswith(f"{name.partition(' ')[0]} {SENTENCE}")


def test_a_policy_that_cannot_run_here_is_not_verified(
    rnncheck: Any, folder: Path, raised: dict[str, str]
) -> None:
    families = ("--select", "WR", "--select", "PR901")
    code, run = told(rnncheck, folder, "verify", "whole.yaml", *families)
    checks = {one["code"]: one for one in run["checks"]}
    (collect,) = [one for one in run["stages"] if one["stage"] == "collect"]
    if not raised[LSTM]:
        assert (code, checks["PR901"]["outcome"], collect["outcome"]) == (0, "passed", "passed")
        return
    assert (code, run["verdict"]) == (4, "not-shown")
    assert collect["outcome"] == "could-not-look"
    assert collect["detail"].startswith(f"bfloat16 {SENTENCE}")
    assert collect["detail"].endswith(f"(narrow.py:{line_that_raises()})")
    for name in ("PR901", "WR110"):
        assert checks[name]["outcome"] == "could-not-look"
        assert f"bfloat16 {SENTENCE}" in checks[name]["reason"]
    assert "failed" not in {one["outcome"] for one in run["checks"]}


def line_that_raises() -> int:
    lines = (Path(__file__).parent / "narrow.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if "this line raises" in line)


@lesser
@pytest.mark.parametrize("dtype", rows(["bfloat16", "float16"], ["float16"]))
@pytest.mark.usefixtures("plain")
def test_without_a_module_that_runs_every_check_says_why(
    rnncheck: Any, folder: Path, dtype: str
) -> None:
    code, run = told(rnncheck, folder, "verify", f"{dtype}.yaml")
    assert code == 4
    assert {one["outcome"] for one in run["checks"]} == {"could-not-look"}
    (reason,) = {one["reason"] for one in run["checks"]}
    assert SENTENCE in reason and dtype in reason
    assert reason.endswith(f"(narrow.py:{line_that_raises()})")


@pytest.mark.slow
@lesser
@pytest.mark.parametrize("spec", rows(["whole.yaml", "bfloat16.yaml"], ["bfloat16.yaml"]))
@pytest.mark.usefixtures("plain")
def test_a_sweep_has_the_reason_in_every_row(rnncheck: Any, folder: Path, spec: str) -> None:
    code, run = told(rnncheck, folder, "bench", spec)
    assert code == 4
    assert len(run["cells"]) == 4
    for cell in run["cells"]:
        assert cell["status"] == "cannot"
        assert cell["reason"].startswith(f"bfloat16 {SENTENCE}")


@lesser
@pytest.mark.usefixtures("plain")
def test_what_is_narrow_itself_runs_there(rnncheck: Any, folder: Path) -> None:
    spec = str(Path(__file__).parents[2] / "fixtures" / "specs" / "cartpole_dqn.yaml")
    small = ("--set", "policy.modules.1.hidden_size=8", "--set", "collect.frames_per_batch=32")
    named = ("--select", "EQ207", "--backends", "pad-bfloat16,pad-float16")
    code, run = told(rnncheck, folder, "verify", spec, *small, *named)
    assert code == 0
    assert "pad-bfloat16, pad-float16 on the CPU" in run["checks"][0]["reason"]


@pytest.mark.slow
@lesser
@pytest.mark.usefixtures("plain")
def test_the_selftest_blames_nobody(rnncheck: Any, folder: Path) -> None:
    done = rnncheck("selftest", "bfloat16.yaml", cwd=folder)
    assert done.returncode == 4
    assert f"bfloat16 {SENTENCE}" in " ".join(done.stdout.split())
    assert "repair it" not in done.stdout
