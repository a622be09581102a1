"""``rnncheck run``: an env that a library steps. Its lines are followed where it says that it needs
torch and what envs are made of, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, failed, run

LIBRARY = """\
import torch


def learn(env, net, steps):
    optim = torch.optim.Adam(net.parameters())
    seen, _ = env.reset(seed=0)
    out = []
    for _ in range(steps):
        out.append(net(torch.as_tensor(seen).view(1, 1, -1))[0].sum())
        seen, _, terminated, truncated, _ = env.step(0)
        if terminated or truncated:
            seen, _ = env.reset()
    torch.stack(out).mean().backward()
    optim.step()
"""
SCRIPT = """\
import sys

import gymnasium as gym
from torch import nn

sys.path.insert(0, "site-packages")

from trainlib import learn

for _ in range(4):
    learn(gym.make("CartPole-v1"), nn.GRU(4, 8), 20)
"""

# By the distributions that are installed, what each needs.
TRAINERS = {"trainlib-agents": "trainlib-core>=2", "trainlib-core": "torch>=2\ngymnasium"}
OTHERS = (
    {"trainlib": "torch"},
    {"trainlib": 'torch\ngymnasium; extra == "tests"'},
    {"othertrain": "torch\ngymnasium"},
)
RUNS = 'import sys; sys.path.insert(0, "site-packages"); import trainlib; trainlib.main()\n'
RESETS = "            h = torch.zeros_like(h)\n        x, start"


def install(folder: Path, source: str, needs: dict[str, str]) -> None:
    """``trainlib`` as pip leaves it there, of distributions that need these."""
    installed = folder / "site-packages"
    (installed / "trainlib").mkdir(parents=True)
    (installed / "trainlib" / "__init__.py").write_text(source)
    for name, needed in needs.items():
        lines = "".join(f"Requires-Dist: {one}\n" for one in needed.splitlines())
        info = installed / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{lines}"
        (info / "METADATA").write_text(text)


def test_the_library_is_named(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "trainlib.py").write_text(LIBRARY)
    (tmp_path / "train.py").write_text(SCRIPT)
    code, found, _ = run(rnncheck, tmp_path / "train.py", cwd=tmp_path)
    assert code == ExitCode.NOT_SHOWN
    said = " ".join(found["notices"])
    assert "stepped inside of `trainlib`, whose lines are not followed" in said


def test_one_that_trains_agents_is_followed(rnncheck: Any, tmp_path: Path) -> None:
    install(tmp_path, (SCRIPTS / "plain_single.py").read_text(), TRAINERS)
    (tmp_path / "train.py").write_text(RUNS)
    code, found, _ = run(rnncheck, tmp_path / "train.py", cwd=tmp_path)
    assert code == ExitCode.VERIFIED, found["notices"]


def test_its_faults_are_named(rnncheck: Any, tmp_path: Path) -> None:
    source = (SCRIPTS / "plain_single.py").read_text()
    faulty = source.replace(RESETS, "        x, start")
    assert faulty != source
    install(tmp_path, faulty, TRAINERS)
    (tmp_path / "train.py").write_text(RUNS)
    code, found, _ = run(rnncheck, tmp_path / "train.py", "--select", "CL403", cwd=tmp_path)
    assert code == ExitCode.FAILED
    assert "CL403" in failed(found)


@pytest.mark.parametrize("needs", OTHERS)
def test_others_are_not(rnncheck: Any, tmp_path: Path, needs: dict[str, str]) -> None:
    install(tmp_path, (SCRIPTS / "plain_single.py").read_text(), needs)
    (tmp_path / "train.py").write_text(RUNS)
    code, found, _ = run(rnncheck, tmp_path / "train.py", "--select", "WR", cwd=tmp_path)
    assert code == ExitCode.NOT_SHOWN
    assert "stepped inside of `trainlib`" in " ".join(found["notices"])
