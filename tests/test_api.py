"""``rnncheck.verify`` as a notebook or a test calls it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import Tensor, nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer, Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, TensorDictPrimer, TransformedEnv
from torchrl.modules import LSTMModule, QValueModule
from torchrl.modules.tensordict_module.rnn import recurrent_mode
from torchrl.objectives import DQNLoss

import rnncheck
from rnncheck.results.exit_codes import ExitCode

ROOT = Path(__file__).parent.parent
SMALL = {"select": ["WR", "BD301", "CL401"], "timeout": 60}


class Cell(TensorDictModuleBase):
    """h <- tanh(W x + U h), right in both modes; ``deaf`` to the start flag inside a sequence if
    asked."""

    def __init__(self, deaf: bool = False) -> None:
        super().__init__()
        self.in_keys = ["observation", "h", "is_init"]
        self.out_keys = ["embed", ("next", "h")]
        self.w, self.u, self.deaf = nn.Linear(4, 8), nn.Linear(8, 8), deaf

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(self.w(x) + self.u(h))

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        x, stored, init = td["observation"], td["h"], td["is_init"]
        if recurrent_mode():
            h, states = stored[..., 0, :], []
            for t in range(x.shape[-2]):
                if not self.deaf:
                    h = torch.where(init[..., t, :], stored[..., t, :], h)
                h = self.step(x[..., t, :], h)
                states.append(h)
            out = torch.stack(states, -2)
        else:
            out = self.step(x, stored)
        td["embed"] = td["next", "h"] = out
        return td


def make_env() -> Any:
    primer = TensorDictPrimer({"h": Unbounded(shape=(8,))}, expand_specs=True)
    return TransformedEnv(GymEnv("CartPole-v1"), Compose(InitTracker(), primer))


def make_policy(env: Any, deaf: bool = False) -> Any:
    head = TensorDictModule(nn.Linear(8, 2), ["embed"], ["action_value"])
    return TensorDictSequential(Cell(deaf), head, QValueModule(spec=env.action_spec))


def make_deaf_policy(env: Any) -> Any:
    return make_policy(env, deaf=True)


def codes(run: rnncheck.Run) -> set[str]:
    return {finding.code for finding in run.findings}


def test_factories_are_called_with_what_they_declare() -> None:
    run = rnncheck.verify(policy=make_policy, env=make_env, **SMALL)
    assert run.exit_code is ExitCode.VERIFIED, run.findings
    assert run.spec.path == __file__
    run.raise_for_findings()


def test_objects_are_taken_as_they_are() -> None:
    env = make_env()
    policy = make_policy(env)
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    run = rnncheck.verify(policy=policy, env=env, name="mine", **SMALL)
    assert (run.verdict, run.spec.name) == ("verified", "mine")
    assert not env.is_closed
    assert all(torch.equal(value, before[name]) for name, value in policy.state_dict().items())


def test_findings_become_an_exception() -> None:
    run = rnncheck.verify(policy=make_deaf_policy, env=make_env, **SMALL)
    assert codes(run) == {"BD301"}
    with pytest.raises(rnncheck.FindingsError, match="BD301 state-crosses-reset") as caught:
        run.raise_for_findings()
    assert "fix: " in str(caught.value)
    assert caught.value.run is run
    assert run.findings[0].source is not None
    assert run.findings[0].source.path.endswith("test_api.py")
    assert run.findings[0].source.name == "make_deaf_policy"


def test_nothing_verified_is_no_success() -> None:
    run = rnncheck.verify(policy=make_policy, env=make_env, select=["LS"])
    assert run.exit_code is ExitCode.NOT_SHOWN
    with pytest.raises(rnncheck.FindingsError, match="nothing-verified"):
        run.raise_for_findings()


def test_a_collector_can_be_given_made_or_left_out() -> None:
    def make_collector(create_env_fn: Any, policy: Any) -> Collector:
        return Collector(create_env_fn, policy, frames_per_batch=40, total_frames=80)

    made = rnncheck.verify(policy=make_policy, env=make_env, collector=make_collector, **SMALL)
    assert made.verdict == "verified"
    without = rnncheck.verify(policy=make_policy, env=make_env, collector=False, **SMALL)
    assert [c.outcome for c in without.checks if c.code == "CL401"] == ["not-applicable"]


def test_batches_of_ones_own() -> None:
    env = make_env()
    policy = make_policy(env)
    data = env.rollout(60, policy, break_when_any_done=False).detach()
    run = rnncheck.verify(policy=policy, env=env, batches=[data], **SMALL)
    assert run.verdict == "verified"
    data["action_value"] = data["action_value"] + 1.0
    run = rnncheck.verify(policy=policy, env=env, batches=[data], select=["CL406"])
    assert codes(run) == {"CL406"}


def make_lstm_env() -> Any:
    return TransformedEnv(
        GymEnv("CartPole-v1", categorical_action_encoding=True),
        Compose(InitTracker(), lstm().make_tensordict_primer()),
    )


def lstm() -> LSTMModule:
    return LSTMModule(4, 8, in_key="observation", out_key="embed")


def make_lstm_policy(env: Any) -> Any:
    head = TensorDictModule(nn.Linear(8, 2), ["embed"], ["action_value"])
    return TensorDictSequential(lstm(), head, QValueModule(spec=env.action_spec))


def make_replay() -> TensorDictReplayBuffer:
    sampler = SliceSampler(slice_len=8, traj_key=("collector", "traj_ids"), strict_length=False)
    return TensorDictReplayBuffer(storage=LazyTensorStorage(600), sampler=sampler, batch_size=64)


@pytest.mark.slow
def test_the_training_path_as_objects_and_factories() -> None:
    env = make_lstm_env()
    policy = make_lstm_policy(env)
    loss = DQNLoss(policy, action_space="categorical", delay_value=True)
    run = rnncheck.verify(
        policy=policy, env=env, replay=make_replay, loss=loss, select=["RP", "LS701"]
    )
    assert "LS701" in codes(run)  # TorchRL's own: the next start flags are false
    assert not {code for code in codes(run) if code.startswith("RP")}


def test_random_numbers_stay_as_they_were() -> None:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    rnncheck.verify(policy=make_policy, env=make_env, select=["WR101"], seed=11)
    drawn = torch.rand(2), random.random(), np.random.rand()
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    assert torch.equal(drawn[0], torch.rand(2))
    assert drawn[1:] == (random.random(), np.random.rand())


def test_a_spec_file() -> None:
    spec = ROOT / "fixtures" / "specs" / "cartpole_dqn.yaml"
    overrides = ["collect.frames_per_batch=64"]
    run = rnncheck.verify(spec, select=["WR"], seed=4, overrides=overrides)
    assert (run.verdict, run.seed, run.spec.path) == ("verified", 4, str(spec))


def raising() -> Any:
    raise ValueError("my own mistake")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs env="),
        ({"env": make_env}, "needs policy="),
        ({"env": raising, "policy": make_policy}, "ValueError: my own mistake"),
        ({"env": make_env, "policy": lambda: 3}, "returned an object of type int"),
        ({"env": make_env, "policy": make_policy, "steps": 1}, "steps"),
        ({"env": make_env, "policy": make_policy, "device": "tpu"}, "device"),
        ({"env": make_env, "policy": make_policy, "select": ["ZZ"]}, "no check is called"),
        ({"env": make_env, "policy": make_policy, "collector": 3}, "iterable of tensordicts"),
        ({"spec": "x.yaml", "env": make_env}, "not both"),
        ({"collector": 1, "batches": []}, "not both"),
    ],
)
def test_mistakes_are_sentences(given: dict[str, Any], said: str) -> None:
    with pytest.raises(rnncheck.UserError, match=said):
        rnncheck.verify(**given)


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, rnncheck; assert 'verify' in dir(rnncheck); "
        "assert rnncheck.verify; assert rnncheck.Run; "
        "print([n for n in ('torch', 'pydantic', 'numpy') if n in sys.modules])"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'verfy'"):
        _ = rnncheck.verfy
