"""``rnncheck.verify`` on training code of one's own: a function as the loss, a step that trains."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymEnv, InitTracker, TransformedEnv
from torchrl.modules import GRUModule, QValueModule, set_recurrent_mode

import rnncheck
from rnncheck.errors import UserError
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Outcome, Run
from rnncheck.roles import role_of

LOSSES = ["LS703", "LS705", "LS706", "GR802", "GR803"]
UPDATES = 0
SEEN: list[float] = []


def make_env() -> TransformedEnv:
    return TransformedEnv(
        GymEnv("CartPole-v1", categorical_action_encoding=True), Compose(InitTracker())
    )


def make_policy() -> TensorDictSequential:
    torch.manual_seed(0)
    memory = GRUModule(input_size=4, hidden_size=8, in_key="observation", out_key="embed")
    head = TensorDictModule(nn.Linear(8, 2), in_keys=["embed"], out_keys=["action_value"])
    return TensorDictSequential(memory, head, QValueModule(action_space="categorical"))


def make_collector(create_env_fn: Any, policy: nn.Module) -> Collector:
    return Collector(create_env_fn, policy, frames_per_batch=48, total_frames=96)


def error_of(policy: nn.Module, batch: TensorDictBase, recurrent: bool = True) -> Tensor:
    """The values foretell the reward."""
    with set_recurrent_mode(recurrent):
        values = policy(batch.select(*policy.in_keys, strict=False))["action_value"]
    chosen = values.gather(-1, batch["action"].reshape(*values.shape[:-1], 1))
    return (chosen - batch["next", "reward"]).pow(2).mean()


class Learner:
    """Networks and optimiser; ``update`` trains."""

    def __init__(self, recurrent: bool = True) -> None:
        self.policy, self.recurrent = make_policy(), recurrent
        self.optimiser = torch.optim.Adam(self.policy.parameters(), lr=0.1)

    def update(self, batch: TensorDictBase) -> dict[str, float]:
        global UPDATES
        UPDATES += 1
        loss = error_of(self.policy, batch, self.recurrent)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        SEEN.append(float(loss.detach()))
        return {"loss": SEEN[-1]}


def verified(policy: nn.Module, loss: Any, **more: Any) -> Run:
    return rnncheck.verify(
        policy=policy, env=make_env, collector=make_collector, loss=loss, select=LOSSES, **more
    )


def failed(run: Run) -> set[str]:
    return {check.code for check in run.checks if check.outcome is Outcome.FAILED}


def test_a_function_of_the_batch() -> None:
    policy = make_policy()
    run = verified(policy, lambda td: error_of(policy, td))
    assert (run.exit_code, failed(run)) == (ExitCode.VERIFIED, set())
    assert [c.code for c in run.checks if c.outcome is Outcome.PASSED] == LOSSES


def test_a_function_that_asks_for_the_policy_by_name() -> None:
    run = verified(make_policy(), functools.partial(error_of, recurrent=False))
    assert failed(run) == {"LS703", "GR803"}


def test_a_function_that_makes_the_loss_is_called_once() -> None:
    def make_loss(policy: nn.Module) -> Any:
        return lambda td: error_of(policy, td)

    assert verified(make_policy(), make_loss).exit_code == ExitCode.VERIFIED


@pytest.mark.parametrize("recurrent", [True, False])
def test_a_training_step_leaves_no_trace(recurrent: bool) -> None:
    learner = Learner(recurrent)
    before = {name: value.clone() for name, value in learner.policy.state_dict().items()}
    run = verified(learner.policy, learner.update)
    assert failed(run) == (set() if recurrent else {"LS703", "GR803"})
    after = learner.policy.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not learner.optimiser.state
    assert (UPDATES, SEEN) == (0, [])


def test_marks_change_nothing_and_settle_it() -> None:
    policy = make_policy()

    @rnncheck.loss
    def loss(batch: TensorDictBase | None = None) -> Tensor:
        assert batch is not None
        return error_of(policy, batch)

    assert (role_of(loss), role_of(rnncheck.batch(make_policy))) == ("loss", "batch")
    assert (loss.__name__, role_of(error_of)) == ("loss", "")
    assert verified(policy, loss).exit_code == ExitCode.VERIFIED


def test_what_cannot_be_undone_is_said_in_a_sentence() -> None:
    policy, env = make_policy(), make_env()

    def loss(td: TensorDictBase) -> Tensor:
        env.reset()
        return error_of(policy, td)

    run = verified(policy, loss)
    reasons = {check.code: check.reason for check in run.checks}
    assert run.exit_code == ExitCode.NOT_SHOWN
    assert "resets an env, which cannot be undone" in reasons["LS706"]
    assert not failed(run)
    env.close()


def test_two_open_arguments_are_one_too_many() -> None:
    def loss(td: TensorDictBase, scale: float) -> Tensor:
        return error_of(make_policy(), td) * scale

    with pytest.raises(UserError, match="'td' and 'scale'"):
        verified(make_policy(), rnncheck.loss(loss))
