"""What a caller of ``rnncheck.verify`` holds is afterwards as it was: weights, modes, settings,
random numbers."""

from __future__ import annotations

import copy
import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
from torchrl.envs import GymEnv, InitTracker, TransformedEnv
from torchrl.modules import LSTMModule, QValueModule, ValueOperator
from torchrl.modules.tensordict_module.rnn import recurrent_mode, set_recurrent_mode
from torchrl.objectives import DQNLoss
from torchrl.objectives.value import GAE

import rnncheck
from rnncheck.pipeline.assembly.builder import Builder
from rnncheck.results.model import Outcome
from rnncheck.spec.load import load_spec

ROOT = Path(__file__).parent.parent
FOLDERS = ("specs", "training", "pipelines")
SPECS = [file for name in FOLDERS for file in sorted((ROOT / "fixtures" / name).glob("*.yaml"))]
FEW = ["EQ201", "EQ205", "PR902", "LS703", "GR803", "GR804", "VL604"]  # float64, gradients, steps


def told_of(tensor: Tensor | None) -> Any:
    if tensor is None:
        return None
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return tensor.dtype, tuple(tensor.shape), tensor.requires_grad, hashlib.sha256(raw).hexdigest()


def state_of(module: nn.Module) -> dict[str, Any]:
    """Everything of a module that a run could change."""
    found: dict[str, Any] = {}
    for name, parameter in module.named_parameters():
        found[f"{name} is"] = id(parameter)
        found[name], found[f"{name}.grad"] = told_of(parameter), told_of(parameter.grad)
    found |= {name: told_of(buffer) for name, buffer in module.named_buffers()}
    for name, part in module.named_modules():
        found[f"{name} trains"] = part.training
        found[f"{name} keys"] = str(getattr(part, "in_keys", None)), str(vars(part).get("out_keys"))
        hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks)
        found[f"{name} hooks"] = [len(one) for one in hooks]
        found[f"{name} calls"] = vars(part).get("forward")
    return found


def settings() -> dict[str, Any]:
    """Of the process."""
    return {
        "dtype": torch.get_default_dtype(),
        "matmul": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "cudnn": (torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark),
        "mkldnn": torch.backends.mkldnn.enabled,
        "threads": torch.get_num_threads(),
        "grad": torch.is_grad_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "recurrent": recurrent_mode(),
        "torch": told_of(torch.get_rng_state()),
        "numpy": str(np.random.get_state()),
        "random": hash(random.getstate()),
    }


@contextmanager
def unchanged(*modules: nn.Module | None) -> Iterator[None]:
    """The modules and the process's settings are left as they were found."""
    own = [module for module in modules if module is not None]
    before = [settings(), *map(state_of, own)]
    yield
    after = [settings(), *map(state_of, own)]
    differing = [
        {key: (old.get(key), new.get(key)) for key in old | new if old.get(key) != new.get(key)}
        for old, new in zip(before, after, strict=True)
    ]
    assert not any(differing), differing


def make_env() -> Any:
    lstm = make_lstm()
    env = TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), InitTracker())
    return env.append_transform(lstm.make_tensordict_primer())


def make_lstm() -> LSTMModule:
    return LSTMModule(input_size=4, hidden_size=8, in_key="observation", out_key="embed")


def make_policy(spec: Any) -> TensorDictSequential:
    head = TensorDictModule(nn.Linear(8, 2), ["embed"], ["action_value"])
    return TensorDictSequential(make_lstm(), head, QValueModule(spec=spec))


def make_buffer() -> TensorDictReplayBuffer:
    sampler = SliceSampler(slice_len=8, strict_length=False, traj_key=("collector", "traj_ids"))
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(512), sampler=sampler, batch_size=64, prefetch=1
    )


def marked(data: TensorDictBase) -> TensorDictBase:
    """The batch factory: the next state starts where the state does."""
    data["next", "is_init"] = data["is_init"].clone()
    return data


def closed_over(loss: DQNLoss, *held: Any) -> Callable[[TensorDictBase], Any]:
    def call(data: TensorDictBase) -> Any:
        assert held is not None
        with set_recurrent_mode(True):
            return loss(data)

    return call


def dqn(policy: nn.Module) -> DQNLoss:
    loss = DQNLoss(policy, action_space="categorical", delay_value=True)
    loss.make_value_estimator(gamma=0.9)
    return loss


def returning(one: Any) -> Callable[[], Any]:
    return lambda: one


def looked(run: rnncheck.Run, *codes: str) -> bool:
    ended = {check.code: check.outcome for check in run.checks}
    return all(ended[code] in (Outcome.PASSED, Outcome.FAILED) for code in codes)


@pytest.mark.slow
def test_a_policy_and_a_loss_as_objects() -> None:
    env = make_env()
    policy = make_policy(env.action_spec)
    policy.train()
    policy[1].eval()
    loss, buffer = dqn(policy), make_buffer()
    next(policy.parameters()).grad = torch.ones_like(next(policy.parameters()))
    with unchanged(policy, loss):
        run = rnncheck.verify(
            policy=policy, env=env, loss=loss, replay=buffer, batch=marked, select=FEW, steps=8
        )
    assert looked(run, "EQ201", "PR902", "GR803"), run.checks
    assert len(buffer) == 0
    assert not env.is_closed


UNCOPIED = {
    "a tensor with a graph": lambda: torch.ones(2, requires_grad=True) * 2,
    "a lock": threading.Lock,
    "an open file": lambda: Path(__file__).open(),  # noqa: SIM115
}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=() if name == "a lock" else pytest.mark.slow)
        for name, make in UNCOPIED.items()
    ],
)
def test_objects_that_deepcopy_refuses(make: Callable[[], Any]) -> None:
    env = make_env()
    policy = make_policy(env.action_spec)
    policy[1].held = make()
    with pytest.raises((TypeError, RuntimeError)):
        copy.deepcopy(policy)
    with unchanged(policy):
        run = rnncheck.verify(policy=policy, env=env, select=["EQ201", "PR902"], steps=8)
    assert looked(run, "EQ201", "PR902"), run.checks


@pytest.mark.parametrize(
    "held",
    [(), pytest.param((threading.Lock(),), marks=pytest.mark.slow)],
    ids=["plain", "with a lock"],
)
def test_a_loss_that_is_a_function_and_functions_that_close_over_objects(held: Any) -> None:
    env = make_env()
    policy = make_policy(env.action_spec)
    loss = dqn(policy)
    call = closed_over(loss, *held)
    with unchanged(policy, loss):
        run = rnncheck.verify(
            policy=lambda: policy,
            env=env,
            loss=lambda: call,
            replay=make_buffer,
            batch=marked,
            select=FEW,
            steps=8,
        )
    assert looked(run, "EQ201", "GR803"), run.checks


@pytest.mark.slow
def test_an_estimator_as_an_object() -> None:
    env = make_env()
    policy = make_policy(env.action_spec)
    value = ValueOperator(nn.Linear(8, 1), in_keys=["embed"])
    critic = TensorDictSequential(make_lstm(), value)
    estimator = GAE(gamma=0.9, lmbda=0.9, value_network=critic, shifted=True)
    with unchanged(policy, critic, estimator):
        run = rnncheck.verify(
            policy=policy,
            env=env,
            critic=critic,
            advantage=estimator,
            select=["EQ201", "VL601", "VL604"],
            steps=8,
        )
    assert looked(run, "EQ201"), run.checks


def test_what_cannot_be_copied_is_refused() -> None:
    env = make_env()
    policy = make_policy(env.action_spec)
    policy[1].held = (number for number in range(3))
    with unchanged(policy), pytest.raises(rnncheck.UserError) as caught:
        rnncheck.verify(policy=policy, env=env, select=["EQ201"])
    said = str(caught.value)
    assert "the policy cannot be copied (module.1.held): TypeError: cannot pickle" in said
    assert "pass a function that makes it: policy=make_policy" in said


def test_a_function_that_makes_what_cannot_be_copied_could_not_be_looked_at() -> None:
    def make(env: Any) -> nn.Module:
        policy: nn.Module = make_policy(env.action_spec)
        policy.held = (number for number in range(3))  # type: ignore[assignment]
        return policy

    run = rnncheck.verify(policy=make, env=make_env, select=["EQ201", "WR110"], steps=8)
    assert {(one.code, one.outcome) for one in run.checks} == {
        ("EQ201", Outcome.NOT_LOOKED),
        ("WR110", Outcome.NOT_LOOKED),
    }
    assert all("the policy cannot be copied" in one.reason for one in run.checks)


@pytest.mark.parametrize("file", SPECS[:1], ids=lambda file: str(file.stem))
def test_a_spec_leaves_the_process_as_it_was(file: Path) -> None:
    with unchanged():
        rnncheck.verify(file, select=["EQ201", "PR902"])


@pytest.mark.slow
@pytest.mark.parametrize("file", SPECS, ids=lambda file: str(file.stem))
def test_every_fixture_as_live_objects(file: Path) -> None:
    with Builder(load_spec(file)) as builder:
        for stage in builder.stages:
            builder.run(stage)
        made = builder.pipeline
        assert made is not None
        own = {"policy": made.policy, "critic": made.critic, "loss": made.loss}
        own["advantage"] = made.estimator
        parts = {name: one for name, one in own.items() if one is not None}
        batches = [batch.clone() for batch in made.samples or made.batches]
        with unchanged(*(one for one in parts.values() if isinstance(one, nn.Module))):
            given: dict[str, Any] = {name: returning(one) for name, one in parts.items()}
            run = rnncheck.verify(env=made.make_acting_env, batches=batches, **given)
        assert run.checks
