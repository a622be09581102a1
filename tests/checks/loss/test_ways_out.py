"""LS706 sends the user where the missing thing belongs: to an argument, or to the batch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.collect import RunCollector
from rnncheck.spec.load import load_spec

NETWORKS = Path(__file__).parents[3] / "fixtures" / "training" / "stock.py"
SPEC = """
schema: 1
name: sac
env: {use: GymEnv, env_name: Pendulum-v1, transforms: [InitTracker]}
policy: {factory: "mine:make_policy"}
collect: {use: Collector, frames_per_batch: 32}
loss: {factory: "mine:make_loss", LEFT_OUT: true}
"""
MINE = """
import stock
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import SACLoss

def make_policy(env):
    told = stock.gaussian(env)
    return ProbabilisticActor(
        told.module[0], ["loc", "scale"], distribution_class=stock.TanhNormal, return_log_prob=True
    )

def make_loss(policy, env, spec=False, key=False):
    critic = stock.state_action_value()
    if key:
        keys = ["goal", "action"]
        critic = TensorDictModule(stock.Joined(4, 1), keys, ["state_action_value"])
    told = None if spec else env.action_spec
    return SACLoss(policy, critic, action_spec=told, deactivate_vmap=True)
"""


@pytest.mark.parametrize(
    ("left_out", "says", "fix", "not_fix"),
    [
        ("spec", "Consider providing the 'action_spec'", "spec=env.action_spec", "the stage"),
        ("key", "goal", "add the stage, network output or key", "action_spec"),
    ],
)
def test_what_is_missing(tmp_path: Path, left_out: str, says: str, fix: str, not_fix: str) -> None:
    shutil.copy(NETWORKS, tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "rnncheck.yaml").write_text(SPEC.replace("LEFT_OUT", left_out))
    spec, collector = load_spec(tmp_path / "rnncheck.yaml"), RunCollector()
    for event in verify_events(spec, select_rules(spec, ("LS706",))):
        collector(event)
    (finding,) = collector.finish(interrupted=False, seconds=0.0).findings
    assert says in finding.message
    assert fix in finding.fix
    assert not_fix not in finding.fix
