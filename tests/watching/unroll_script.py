"""Losses that unroll a cell of the script's own over what a collector took; what happens between
its batches."""

from __future__ import annotations

from tests.watching.next_values_script import changed

UNROLLED = """
import torch
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import (
    Compose,
    GymEnv,
    InitTracker,
    SerialEnv,
    StepCounter,
    TensorDictPrimer,
    TransformedEnv,
)

torch.manual_seed(0)
ENVS, STEPS, HIDDEN = 4, 24, 16


class Core(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, HIDDEN)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h, start):
        h = torch.where(start, torch.zeros_like(h), h)
        lead = x.shape[:-1]
        h = self.cell(x.reshape(-1, 4), h.reshape(-1, HIDDEN)).reshape(*lead, HIDDEN)
        return self.pi(h), self.v(h), h


def make_env():
    return TransformedEnv(
        SerialEnv(ENVS, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)),
        Compose(
            InitTracker(),
            StepCounter(max_steps=30),
            TensorDictPrimer({"h": Unbounded((HIDDEN,))}, expand_specs=True),
        ),
    )


core, env = Core(), make_env()
env.set_seed(0)
reads, writes = ["observation", "h", "is_init"], ["logits", "state_value", ("next", "h")]
policy = ProbabilisticTensorDictSequential(
    TensorDictModule(core, in_keys=reads, out_keys=writes),
    ProbabilisticTensorDictModule(
        in_keys=["logits"],
        out_keys=["action"],
        distribution_class=Categorical,
        default_interaction_type="random",
    ),
)
collector = Collector(env, policy, frames_per_batch=ENVS * STEPS, total_frames=6 * ENVS * STEPS)
optim = torch.optim.Adam(core.parameters(), 1e-3)


def unroll(data):
    h, logits, values = data["h"][:, 0], [], []
    for t in range(data.shape[1]):
        step = data[:, t]
        out, value, h = core(step["observation"], h, step["is_init"])
        logits.append(out)
        values.append(value)
    return torch.stack(logits, 1), torch.stack(values, 1)


def loss_of(data):
    logits, values = unroll(data)
    reward, done = data["next", "reward"].squeeze(-1), data["next", "done"].squeeze(-1)
    togo, after = torch.zeros_like(reward), 0.0
    for t in reversed(range(reward.shape[1])):
        after = reward[:, t] + 0.9 * after * (~done[:, t])
        togo[:, t] = after
    gain = togo - values.squeeze(-1)
    chosen = Categorical(logits=logits).log_prob(data["action"])
    scaled = (gain - gain.mean()) / (gain.std() + 1e-6)
    return gain.pow(2).mean() - (chosen * scaled.detach()).mean()


for data in collector:
    loss = loss_of(data)
    optim.zero_grad()
    loss.backward()
    optim.step()
    # behind the update
"""
FROM_ZERO = (
    'h, logits, values = data["h"][:, 0]',
    "h, logits, values = torch.zeros(len(data), HIDDEN)",
)
NO_RESETS = ('h, step["is_init"])', 'h, torch.zeros_like(step["is_init"]))')
_BEHIND = "    # behind the update\n"
PLAYED = (_BEHIND, "    env.rollout(20, policy)\n")
PLAYED_BY_HAND = (_BEHIND, "    env.step(policy(env.reset()))\n")
_LATER = "    played = globals().get('played', 0) + 1\n    if played == 2:\n        "
PLAYED_LATER = (_BEHIND, f"{_LATER}env.rollout(20, policy)\n")
OTHER_LATER = (_BEHIND, f"{_LATER}make_env().rollout(20, policy)\n")
PLAYED_AND_RESET = (_BEHIND, "    env.rollout(20, policy)\n    collector.reset()\n")
PLAYED_ELSEWHERE = (_BEHIND, "    make_env().rollout(20, policy)\n")

# The collector writes its batches into a buffer, and gives the script none.
WRITTEN = changed(
    UNROLLED,
    (
        "torchrl.data import Unbounded",
        "torchrl.data import LazyTensorStorage, ReplayBuffer, Unbounded",
    ),
    (
        "collector = Collector(env, policy, frames",
        "rb = ReplayBuffer(storage=LazyTensorStorage(8 * ENVS), batch_size=ENVS)\n"
        "collector = Collector(env, policy, replay_buffer=rb, frames",
    ),
    ("for data in collector:\n", "for _ in collector:\n    data = rb.sample()\n"),
)

# The same without a collector; windows go on where the last one ended.
WINDOWS = (
    UNROLLED[: UNROLLED.index("collector = ")]
    + UNROLLED[UNROLLED.index("optim = ") : UNROLLED.index("for data in")]
    + """
td = env.reset()
for _ in range(6):
    steps = []
    for _ in range(STEPS):
        with torch.no_grad():
            now, td = env.step_and_maybe_reset(policy(td))
        steps.append(now)
    data = torch.stack(steps, 1)
    loss = loss_of(data)
    optim.zero_grad()
    loss.backward()
    optim.step()
    # behind the update
"""
)
DROPPED = (_BEHIND, '    td["h"] = torch.zeros_like(td["h"])\n')
BEGUN_ANEW = (_BEHIND, "    td = env.reset()\n")
