"""A trainer that is the policy, as those for drones are written: it normalises values by running
means that it updates itself, ahead of its epochs."""

from __future__ import annotations

SCRIPT = """
import torch
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, set_recurrent_mode


class RunningNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("scale", torch.ones(1))

    def update(self, value):
        self.mean.lerp_(value.mean(), 0.3)
        self.scale.lerp_(value.std(), 0.3)

    def there(self, value):
        return (value - self.mean) / self.scale

    def back(self, value):
        return value * self.scale + self.mean


class Trainer(TensorDictModuleBase):
    in_keys = ["observation", "is_init", "recurrent_state"]
    out_keys = ["action", "action_log_prob", "state_value", ("next", "recurrent_state")]

    def __init__(self):
        super().__init__()
        self.gru = GRUModule(4, 16, in_key="observation", out_key="feat")
        self.actor = ProbabilisticActor(
            TensorDictModule(nn.Linear(16, 2), ["feat"], ["logits"]),
            in_keys=["logits"],
            distribution_class=torch.distributions.Categorical,
            default_interaction_type="random",
            return_log_prob=True,
        )
        self.critic = TensorDictModule(nn.Linear(16, 1), ["feat"], ["state_value"])
        self.norm = RunningNorm()
        self.optim = torch.optim.Adam(self.parameters(), 1e-3)

    def forward(self, td):
        return self.critic(self.actor(self.gru(td)))

    def train_on(self, data):
        following = data["next"]
        with torch.no_grad():
            self.gru(following)
            after = self.norm.back(self.critic(following)["state_value"])
        value = self.norm.back(data["state_value"])
        gains = self.gains(data, value, after)
        returns = gains + value
        self.norm.update(returns)
        data.set("gain", (gains - gains.mean()) / gains.std())
        data.set("returns", self.norm.there(returns))
        for _ in range(2):
            self.update(data[torch.randperm(len(data))])

    def gains(self, data, value, after):
        done, over = data["next", "done"].float(), data["next", "terminated"].float()
        reward, found, last = data["next", "reward"], torch.zeros_like(value), 0.0
        for t in reversed(range(value.shape[1])):
            delta = reward[:, t] + 0.99 * after[:, t] * (1 - over[:, t]) - value[:, t]
            found[:, t] = last = delta + 0.9 * (1 - done[:, t]) * last
        return found

    def update(self, part):
        with set_recurrent_mode(True):
            self.gru(part)
        told = self.actor.get_dist(part).log_prob(part["action"])
        ratio = (told - part["action_log_prob"]).exp().unsqueeze(-1)
        gain = part["gain"]
        policy_loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        value_loss = (self.critic(part)["state_value"] - part["returns"]).square().mean()
        self.optim.zero_grad()
        (policy_loss + value_loss).backward()
        self.optim.step()


def make_env():
    return GymEnv("CartPole-v1", categorical_action_encoding=True)


torch.manual_seed(0)
env = TransformedEnv(SerialEnv(4, make_env), Compose(InitTracker(), StepCounter(15)))
trainer = Trainer()
env.append_transform(trainer.gru.make_tensordict_primer())
env.set_seed(0)
for data in Collector(env, trainer, frames_per_batch=96, total_frames=960):
    trainer.train_on(data)
"""
GOES_ON = ('data["next", "done"].float(), ', 'data["next", "terminated"].float(), ')
NO_MODE = ("with set_recurrent_mode(True):", "with set_recurrent_mode(False):")
