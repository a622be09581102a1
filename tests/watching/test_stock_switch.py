"""``rnncheck run``: a network with a switch of its own under TorchRL's losses and estimators."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchrl.modules import set_recurrent_mode

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.forms.mode_switches import by_mode
from rnncheck.watching.forms.named_switches import Switches
from tests.watching import stock_switch_script as scripts
from tests.watching.scripts import judged, run, written
from tests.watching.stock_switch_script import STOCK_SWITCH

CODES = "BD301,CL406,EQ201,EQ205,GR801,LS702,LS703,RP502,VL602,VL604,WR104"
Changes = tuple[tuple[str, str], ...]


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="an attribute"),
        pytest.param(scripts.BY_A_CONTEXT, id="a context variable"),
        pytest.param(scripts.BY_A_CLASS, id="an attribute of a class beside it"),
        pytest.param(scripts.OF_THE_CLASS, id="an attribute of its class"),
        pytest.param(scripts.BY_TRAINING, id="train and eval"),
        pytest.param((scripts.LAST_IS_A_START,), id="a row that ends with a start"),
    ],
)
def test_it_is_judged_as_it_is_set(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    assert judged(rnncheck, tmp_path, CODES, STOCK_SWITCH, *changes) == (ExitCode.VERIFIED, [])


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((scripts.NO_RESETS,), "BD301", id="no resets"),
        pytest.param((*scripts.BY_A_CONTEXT, scripts.CUT), "GR801", id="cut, in a context"),
        pytest.param((scripts.CUT,), "GR801", id="cut"),
        pytest.param((scripts.NEVER_ON,), "LS703", id="never on"),
        pytest.param((scripts.FROM_ZEROS,), "EQ201", id="from zeros"),
        pytest.param((scripts.SHUFFLED,), "RP502", id="shuffled"),
        pytest.param((*scripts.BY_TRAINING, scripts.NO_RESETS), "BD301", id="by train, no resets"),
    ],
)
def test_a_fault_is_named(rnncheck: Any, tmp_path: Path, changes: Changes, expected: str) -> None:
    code, found = judged(rnncheck, tmp_path, CODES, STOCK_SWITCH, *changes)
    assert code == ExitCode.FAILED
    assert expected in found


@pytest.mark.slow
def test_what_was_kept_is_judged_as_well(rnncheck: Any, tmp_path: Path) -> None:
    path, kept = written(tmp_path, STOCK_SWITCH, scripts.CUT), tmp_path / "seen.run"
    run(rnncheck, "--select", "GR801", "--save", kept, path)
    done = rnncheck("verify", "--select", "BD301,GR801", "--report", "json", str(kept))
    assert done.returncode == ExitCode.FAILED
    assert '"GR801"' in done.stdout


class Memory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.unroll = True  # as the script left it
        self.ran: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.ran = [*self.ran, self.unroll]
        return x


class Values(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.network(x)
        return found


def test_the_switch_follows_the_mode_in_copies_as_well() -> None:
    memory = Memory()
    policy, critic = nn.Sequential(memory, nn.Linear(2, 2)), nn.Sequential(memory)
    estimator = Values(critic)
    acting: Switches = {"0": {"unroll": False}}
    with by_mode(policy, acting, {"0": {"unroll": True}}, [critic], [estimator]):
        for one in (policy, critic, copy.deepcopy(critic)):
            one(torch.zeros(2))
            with set_recurrent_mode(True):
                one(torch.zeros(2))
            assert one[0].ran[-2:] == [False, True]
        estimator(torch.zeros(2))
        critic(torch.zeros(2))
        assert memory.ran[-2:] == [True, False]
    critic(torch.zeros(2))
    assert memory.unroll
    assert not any(one._forward_pre_hooks for one in (*policy.modules(), *estimator.modules()))
