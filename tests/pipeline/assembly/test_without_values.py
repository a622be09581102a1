"""A critic whose parameters were never given values: its stage says so, and the policy is
judged. A template without values that others are put into is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.collect import RunCollector
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Outcome, Run, Stage
from rnncheck.spec.load import load_spec

FACTORIES = """
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictParams, TensorDictSequential
from torch import nn
from torchrl.modules import GRUModule


def on_meta(env):
    return TensorDictModule(
        nn.Linear(4, 1, device="meta"), in_keys=["observation"], out_keys=["state_value"]
    )


def carrying_on_meta(env):
    keys = {"in_keys": ["observation", "vh", "is_init"], "out_keys": ["seen", ("next", "vh")]}
    memory = GRUModule(input_size=4, hidden_size=8, device="meta", **keys)
    return TensorDictSequential(
        memory, TensorDictModule(nn.Linear(8, 1), in_keys=["seen"], out_keys=["state_value"])
    )


class Templated(nn.Module):
    # Its weights are elsewhere: those of the module that it runs have no values.
    def __init__(self):
        super().__init__()
        self.weights = TensorDictParams(TensorDict.from_module(nn.Linear(4, 1)))
        self.template = nn.Linear(4, 1, device="meta")

    def forward(self, x):
        with self.weights.to_module(self.template):
            return self.template(x)


def templated(env):
    return TensorDictModule(Templated(), in_keys=["observation"], out_keys=["state_value"])


class Sequences(nn.Module):
    # Takes rows of steps alone, as one that is never stepped.
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x, h):
        assert x.ndim == 3
        y, h = self.gru(x)
        return self.head(y), h


def of_sequences(env):
    keys = {"in_keys": ["observation", "vh"], "out_keys": ["state_value", ("next", "vh")]}
    return TensorDictModule(Sequences(), **keys)


def never_run(env):
    return TensorDictModule(nn.LazyLinear(1), in_keys=["nowhere"], out_keys=["state_value"])
"""
SPEC = """
schema: 1
name: without-values
env: {{use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}}
policy:
  modules:
    - {{use: GRUModule, in_key: observation, out_key: embed, hidden_size: 8}}
    - {{use: MLP, in_keys: [embed], out_keys: [action_value], num_cells: [], out_features: auto}}
    - QValueModule
critic: {{factory: "valueless_{name}:{name}"}}
collect: {{use: Collector, frames_per_batch: 64, batches: 1}}
"""


def verified(folder: Path, name: str, *more: str) -> Run:
    (folder / f"valueless_{name}.py").write_text(FACTORIES)
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(name=name))
    spec, collector = load_spec(path), RunCollector()
    for event in verify_events(spec, select_rules(spec, ("WR101", "EQ201", "CL401", *more))):
        collector(event)
    return collector.finish(interrupted=False, seconds=0.0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("on_meta", "meta device"),
        ("carrying_on_meta", "meta device"),
        ("never_run", "nowhere"),
    ],
)
def test_the_stage_says_so_and_the_policy_is_judged(tmp_path: Path, name: str, words: str) -> None:
    run = verified(tmp_path, name)
    (critic,) = [stage for stage in run.stages if stage.stage is Stage.CRITIC]
    assert critic.outcome is Outcome.ERROR
    assert words in critic.detail
    assert {check.outcome for check in run.checks} == {Outcome.PASSED}
    assert run.exit_code != ExitCode.VERIFIED


def test_a_template_is_run_with_the_values_of_others(tmp_path: Path) -> None:
    run = verified(tmp_path, "templated")
    (critic,) = [stage for stage in run.stages if stage.stage is Stage.CRITIC]
    assert critic.outcome is Outcome.PASSED
    assert run.exit_code == ExitCode.VERIFIED


def test_a_critic_of_sequences_alone_leaves_the_rest_to_be_judged(tmp_path: Path) -> None:
    run = verified(tmp_path, "of_sequences", "BD301", "EQ206", "PR901")
    found = {check.code: (check.outcome, check.reason) for check in run.checks}
    for code in ("EQ201", "BD301", "PR901"):
        assert found[code][0] is Outcome.NOT_LOOKED
        assert "the critic cannot run one step" in found[code][1]
    assert found["EQ206"][0] is Outcome.PASSED
    assert run.exit_code != ExitCode.VERIFIED
