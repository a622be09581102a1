"""Pipelines whose loss has no memory to ignore: the checks of a memory's training do not apply."""

from __future__ import annotations

from pathlib import Path

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.collect import RunCollector
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Outcome, Run
from rnncheck.spec.load import load_spec
from tests.checks.loss.test_stock_losses import CARTPOLE

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


def verified(folder: Path, stages: str) -> Run:
    (folder / "spec.yaml").write_text(ENV + stages)
    spec, collector = load_spec(folder / "spec.yaml"), RunCollector()
    for event in verify_events(spec, select_rules(spec, ("WR", "LS", "GR"))):
        collector(event)
    return collector.finish(interrupted=False, seconds=0.0)


def failed(run: Run) -> set[str]:
    return {check.code for check in run.checks if check.outcome is Outcome.FAILED}


def test_a_feed_forward_pipeline_fails_by_its_missing_state_alone(tmp_path: Path) -> None:
    run = verified(tmp_path, FEED_FORWARD_Q)
    assert (run.exit_code, failed(run)) == (ExitCode.NOT_SHOWN, {"WR101"})
    told = {check.code: check.outcome for check in run.checks}
    for code in ("LS703", "GR801", "GR803", "GR805"):
        assert told[code] is Outcome.NOT_APPLICABLE


def test_a_memory_that_the_loss_does_not_run_is_not_missed_in_it(tmp_path: Path) -> None:
    (tmp_path / "baseline.py").write_text(BASELINE)
    run = verified(tmp_path, REMEMBERING_BASELINE)
    assert not failed(run)
    (own,) = [check for check in run.checks if check.code == "LS703"]
    assert own.outcome is Outcome.NOT_APPLICABLE
    assert "the loss runs no module that does" in own.reason
