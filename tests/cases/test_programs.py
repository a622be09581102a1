"""Programs that show a fault on TorchRL alone: those in fixtures/upstream, and what `rnncheck
replay ID --script` writes. Each exits 1, and 0 where the fault is mended."""

from __future__ import annotations

import ast
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rnncheck.cli.app import app
from rnncheck.results.exit_codes import ExitCode

ROOT = Path(__file__).parents[2]
UPSTREAM = ROOT / "fixtures" / "upstream"
PROGRAMS = sorted(UPSTREAM.glob("*.py"))
MOST_LINES = 60
ALONE = {"sys", "torch", "tensordict", "torchrl"}
STOCK = """\
schema: 1
name: stock-dqn
env:
  use: GymEnv
  env_name: CartPole-v1
  categorical_action_encoding: true
  transforms: [InitTracker]
policy:
  modules:
    - {use: LSTMModule, in_key: observation, out_key: embed, hidden_size: 16}
    - {use: MLP, in_keys: [embed], out_keys: [action_value], num_cells: [], out_features: auto}
    - QValueModule
collect: {use: Collector, frames_per_batch: 96, batches: 2}
replay:
  storage: {use: LazyTensorStorage, max_size: 400}
  sampler: {use: SliceSampler, slice_len: 8, traj_key: [collector, traj_ids], strict_length: false}
  batch_size: 64
loss: {use: DQNLoss, delay_value: true, action_space: categorical}
"""


def imported(text: str) -> set[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


def test_there_are_four() -> None:
    assert len(PROGRAMS) == 4
    told = (UPSTREAM / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in PROGRAMS if f"`{path.name}`" not in told] == []


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.stem))
def test_a_fault_of_torchrl_shows_until_it_is_mended(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < MOST_LINES
    assert imported(text) <= ALONE
    for arguments, code in ([], True), (["--mended"], False):
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(path), run_name="__main__")
        assert bool(ended.value.code) is code
        assert len(capsys.readouterr().out.splitlines()) >= 2


@pytest.mark.slow
def test_the_leak_of_a_stock_dqn_is_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rnncheck.yaml").write_text(STOCK)
    command = ["verify", "--select", "LS701", "--no-repair", "--cases", "60"]
    assert CliRunner().invoke(app, command).exit_code == ExitCode.FAILED
    (case,) = Path(".rnncheck/cases").iterdir()
    done = CliRunner().invoke(app, ["replay", case.name, "--script", "repro.py"])
    assert done.exit_code == ExitCode.VERIFIED, done.output
    text = Path("repro.py").read_text()
    assert len(text.splitlines()) < MOST_LINES
    assert imported(text) <= ALONE
    assert ended(tmp_path) == 1
    assert ended(tmp_path, "--mended") == 0


def ended(folder: Path, *arguments: str) -> int:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-W", "ignore", "repro.py", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    return done.returncode
