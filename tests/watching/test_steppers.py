"""``rnncheck run``: an env that a library steps, whose lines are not followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import run

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


def test_the_library_is_named(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "trainlib.py").write_text(LIBRARY)
    (tmp_path / "train.py").write_text(SCRIPT)
    code, found, _ = run(rnncheck, tmp_path / "train.py", cwd=tmp_path)
    assert code == ExitCode.NOT_SHOWN
    said = " ".join(found["notices"])
    assert "stepped inside of `trainlib`, whose lines are not followed" in said
