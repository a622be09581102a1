"""WR112 where a transform shows what was done at the step before, and what it keeps of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.model import Outcome
from tests.checks.loss.test_stock_losses import CARTPOLE
from tests.checks.verified import result, verified
from tests.checks.written import written

STAGES = f"""\
env: {{{CARTPOLE}, transforms: [InitTracker, {{factory: "echo:Echo"}}]}}
policy: {{factory: "echo:make_policy"}}
collect: {{use: Collector, frames_per_batch: 48, batches: 1}}
"""
MODULE = '''\
"""A transform that shows the action of the step before."""

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Unbounded
from torchrl.envs import Transform
from torchrl.modules import GRUModule, QValueModule


class Echo(Transform):
    def __init__(self):
        super().__init__(in_keys=[], out_keys=["before"])
        self.kept = torch.zeros(1)

    def _step(self, td, after):
        shown = td["action"].reshape(*td.shape, -1)[..., :1].float()
        return after.set("before", self.late(shown))

    def late(self, shown):
        self.kept, shown = shown, self.kept.expand_as(shown)
        return shown

    def _reset(self, td, begun):
        self.kept = torch.zeros(1)
        return begun.set("before", torch.zeros(*begun.shape, 1))

    def transform_observation_spec(self, spec):
        return spec.set("before", Unbounded((*spec.shape, 1)))


def make_policy():
    both = TensorDictModule(lambda *x: torch.cat(x, -1), ["observation", "before"], ["x"])
    gru = GRUModule(input_size=5, hidden_size=8, in_key="x", out_key="f")
    head = TensorDictModule(nn.Linear(8, 2), ["f"], ["action_value"])
    return TensorDictSequential(both, gru, head, QValueModule("categorical"))
'''

LEFT = "        self.kept = torch.zeros(1)\n        return begun", "        return begun"


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        pytest.param(("", ""), Outcome.PASSED, id="late, and cleared"),
        pytest.param(LEFT, Outcome.FAILED, id="the reset leaves what is shown a step later"),
    ],
)
def test_what_a_first_step_shows(tmp_path: Path, change: tuple[str, str], outcome: Outcome) -> None:
    run = verified(written(tmp_path, "echo", MODULE.replace(*change, 1), STAGES), ("WR112",))
    told = result(run, "WR112")
    assert told.outcome is outcome
    for finding in told.findings:
        assert "before of the first step behind a reset" in finding.message
