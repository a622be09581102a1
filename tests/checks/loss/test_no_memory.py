"""Pipelines whose loss has no memory to ignore: the checks of a memory's training do not apply."""

from __future__ import annotations

from pathlib import Path

from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Outcome, Run
from tests.checks.loss.test_stock_losses import CARTPOLE
from tests.checks.verified import failed, result, verified

ENV = f"""\
schema: 1
name: no-memory
env: {{{CARTPOLE}, workers: 4, transforms: [InitTracker, {{use: StepCounter, max_steps: 12}}]}}
"""
FEED_FORWARD_Q = """\
policy:
  modules:
    - {use: MLP, in_keys: [observation], out_keys: [action_value], num_cells: [16], out_features: 2}
    - {use: QValueModule, action_space: categorical}
collect: {use: Collector, frames_per_batch: 96, batches: 2}
loss: {use: DQNLoss, delay_value: true, action_space: categorical}
"""
REMEMBERING_BASELINE = """\
policy: {factory: "baseline:make_policy"}
critic: {factory: "baseline:make_critic"}
collect: {use: Collector, frames_per_batch: 96, batches: 2}
advantage: {use: GAE, gamma: 0.97, lmbda: 0.9, shifted: true}
loss: {factory: "baseline:PolicyGradient"}
"""
BASELINE = '''\
"""A feed-forward actor, and a critic with a memory that the estimator alone runs."""

from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import Categorical
from torchrl.modules import GRUModule, ProbabilisticActor


def make_policy():
    logits = TensorDictModule(nn.Linear(4, 2), in_keys=["observation"], out_keys=["logits"])
    return ProbabilisticActor(
        logits, in_keys=["logits"], distribution_class=Categorical, return_log_prob=True
    )


def make_critic():
    memory = GRUModule(input_size=4, hidden_size=16, in_key="observation", out_key="embed")
    value = TensorDictModule(nn.Linear(16, 1), in_keys=["embed"], out_keys=["state_value"])
    return TensorDictSequential(memory, value)


class PolicyGradient(nn.Module):
    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, data):
        chosen = self.policy.get_dist(data.select("observation")).log_prob(data["action"])
        return TensorDict({"loss_policy": -(chosen * data["advantage"].squeeze(-1)).mean()}, [])
'''


def judged(folder: Path, stages: str) -> Run:
    (folder / "spec.yaml").write_text(ENV + stages)
    return verified(folder / "spec.yaml", ("WR", "LS", "GR"))


def test_a_feed_forward_pipeline_fails_by_its_missing_state_alone(tmp_path: Path) -> None:
    run = judged(tmp_path, FEED_FORWARD_Q)
    assert (run.exit_code, failed(run)) == (ExitCode.NOT_SHOWN, {"WR101"})
    for code in ("LS703", "GR801", "GR803", "GR805"):
        assert result(run, code).outcome is Outcome.NOT_APPLICABLE


def test_a_memory_that_the_loss_does_not_run_is_not_missed_in_it(tmp_path: Path) -> None:
    (tmp_path / "baseline.py").write_text(BASELINE)
    run = judged(tmp_path, REMEMBERING_BASELINE)
    assert not failed(run)
    own = result(run, "LS703")
    assert own.outcome is Outcome.NOT_APPLICABLE
    assert "the loss runs no module that does" in own.reason
