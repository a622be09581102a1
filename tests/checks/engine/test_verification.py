"""The one way to run: what a verification leaves behind, and what it says when it cannot look."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.verification import Verification
from rnncheck.faults.registry import select_faults
from rnncheck.results.events import CheckFinished, StageFinished
from rnncheck.results.model import Outcome, Stage
from rnncheck.spec.load import load_spec
from rnncheck.spec.model import Spec
from tests.small import PIPELINE

FACTORY = """\
import torch
from torchrl.envs import GymEnv, InitTracker, TransformedEnv

class Env(TransformedEnv):
    def close(self, **kw):
        closed.append(1)
        return super().close(**kw)

closed = []

def make_env():
    torch.set_float32_matmul_precision("medium")
    return Env(GymEnv("CartPole-v1", categorical_action_encoding=True), InitTracker())
"""
SETTING = PIPELINE.replace(
    PIPELINE[PIPELINE.index("env:") : PIPELINE.index("policy:")],
    'env: {factory: "setting:make_env"}\n',
)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    (tmp_path / "setting.py").write_text(FACTORY)
    (tmp_path / "rnncheck.yaml").write_text(SETTING)
    return load_spec(tmp_path / "rnncheck.yaml")


def drawn() -> tuple[float, float, float]:
    return torch.rand(1).item(), random.random(), float(np.random.rand())


def seeded() -> None:
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)


@pytest.mark.parametrize("ending", ["whole", "raises", "early"])
def test_settings_and_random_numbers_end_with_it(spec: Spec, ending: str) -> None:
    seeded()
    expected = drawn()
    seeded()
    threads = torch.get_num_threads()
    try:
        with Verification(spec) as verification:
            for event in verification.build():
                if ending == "early" and isinstance(event, StageFinished):
                    break
            assert torch.get_float32_matmul_precision() == "medium"
            if ending == "raises":
                raise RuntimeError("in between")
    except RuntimeError as error:
        assert ending == "raises" and str(error) == "in between"
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_num_threads() == threads
    assert drawn() == expected


def test_a_planted_fault_is_asked_about_in_the_same_way(spec: Spec) -> None:
    (fault,) = select_faults(["state-crosses-reset"])
    found = []
    for plant in (None, fault.plant):
        with Verification(spec, plant=plant) as verification:
            for _ in verification.build():
                pass
            (rule,) = select_rules(spec, ["BD301"])
            found.append(verification.asked(rule).outcome)
        assert torch.get_float32_matmul_precision() == "highest"
    assert found == [Outcome.PASSED, Outcome.FAILED]


def test_what_one_asks_in_turn_is_what_is_asked_at_once(spec: Spec) -> None:
    rules = select_rules(spec, ["WR", "BD301"])
    with Verification(spec) as verification:
        stages = [e.result.stage for e in verification.build() if isinstance(e, StageFinished)]
        at_once = [e.result for e in verification.ask(rules) if isinstance(e, CheckFinished)]
        in_turn = [verification.asked(rule) for rule in rules]
    assert stages[:2] == [Stage.ENV, Stage.POLICY]
    assert [(one.code, one.outcome) for one in at_once] == [
        (one.code, one.outcome) for one in in_turn
    ]
