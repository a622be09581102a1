"""The first step and the first module at which the two modes part, where the fault lies deep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Runner

PARTS = '''\
import torch
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torchrl.modules import GRUModule, LSTMModule, QValueModule
from torchrl.modules.tensordict_module.rnn import recurrent_mode


class Shifts(TensorDictModuleBase):
    """In recurrent mode it adds to its feature from step 3 of a row on."""

    def __init__(self, key):
        super().__init__()
        self.in_keys, self.out_keys = [key], [f"{key}_shifted"]

    def forward(self, td):
        x = td[self.in_keys[0]]
        if recurrent_mode():
            x = x + 0.5 * (torch.arange(x.shape[-2]) >= 3).unsqueeze(-1)
        return td.set(self.out_keys[0], x)


class Drops(TensorDictModuleBase):
    """Its dropout is on in recurrent mode alone."""

    def __init__(self):
        super().__init__()
        self.in_keys, self.out_keys = ["first"], ["deep"]
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Tanh(), nn.Dropout(0.5)))

    def forward(self, td):
        self.body.train(bool(recurrent_mode()))
        return td.set("deep", self.body(td["first"]))


def plain(key, wide, out):
    return TensorDictModule(nn.Linear(8, wide), [key], [out])


def memory():
    return GRUModule(input_size=4, hidden_size=8, in_key="observation", out_key="first")


def nested(env):
    inner = TensorDictSequential(plain("first", 8, "mid"), Shifts("mid"))
    head = TensorDictSequential(plain("mid_shifted", 2, "action_value"), best(env))
    return TensorDictSequential(TensorDictSequential(memory(), inner), head)


def actor(env):
    return TensorDictSequential(memory(), plain("first", 2, "action_value"), best(env))


def dropped(env):
    body = TensorDictSequential(Drops(), plain("deep", 2, "action_value"))
    return TensorDictSequential(memory(), body, best(env))


def best(env):
    return QValueModule(spec=env.action_spec)


def critic():
    keys = ["value_h", "value_c"]
    own = LSTMModule(
        input_size=4,
        hidden_size=8,
        in_keys=["observation", *keys],
        out_keys=["seen", *(("next", key) for key in keys)],
    )
    inner = TensorDictSequential(own, Shifts("seen"))
    return TensorDictSequential(inner, plain("seen_shifted", 1, "state_value"))
'''
SPEC = """\
schema: 1
name: parts
env: {use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}
collect: {use: Collector, frames_per_batch: 75, batches: 2}
"""
# The networks; what agrees before the fault; the stage and entry, module and step of the fault.
DEEP = {
    "nested": (
        'policy: {factory: "parts:nested"}\n',
        "GRUModule (module.0.module.0), TensorDictModule (module.0.module.1.module.0) agree",
        ("policy", "mid_shifted", "Shifts (module.0.module.1.module.1) is the first"),
        3,
    ),
    "critic": (
        'policy: {factory: "parts:actor"}\ncritic: {factory: "parts:critic"}\n',
        "LSTMModule (module.0.module.0) agree",
        ("critic", "seen_shifted", "Shifts (module.0.module.1) is the first"),
        3,
    ),
    "dropped": (
        'policy: {factory: "parts:dropped"}\n',
        "GRUModule (module.0) agree",
        ("policy", "deep", "Drops (module.1.module.0) is the first"),
        0,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_the_first_module_and_step_are_named(name: str, rnncheck: Runner, tmp_path: Path) -> None:
    networks, agrees, (stage, key, module), step = DEEP[name]
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "spec.yaml").write_text(SPEC + networks)
    out = tmp_path / "run.json"
    done = rnncheck(
        "verify", str(tmp_path / "spec.yaml"), "--select", "EQ201", "--no-repair",
        "--report", f"json={out}", "--report", "console",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    (way,) = json.loads(out.read_text())["exhibits"]["ways"]
    before, parted = way["points"]
    assert before["said"] == agrees
    assert (parted["stage"], parted["key"], parted["at"]) == (stage, key, f"step {step}")
    assert parted["said"].startswith(module)
