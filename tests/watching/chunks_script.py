"""A script that trains on rows chunk by chunk: the state is an argument of its loss, carried on."""

SCRIPT = '''
import torch
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter
from torchrl.envs import TensorDictPrimer, TransformedEnv

ROWS, SIZE, CHUNK = 4, 16, 8


class Linear(nn.Module):
    """x <- a x + B u: a row at once is one weighted sum over the past."""

    def __init__(self):
        super().__init__()
        self.nu = nn.Parameter(torch.linspace(-1.0, 3.0, SIZE))
        self.B = nn.Linear(4, SIZE)

    def step(self, u, x):
        return torch.sigmoid(self.nu) * x + self.B(u)

    def scan(self, u, start, x):
        a, steps = torch.sigmoid(self.nu), torch.arange(u.shape[1])
        episode = start.squeeze(-1).cumsum(1)
        lag = (steps[:, None] - steps[None]).clamp_min(0)
        same = (episode[:, :, None] == episode[:, None]) & (steps[:, None] >= steps[None])
        weight = a ** lag.unsqueeze(-1) * same.unsqueeze(-1)
        first = a ** (steps[:, None] + 1) * (episode == 0).unsqueeze(-1)
        return torch.einsum("btsn,bsn->btn", weight, self.B(u)) + first * x[:, None]


class ActorCritic(TensorDictModuleBase):
    in_keys = ["observation", "memory", "is_init"]
    out_keys = ["action", "logp", "value", ("next", "memory")]

    def __init__(self):
        super().__init__()
        self.cell, self.body = Linear(), nn.Sequential(nn.Linear(SIZE, 16), nn.Tanh())
        self.pi, self.v = nn.Linear(16, 2), nn.Linear(16, 1)

    def heads(self, x):
        z = self.body(x)
        return torch.distributions.Categorical(logits=self.pi(z)), self.v(z)

    def forward(self, td):
        x = self.cell.step(td["observation"], torch.where(td["is_init"], 0.0, td["memory"]))
        dist, value = self.heads(x)
        td["action"] = dist.sample()
        td["logp"], td["value"] = dist.log_prob(td["action"]), value
        td["next", "memory"] = x
        return td


@torch.no_grad()
def gains(policy, data):
    value, last = data["value"], data[:, -1]["next"]
    following = policy.heads(policy.cell.step(last["observation"], last["memory"]))[1]
    gain, total = torch.zeros_like(value), torch.zeros_like(following)
    for t in reversed(range(value.shape[1])):
        goes_on = 1.0 - data["next", "done"][:, t].float()
        delta = data["next", "reward"][:, t] + 0.99 * goes_on * following - value[:, t]
        total = delta + 0.9 * goes_on * total
        gain[:, t], following = total, value[:, t]
    return gain


def chunk_loss(policy, chunk, state):
    x = policy.cell.scan(chunk["observation"], chunk["is_init"], state)
    dist, value = policy.heads(x)
    ratio = (dist.log_prob(chunk["action"]) - chunk["logp"]).exp()
    policy_loss = -(ratio * chunk["gain"].squeeze(-1)).mean()
    return policy_loss + (value - chunk["target"]).pow(2).mean(), x[:, -1].detach()


def main():
    torch.manual_seed(0)
    make = lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)
    state = TensorDictPrimer({"memory": Unbounded((ROWS, SIZE))}, expand_specs=False)
    env = TransformedEnv(SerialEnv(ROWS, make), Compose(InitTracker(), StepCounter(30), state))
    env.set_seed(0)
    policy = ActorCritic()
    optim = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for data in Collector(env, policy, frames_per_batch=ROWS * 32, total_frames=ROWS * 320):
        gain = gains(policy, data)
        data["gain"], data["target"] = (gain - gain.mean()) / gain.std(), gain + data["value"]
        state = data["memory"][:, 0]
        for chunk in data.split(CHUNK, 1):
            loss, state = chunk_loss(policy, chunk, state)
            optim.zero_grad()
            loss.backward()
            optim.step()


if __name__ == "__main__":
    main()
'''
NOT_CARRIED = ("= chunk_loss(policy, chunk, state)", "= chunk_loss(policy, chunk, 0 * state)")
NO_DECAY = ("weight = a **", "weight = 1.0 **")
