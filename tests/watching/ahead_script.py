"""Losses of one's own whose targets are made ahead of them, and rollouts that are padded."""

from __future__ import annotations

HEAD = """
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, ValueOperator, set_recurrent_mode

torch.manual_seed(0)
ENVS = 3


def make_env():
    return GymEnv("CartPole-v1", categorical_action_encoding=True)


env = TransformedEnv(SerialEnv(ENVS, make_env), Compose(InitTracker(), StepCounter(LIMIT)))
gru = GRUModule(4, 24, in_key="observation", out_key="feat")
env.append_transform(gru.make_tensordict_primer())
net = TensorDictSequential(gru, TensorDictModule(nn.Linear(24, 2), ["feat"], ["logits"]))
policy = ProbabilisticActor(
    net,
    in_keys=["logits"],
    distribution_class=torch.distributions.Categorical,
    default_interaction_type="random",
)
"""

AHEAD = (
    HEAD.replace("LIMIT", "200")
    + """
from torchrl.collectors import Collector

critic = ValueOperator(nn.Linear(24, 1), in_keys=["feat"])
optim = torch.optim.Adam([*policy.parameters(), *critic.parameters()], 1e-3)


def discounted(reward, done, after):
    found = torch.empty_like(reward)
    for t in reversed(range(reward.shape[1])):
        after = reward[:, t] + 0.98 * after * (~done[:, t])
        found[:, t] = after
    return found


def loss_of(policy, critic, batch):
    with set_recurrent_mode(True):
        td = batch.select("observation", "is_init", "recurrent_state").clone()
        dist = policy.get_dist(td)
        value = critic(td)["state_value"]
    gain = (batch["returns"] - value).detach().squeeze(-1)
    told = dist.log_prob(batch["action"])
    return (batch["returns"] - value).square().mean() - (told * gain).mean()


if __name__ == "__main__":
    for data in Collector(env, policy, frames_per_batch=60, total_frames=600):
        with torch.no_grad():
            last = data["next"][:, -1].select("observation", "is_init", "recurrent_state")
            after = critic(gru(last.clone()))["state_value"]
        data["returns"] = discounted(data["next", "reward"], data["next", "done"], after)
        loss = loss_of(policy, critic, data)
        optim.zero_grad()
        loss.backward()
        optim.step()
"""
)
AHEAD_FAULTS = {
    "VL601": (" * (~done[:, t])", ""),
    "VL604": (
        'select("observation", "is_init", "recurrent_state").clone()',
        'select("observation", "is_init").clone()',
    ),
}

PADDED = (
    HEAD.replace("LIMIT", "30")
    + """
optim = torch.optim.Adam(policy.parameters(), 1e-3)

for _ in range(6):
    with torch.no_grad():
        data = env.rollout(30, policy, break_when_any_done=False, break_when_all_done=True)
    done = data["next", "done"].squeeze(-1)
    mask = (done.cumsum(1) - done.long() == 0).float()
    togo, after = torch.zeros_like(mask), 0.0
    for t in reversed(range(mask.shape[1])):
        after = data["next", "reward"][:, t, 0] * mask[:, t] + 0.98 * after
        togo[:, t] = after
    with set_recurrent_mode(True):
        dist = policy.get_dist(data)
    told = dist.log_prob(data["action"])
    loss = -(told * (togo - 5.0) * mask).sum() / mask.sum()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
PADDED_FAULTS = {
    "RP505": (" * mask).sum() / mask.sum()", ").mean()"),
    "GR801": ("    with set_recurrent_mode(True):\n        dist", "    if True:\n        dist"),
}
