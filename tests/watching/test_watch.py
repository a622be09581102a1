"""``rnncheck.watch``: the same from Python, which leaves everything as it was."""

from __future__ import annotations

import runpy

import pytest
import torch
from torchrl.collectors import BaseCollector, Collector
from torchrl.envs import EnvBase, SerialEnv
from torchrl.modules import GRUModule, LSTMModule
from torchrl.objectives import LossModule
from torchrl.objectives.value import ValueEstimatorBase

import rnncheck
from tests.watching.scripts import SCRIPTS

PATCHED = (
    BaseCollector,
    Collector,
    EnvBase,
    SerialEnv,
    GRUModule,
    LSTMModule,
    LossModule,
    ValueEstimatorBase,
    torch.Tensor,
)


def methods(kind: type) -> dict[str, object]:
    """The class's own; TorchRL keeps caches beside them."""
    return {name: one for name, one in vars(kind).items() if callable(one)}


def test_a_watched_training_is_judged_and_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before = [methods(one) for one in PATCHED]
    hooks = dict(torch.nn.modules.module._global_forward_pre_hooks)
    with rnncheck.watch() as watched:
        ended = runpy.run_path(str(SCRIPTS / "own_actor_critic.py"), run_name="__main__")
    assert [methods(one) for one in PATCHED] == before
    assert torch.nn.modules.module._global_forward_pre_hooks == hooks
    assert len(capsys.readouterr().out.splitlines()) == 5  # it trained to its end
    assert 3 <= watched.updates <= 5  # more than asked for where an episode ends with its batch
    network = watched.policy
    trained = [one.clone() for one in network.parameters()]
    run = watched.verify(select=["LS701", "RP502", "WR103"])
    assert [str(one.outcome) for one in run.checks] == 3 * ["passed"]
    assert all(map(torch.equal, network.parameters(), trained))
    assert "make_env" in ended
