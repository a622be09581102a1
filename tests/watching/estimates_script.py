"""Scripts that make advantages or returns of their own ahead of a loss, and faults in them."""

from __future__ import annotations

HEAD = """
import numpy as np
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, ValueOperator, set_recurrent_mode
from torchrl.objectives import ClipPPOLoss

torch.manual_seed(0)


def make_env():
    return GymEnv("CartPole-v1", categorical_action_encoding=True)


env = TransformedEnv(SerialEnv(4, make_env), Compose(InitTracker(), StepCounter(200)))
env.set_seed(0)
gru = GRUModule(4, 24, in_key="observation", out_key="feat")
env.append_transform(gru.make_tensordict_primer())
actor = ProbabilisticActor(
    TensorDictSequential(gru, TensorDictModule(nn.Linear(24, 2), ["feat"], ["logits"])),
    in_keys=["logits"],
    distribution_class=torch.distributions.Categorical,
    default_interaction_type="random",
    return_log_prob=True,
)
critic = ValueOperator(nn.Linear(24, 1), in_keys=["feat"])
KEPT = ("observation", "is_init", "recurrent_state")
"""

OWN_LOSS = """
optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 3e-4)


def loss_of(batch):
    with set_recurrent_mode(True):
        td = batch.select(*KEPT).clone()
        dist = actor.get_dist(td)
    value = critic(td)["state_value"]
    gain = (batch["returns"] - value).detach().squeeze(-1)
    told = dist.log_prob(batch["action"])
    return (batch["returns"] - value).square().mean() - (told * gain).mean()


def update(batch):
    loss = loss_of(batch)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""

GAE_OF_ONES_OWN = (
    HEAD
    + """
loss_module = ClipPPOLoss(actor, TensorDictSequential(gru, critic), entropy_coeff=0.01)
optim = torch.optim.Adam(loss_module.parameters(), 3e-4)
rb = TensorDictReplayBuffer(
    storage=LazyTensorStorage(4), sampler=SamplerWithoutReplacement(), batch_size=2
)


def own_gae(td, gamma=0.99, lmbda=0.95):
    with torch.no_grad():
        with set_recurrent_mode(True):
            value = critic(gru(td.select(*KEPT).clone()))["state_value"]
        last = td["next"][:, -1].select("observation", "recurrent_state")
        last["is_init"] = torch.zeros(4, 1, dtype=torch.bool)
        last_value = critic(gru(last))["state_value"]
    reward, done = td["next", "reward"], td["next", "done"]
    advantage = torch.zeros_like(reward)
    running = torch.zeros_like(reward[:, 0])
    for t in reversed(range(reward.shape[1])):
        following = value[:, t + 1] if t + 1 < reward.shape[1] else last_value
        alive = (~done[:, t]).float()
        delta = reward[:, t] + gamma * following * alive - value[:, t]
        running = delta + gamma * lmbda * alive * running
        advantage[:, t] = running
    td["advantage"] = advantage
    td["value_target"] = advantage + value


for data in Collector(env, actor, frames_per_batch=128, total_frames=512):
    own_gae(data)
    rb.extend(data)
    for _ in range(4):
        losses = loss_module(rb.sample())
        optim.zero_grad()
        sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
        optim.step()
"""
)

ROLLOUT = (
    HEAD
    + OWN_LOSS
    + """
for _ in range(4):
    with torch.no_grad():
        data = env.rollout(32, actor, break_when_any_done=False)
    reward, done = data["next", "reward"], data["next", "done"]
    returns = torch.zeros_like(reward)
    after = torch.zeros_like(reward[:, 0])
    for t in reversed(range(reward.shape[1])):
        after = reward[:, t] + 0.98 * after * (~done[:, t])
        returns[:, t] = after
    data["returns"] = returns
    update(data)
"""
)

STORED = (
    HEAD
    + OWN_LOSS
    + """
rb = TensorDictReplayBuffer(
    storage=LazyTensorStorage(4), sampler=SamplerWithoutReplacement(), batch_size=2
)


def discounted(rewards, dones, gamma=0.98):
    rewards, dones = rewards.squeeze(-1).numpy(), dones.squeeze(-1).numpy()
    found, after = np.zeros_like(rewards), np.zeros_like(rewards[:, 0])
    for t in range(rewards.shape[1] - 1, -1, -1):
        after = rewards[:, t] + gamma * after * (1 - dones[:, t])
        found[:, t] = after
    return torch.from_numpy(found).unsqueeze(-1)


for step, data in enumerate(Collector(env, actor, frames_per_batch=128, total_frames=512)):
    returns = discounted(data["next", "reward"], data["next", "done"])
    data.set("returns", returns)
    print("return", returns.mean())
    rb.empty()
    rb.extend(data)
    for _ in range(3):
        update(rb.sample())
"""
)

TRAINER = (
    HEAD
    + OWN_LOSS
    + """
class Trainer:
    gamma = 0.98

    def collect(self):
        with torch.no_grad():
            return env.rollout(32, actor, break_when_any_done=False)

    def process(self, data):
        out, after = [], torch.zeros_like(data["next", "reward"][:, 0])
        pairs = zip(data["next", "reward"].unbind(1), data["next", "done"].unbind(1))
        for reward, done in reversed(list(pairs)):
            after = reward + self.gamma * after * (~done)
            out.append(after)
        return data.set("returns", torch.stack(out[::-1], 1))

    def train(self, updates):
        for _ in range(updates):
            data = self.process(self.collect())
            for _ in range(2):
                update(data)


Trainer().train(4)
"""
)

# What is stored has no name, and is shorter than what was collected.
NAMELESS = STORED.replace(
    """    returns = discounted(data["next", "reward"], data["next", "done"])
    data.set("returns", returns)
    print("return", returns.mean())
    rb.empty()
    rb.extend(data)
""",
    "    rb.empty()\n    rb.extend(with_returns(data))\n",
).replace(
    "\n\nfor step, data",
    """

def with_returns(data):
    return data.set("returns", discounted(data["next", "reward"], data["next", "done"]))


for step, data""",
)
# A loop that makes what it is given a shorter batch of the same name.
REBOUND = NAMELESS.replace(
    """    rb.empty()
    rb.extend(with_returns(data))
    for _ in range(3):
        update(rb.sample())
""",
    """    data = with_returns(data)[:, :-1].clone()
    for _ in range(2):
        update(data)
""",
)

HEALTHY = {
    "gae": GAE_OF_ONES_OWN,
    "rollout": ROLLOUT,
    "stored": STORED,
    "trainer": TRAINER,
    "nameless": NAMELESS,
}
FAULTS = {  # by the check that names it
    ("gae", "VL601"): ("lmbda * alive * running", "lmbda * running"),
    ("gae", "VL603"): ("following * alive - value", "following - value"),
    ("gae", "VL604"): ('select("observation", "recurrent_state")', 'select("observation")'),
    ("rollout", "VL601"): (" * (~done[:, t])", ""),
    ("stored", "VL601"): (" * (1 - dones[:, t])", ""),
    ("trainer", "VL601"): (" * (~done)", ""),
    ("nameless", "VL601"): (" * (1 - dones[:, t])", ""),
}

# The returns come out of a generator, which nobody can ask again.
UNREPEATED = ROLLOUT.replace(
    "for _ in range(4):\n    with torch.no_grad():\n        data = env",
    "\ndef rollouts():\n  while True:\n    with torch.no_grad():\n        data = env",
).replace(
    '    data["returns"] = returns\n    update(data)\n',
    '    yield data.update({"returns": returns})\n\n\n'
    "for _, data in zip(range(4), rollouts()):\n    update(data)\n",
)
# What is made beside it, and the loss does not read, is of no consequence.
UNREAD = UNREPEATED.replace(
    "    value = critic(td)",
    '    batch["returns"] = batch["next", "reward"]\n    value = critic(td)',
)
