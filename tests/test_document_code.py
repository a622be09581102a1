"""The code of the documents runs, page by page, in the order in which it is read.

A page's blocks share one folder, with a small spec, a training script and the parts of an agent in
it. A block that begins with a comment that names a file, such as ``# test_memory.py``, is that
file; other Python of a page is one script. Every line of a shell must end with 0, but for those of
`ELSEWHERE`, which names what runs them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from rnncheck.pipeline.assembly.builder import Builder
from rnncheck.results.model import Stage
from rnncheck.spec.load import load_spec
from tests.small import PIPELINE, START

ROOT = Path(__file__).parent.parent
SETTINGS = """\
collect: {use: Collector, frames_per_batch: 64, batches: 2}
verify: {select: [WR]}
gate: {cells: []}
memory: {recorded: 4, episodes: 8, steps: 16, lags: 8}
"""
# What is not run here: words of the line, and what runs it.
ELSEWHERE = {
    "--against": "tests/cli/test_gate_against.py",
    "--against-ref": "tests/cli/test_gate_against.py",
    "pip install": "make verify, make dist",
    "rnncheck replay": "tests/cases/test_replay.py",
    "rnncheck selftest": "tests/cli/test_selftest.py",
    "fixtures/memory/tmaze.yaml": "make memory-demo",
    "rnncheck.yaml --resume": "tests/cli/test_memory.py",
}
AGENT = """\
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import GymEnv, InitTracker, TransformedEnv
from torchrl.modules import GRUModule, QValueModule, set_recurrent_mode


def gru():
    return GRUModule(input_size=4, hidden_size=8, in_key="observation", out_key="features")


def make_env():
    env = TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), InitTracker())
    return env.append_transform(gru().make_tensordict_primer())


def make_policy():
    head = TensorDictModule(nn.Linear(8, 2), in_keys=["features"], out_keys=["action_value"])
    return TensorDictSequential(gru(), head, QValueModule(action_space="categorical"))


def make_loss(policy):
    def q_loss(batch):
        with set_recurrent_mode(True):
            values = policy(batch.select(*policy.in_keys))["action_value"]
        chosen = values.gather(-1, batch["action"].unsqueeze(-1))
        return (chosen - batch["next", "reward"]).pow(2).mean()

    return q_loss
"""
# What the Python of a page takes as given.
GIVEN = {
    "run": "import runpy\n\n\ndef train():\n    runpy.run_path('train.py')\n\n\n",
    "checks": "from agent import make_env, make_loss, make_policy\n"
    "from tensordict.nn import TensorDictSequential\n\npolicy = make_policy()\n",
}
# A page whose commands measure: something that is soon measured, and kept.
BUDGETS = "gate: {cells: [], budget: 20, budgets: [{memory_mib: {max: 4000}}]"
MEASURED = {"gate": ("gate: {cells: []", BUDGETS)}
OWN_CHECK = "checks: [my001_hidden_too_small]\n"  # as docs/checks.md has it in its spec
CHEAP = {"r2d2"}  # some ten seconds
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SCRIPT = ROOT / "docs" / "start" / "script.md"
BLOCK = re.compile(r"^```(python|yaml|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w.]+\.(?:py|yaml))\n")


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in BLOCK.finditer(page.read_text("utf-8"))]


def commands(text: str) -> list[str]:
    lines = [line.partition("   #")[0].strip() for line in text.splitlines()]
    shown = [line for line in lines if line and not line.startswith("#")]
    return [line for line in shown if not any(word in line for word in ELSEWHERE)]


def has_code(page: Path) -> bool:
    return any(language == "python" or commands(text) for language, text in blocks(page))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what the pages take as given, and `rnncheck`, `python` and `pytest` on the
    path."""
    (tmp_path / "rnncheck.yaml").write_text(PIPELINE + SETTINGS)
    (tmp_path / "agent.py").write_text(AGENT)
    (train,) = (
        text for _, text in blocks(ROOT / "docs" / "start" / "script.md") if FILE.match(text)
    )
    (tmp_path / "project").mkdir()
    for script in ("train.py", "project/train.py"):
        (tmp_path / script).write_text(train)
    tools = {"rnncheck": f"-c '{START}'", "pytest": "-m pytest", "python": ""}
    (tmp_path / "bin").mkdir()
    for name, args in tools.items():
        tool = tmp_path / "bin" / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {args} "$@"\n')
        tool.chmod(0o755)
    return tmp_path


def run(line: str, folder: Path) -> str:
    env = os.environ | {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "NO_COLOR": "1",
        "SHELL": "/bin/bash",
    }
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def prepare(page: Path, folder: Path) -> None:
    """The page's own files, before anything runs."""
    for _, text in blocks(page):
        if named := FILE.match(text):
            (folder / named[1]).write_text(text)
    spec, text = folder / "rnncheck.yaml", page.read_text("utf-8")
    if re.search(r"(?m)^rnncheck (init|run --spec rnncheck.yaml .*?)(?: *#.*)?$", text):
        spec.unlink()  # the page writes its own
    elif OWN_CHECK in text:
        spec.write_text(OWN_CHECK + spec.read_text())
    if page.stem in MEASURED:
        spec.write_text(spec.read_text().replace(*MEASURED[page.stem]))
    for name in set(re.findall(r"policy\w*\.pt", text)):
        save_weights(spec, folder / name)


def save_weights(spec: Path, file: Path) -> None:
    """Weights of the policy that a spec builds."""
    with Builder(load_spec(spec)) as builder:
        for stage in (Stage.ENV, Stage.POLICY, Stage.CRITIC):
            builder.run(stage)
        assert builder.pipeline is not None
        torch.save(builder.pipeline.policy.state_dict(), file)


def with_code() -> list[Path]:
    return [page for page in PAGES if has_code(page)]


def parameters() -> list[Any]:
    """Each page; `make test` runs the cheap ones."""
    marks = {page: [pytest.mark.slow] if page.stem not in CHEAP else [] for page in with_code()}
    return [pytest.param(page, id=page.stem, marks=marks[page]) for page in marks]


@pytest.mark.parametrize("page", parameters())
def test_the_code_of_a_page_runs(page: Path, folder: Path) -> None:
    said, script = "", GIVEN.get(page.stem, "")
    prepare(page, folder)
    for language, text in blocks(page):
        if language == "python" and not FILE.match(text):
            script += text
        elif language == "sh":
            said += "".join(run(line, folder) for line in commands(text))
    if script != GIVEN.get(page.stem, ""):
        (folder / "script.py").write_text(script)
        said += run("python script.py", folder)
    promised = re.findall(r"prints `([^`]+)`", page.read_text("utf-8"))
    assert [words for words in promised if words not in said.splitlines()] == []


def test_the_pages_are_seen() -> None:
    stems = {page.stem for page in with_code()}
    assert {"README", "run", "memory", "checks", "gate"} <= stems
    assert {"script", "objects", "spec", "notebooks", "pytest", "report"} <= stems
    assert {"ppo", "r2d2", "sac", "recurrent_dqn", "own_cell", "own_loss", "multi_agent"} <= stems
    assert commands("rnncheck verify x   # once\n\nrnncheck gate --against y\n") == [
        "rnncheck verify x"
    ]


def test_what_runs_elsewhere_is_there_to_run() -> None:
    targets = re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"))
    for runner in ELSEWHERE.values():
        for one in runner.split(", "):
            assert one.removeprefix("make ") in targets or (ROOT / one).exists()


def test_the_check_of_ones_own_is_the_fixture() -> None:
    (shown,) = (text for _, text in blocks(ROOT / "docs" / "checks.md") if FILE.match(text))
    fixture = ROOT / "fixtures" / "own_checks" / "my001_hidden_too_small.py"
    assert shown.partition("\n")[2] == fixture.read_text("utf-8")
