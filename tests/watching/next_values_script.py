"""Losses and estimates that value every next step from the state that was left there."""

from __future__ import annotations

from tests.watching.estimates_script import HEAD

# One pass over the next steps, each of them from its own state.
OWN = (
    HEAD
    + """
optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 3e-4)


def values_behind(batch):
    after = batch["next"].select("observation", "recurrent_state").clone()
    after["is_init"] = torch.zeros_like(batch["is_init"])
    return critic(gru(after))["state_value"].squeeze(-1)


def loss_of(batch):
    with torch.no_grad():
        behind = values_behind(batch)
    with set_recurrent_mode(True):
        td = batch.select(*KEPT).clone()
        dist = actor.get_dist(td)
    guess = critic(td)["state_value"].squeeze(-1)
    reward, over = batch["next", "reward"].squeeze(-1), batch["next", "terminated"].squeeze(-1)
    gain = reward + 0.97 * behind * (~over) - guess
    told = dist.log_prob(batch["action"])
    return gain.square().mean() - (told * gain.detach()).mean()


for data in Collector(env, actor, frames_per_batch=96, total_frames=576):
    loss = loss_of(data)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)


def changed(text: str, *changes: tuple[str, str]) -> str:
    """With every ``(old, new)`` done; each old one stands there once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


_PICKED = 'batch["next"].select("observation", "recurrent_state").clone()'
_NO_FLAGS = 'after["is_init"] = torch.zeros_like(batch["is_init"])'
_VALUED = 'return critic(gru(after))["state_value"].squeeze(-1)'
ROOT_FLAGS = (_NO_FLAGS, 'after["is_init"] = batch["is_init"]')
ALL_BEGIN = (_NO_FLAGS, 'after["is_init"] = torch.ones_like(batch["is_init"])')
FLAGS_BEHIND = (
    _NO_FLAGS,
    'after["is_init"] = torch.cat([batch["is_init"][:, 1:], batch["is_init"][:, :1] & False], 1)',
)
# Along the rows: there the first step of each episode takes the state that its flag stands at.
ALONG = (_VALUED, f"with set_recurrent_mode(True):\n        {_VALUED}")
# Every step is a row of its own.
FLAT = (
    _VALUED,
    'return critic(gru(after.reshape(-1)))["state_value"].reshape(batch.shape)',
)
FROM_ZERO = (_PICKED, 'batch["next"].select("observation").clone()')
ROOT_MEMORY = (_PICKED, f'{_PICKED}\n    after["recurrent_state"] = batch["recurrent_state"]')
OTHER_ROWS = (
    _PICKED,
    f'{_PICKED}\n    after["recurrent_state"] = after["recurrent_state"].roll(1, 0)',
)

# A cell with an unroll of its own; the next values of its advantages are laid flat.
CELL = """
import torch
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch import nn
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter
from torchrl.envs import TensorDictPrimer, TransformedEnv

torch.manual_seed(0)
ENVS, HIDDEN = 4, 16


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.rows = nn.GRUCell(4, HIDDEN), False

    def forward(self, x, h, start):
        keep = (~start).float()
        if not self.rows:
            h = self.cell(x, h * keep)
            return h, h
        found, h = [], h[:, 0]
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h * keep[:, t])
            found.append(h)
        return torch.stack(found, 1), torch.stack(found, 1)


memory = Memory()
core = TensorDictModule(memory, ["observation", "mem", "is_init"], ["z", ("next", "mem")])
pi = TensorDictModule(nn.Linear(HIDDEN, 2), ["z"], ["logits"])
critic = TensorDictModule(nn.Linear(HIDDEN, 1), ["z"], ["value"])
draw = ProbabilisticTensorDictModule(
    ["logits"],
    ["action"],
    distribution_class=torch.distributions.Categorical,
    default_interaction_type="random",
)
policy = ProbabilisticTensorDictSequential(core, pi, critic, draw)
carried = TensorDictPrimer(mem=Unbounded(shape=(HIDDEN,)), expand_specs=True)
env = TransformedEnv(
    SerialEnv(ENVS, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)),
    Compose(InitTracker(), StepCounter(18), carried),
)
env.set_seed(5)
optim = torch.optim.Adam(policy.parameters(), 1e-3)


@torch.no_grad()
def collected(td, steps=24):
    seen = []
    for _ in range(steps):
        now, td = env.step_and_maybe_reset(policy(td))
        seen.append(now.clone())
    return torch.stack(seen, 1), td


@torch.no_grad()
def gains(batch):
    after = batch["next"].select("observation", "mem", "is_init").reshape(-1)
    behind = critic(core(after))["value"].reshape(batch.shape)
    value, reward = batch["value"].squeeze(-1), batch["next", "reward"].squeeze(-1)
    over, done = (batch["next", key].squeeze(-1) for key in ("terminated", "done"))
    delta = reward + 0.98 * behind * (~over) - value
    found, running = torch.empty_like(delta), torch.zeros(ENVS)
    for t in reversed(range(delta.shape[1])):
        running = delta[:, t] + 0.9 * running * (~done[:, t])
        found[:, t] = running
    return found


def loss_of(batch):
    memory.rows = True
    try:
        out = critic(pi(core(batch.select("observation", "mem", "is_init"))))
    finally:
        memory.rows = False
    told = torch.distributions.Categorical(logits=out["logits"]).log_prob(batch["action"])
    errors = out["value"].squeeze(-1) - batch["ret"].squeeze(-1)
    return errors.square().mean() - (told * batch["gain"].squeeze(-1)).mean()


td = env.reset()
for _ in range(5):
    batch, td = collected(td)
    gain = gains(batch)
    batch["ret"] = (gain + batch["value"].squeeze(-1)).unsqueeze(-1)
    batch["gain"] = gain.unsqueeze(-1)
    loss = loss_of(batch)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
_LAID = 'batch["next"].select("observation", "mem", "is_init")'
CELL_ROOT_MEMORY = (
    _LAID,
    'batch["next"].select("observation", "is_init").set("mem", batch["mem"])',
)
CELL_FROM_ZERO = (
    _LAID,
    'batch["next"].select("observation", "is_init").set("mem", 0 * batch["mem"])',
)
# The value behind the last step alone; all others were made while acting.
CELL_LAST = (
    """    behind = critic(core(after))["value"].reshape(batch.shape)
    value, reward""",
    """    behind = critic(core(after.reshape(batch.shape)[:, -1]))["value"]
    behind = torch.cat([batch["value"].squeeze(-1)[:, 1:], behind], 1)
    value, reward""",
)
CELL_LAST_EARLY = (
    'reshape(batch.shape)[:, -1]))["value"]',
    'reshape(batch.shape)[:, -1].set("mem", batch["mem"][:, -1])))["value"]',
)
# The same by one pass more over the last step and the one behind it.
CELL_LAST_TWO = (
    'critic(core(after.reshape(batch.shape)[:, -1]))["value"]',
    """critic(core(after.reshape(batch.shape)[:, -1].set(
        "mem", core(batch[:, -1].select("observation", "mem", "is_init"))["next", "mem"]
    )))["value"]""",
)
