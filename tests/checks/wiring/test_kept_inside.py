"""WR101 where a policy keeps its state itself, and puts it back at start flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Outcome
from tests.checks.loss.test_stock_losses import CARTPOLE
from tests.checks.verified import result, verified
from tests.checks.written import written

STAGES = f"""\
env: {{{CARTPOLE}, transforms: [InitTracker, {{use: StepCounter, max_steps: 12}}]}}
policy: {{factory: "kept:make_policy"}}
collect: {{use: Collector, frames_per_batch: 96, batches: 2}}
"""
MODULE = '''\
"""A policy whose module keeps its state."""

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.modules import QValueModule


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out, self.h = nn.GRUCell(4, 8), nn.Linear(8, 2), torch.zeros(1, 8)

    def forward(self, seen, begins):
        if begins.any():
            self.h = torch.zeros(1, 8)
        h = self.cell(seen.reshape(-1, 4), self.h)
        self.h = h.detach()
        return self.out(h).reshape(*seen.shape[:-1], 2)


def make_policy():
    memory = TensorDictModule(Memory(), ["observation", "is_init"], ["action_value"])
    return TensorDictSequential(memory, QValueModule("categorical"))
'''


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        pytest.param(("", ""), Outcome.NOT_LOOKED, id="kept inside"),
        pytest.param(("self.h = h.detach()", "pass"), Outcome.FAILED, id="no memory"),
    ],
)
def test_what_is_said(tmp_path: Path, change: tuple[str, str], outcome: Outcome) -> None:
    run = verified(written(tmp_path, "kept", MODULE.replace(*change), STAGES), ("WR101",))
    assert run.exit_code == ExitCode.NOT_SHOWN
    told = result(run, "WR101")
    assert told.outcome is outcome
    assert outcome is Outcome.FAILED or "0.module.h" in told.reason
