"""``rnncheck run``: a state that is a window of what was observed, trained on in single steps: no
gradient need reach back, unless the window holds what is learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import (
    LazyTensorStorage,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
    Unbounded,
)
from torchrl.envs import (
    Compose,
    GymEnv,
    InitTracker,
    SerialEnv,
    StepCounter,
    TensorDictPrimer,
    TransformedEnv,
)
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

K, D, ENVS, STEPS = 4, 4, 4, 32


class Window(nn.Module):
    def forward(self, shown, window):
        window = torch.cat([window[..., 1:, :], shown.unsqueeze(-2)], -2)
        return window, window


class Read(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(K * D, 32), nn.Tanh())

    def forward(self, window):
        return self.net(window.flatten(-2))


torch.manual_seed(0)
parts = [
    TensorDictModule(Window(), ["observation", "window"], ["held", ("next", "window")]),
    TensorDictModule(Read(), ["held"], ["z"]),
]
actor = ProbabilisticActor(
    TensorDictSequential(*parts, TensorDictModule(nn.Linear(32, 2), ["z"], ["logits"])),
    in_keys=["logits"],
    distribution_class=torch.distributions.OneHotCategorical,
    return_log_prob=True,
)
value = TensorDictModule(nn.Linear(32, 1), ["z"], ["state_value"])
critic = TensorDictSequential(*parts, value)
states = {"window": Unbounded((ENVS, K, D))}
primer = TensorDictPrimer(states, default_value=0.0, expand_specs=False)
env = TransformedEnv(
    SerialEnv(ENVS, lambda: GymEnv("CartPole-v1")), Compose(InitTracker(), StepCounter(20), primer)
)
env.set_seed(0)
collector = Collector(env, actor, frames_per_batch=ENVS * STEPS, total_frames=4 * ENVS * STEPS)
gae = GAE(gamma=0.98, lmbda=0.95, value_network=critic, deactivate_vmap=True)
loss_fn = ClipPPOLoss(actor, critic)
optim = torch.optim.Adam(loss_fn.parameters(), lr=5e-4)
memory = TensorDictReplayBuffer(
    storage=LazyTensorStorage(ENVS * STEPS), sampler=SamplerWithoutReplacement(), batch_size=64
)
for data in collector:
    with torch.no_grad():
        data = gae(data)
    memory.empty()
    memory.extend(data.reshape(-1))
    for _ in range(2):
        out = loss_fn(memory.sample())
        loss = out["loss_objective"] + out["loss_critic"] + out["loss_entropy"]
        optim.zero_grad()
        loss.backward()
        optim.step()
"""
LEARNED = (
    (
        "parts = [\n",
        'parts = [\n    TensorDictModule(nn.Linear(4, D), ["observation"], ["code"]),\n',
    ),
    ('Window(), ["observation", "window"]', 'Window(), ["code", "window"]'),
)


def test_what_was_observed_needs_no_gradient(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, "GR801,CL403,CL406", SCRIPT)
    assert found == (ExitCode.VERIFIED, [])


def test_what_is_learned_does(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, "GR801,CL403,CL406", SCRIPT, *LEARNED)
    assert found == (ExitCode.FAILED, ["GR801"])
