"""``rnncheck run``: envs that are stepped in processes of the script's own are told of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import run, written

SCRIPT = """
import multiprocessing

import gymnasium as gym
import numpy as np
import torch
from torch import nn


def serve(pipe):
    env = gym.make("CartPole-v1")
    while True:
        name, value = pipe.recv()
        if name == "close":
            break
        pipe.send(env.reset(seed=value)[0] if name == "reset" else env.step(value)[:2])


if __name__ == "__main__":
    torch.manual_seed(0)
    pipe, theirs = multiprocessing.Pipe()
    worker = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    worker.start()
    cell, head = nn.GRUCell(4, 8), nn.Linear(8, 2)
    optim = torch.optim.Adam([*cell.parameters(), *head.parameters()])
    for episode in range(5):
        pipe.send(("reset", episode))
        seen, state, loss = pipe.recv(), torch.zeros(1, 8), 0
        for _ in range(8):
            state = cell(torch.as_tensor(seen)[None], state)
            dist = torch.distributions.Categorical(logits=head(state))
            action = dist.sample()
            pipe.send(("step", action.item()))
            seen, reward = pipe.recv()
            loss = loss - reward * dist.log_prob(action).sum()
        optim.zero_grad()
        loss.backward()
        optim.step()
    pipe.send(("close", None))
"""


def test_they_are_not_seen(rnncheck: Any, tmp_path: Path) -> None:
    code, _, done = run(rnncheck, written(tmp_path, SCRIPT))
    assert code == ExitCode.NOT_SHOWN
    assert "the script has started 1 process, and no env was stepped in its own" in done.stdout
