"""A collector's batches with time first, on a network that the policy holds; lines that are made
for as many envs and steps as the script has."""

SCRIPT = """
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

ENVS, STEPS, WIDTH = 4, 12, 16


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.cell = nn.Linear(4, WIDTH), nn.GRUCell(WIDTH, WIDTH)
        self.pi, self.v = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 1)

    def forward(self, seen, begins, h):
        out = []
        for x, begin in zip(torch.relu(self.body(seen)), begins):
            h = self.cell(x, h * (~begin).float().unsqueeze(-1))
            out.append(h)
        out = torch.stack(out)
        return self.pi(out), self.v(out).squeeze(-1), h


class Step(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, seen, begins, h):
        logits, _, h = self.net(seen.unsqueeze(0), begins.squeeze(-1).unsqueeze(0), h)
        return logits.squeeze(0), h


def make_env():
    return GymEnv("CartPole-v1", categorical_action_encoding=True)


torch.manual_seed(0)
net = Net()
primer = TensorDictPrimer({"h": Unbounded((WIDTH,))}, expand_specs=True)
transforms = Compose(InitTracker(), StepCounter(max_steps=9), primer)
env = TransformedEnv(SerialEnv(ENVS, make_env), transforms)
env.set_seed(0)
policy = ProbabilisticTensorDictSequential(
    TensorDictModule(Step(net), ["observation", "is_init", "h"], ["logits", ("next", "h")]),
    ProbabilisticTensorDictModule(
        ["logits"], ["action"], distribution_class=Categorical, default_interaction_type="random"
    ),
)
size = ENVS * STEPS
collector = Collector(env, policy, frames_per_batch=size, total_frames=8 * size)
optim = torch.optim.RMSprop(net.parameters(), lr=1e-3)
for data in collector:
    batch = data.clone().transpose(0, 1)
    after = batch["next"]
    begins = batch["is_init"].squeeze(-1)
    logits, values, _ = net(batch["observation"], begins, batch["h"][0])
    with torch.no_grad():
        seen, left = after["observation"].reshape(1, -1, 4), after["h"].reshape(-1, WIDTH)
        none = torch.zeros(1, STEPS * ENVS, dtype=torch.bool)
        _, following, _ = net(seen, none, left)
        following = following.reshape(STEPS, ENVS)
    goes_on = (~after["terminated"].squeeze(-1)).float()
    gain = after["reward"].squeeze(-1) + 0.95 * goes_on * following - values
    logp = Categorical(logits=logits).log_prob(batch["action"])
    loss = -(logp * gain.detach()).mean() + 0.5 * gain.pow(2).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
collector.shutdown()
"""
NEVER_RESET = ('net(batch["observation"], begins,', 'net(batch["observation"], begins & False,')
OWN_STATE = ('after["h"].reshape', 'batch["h"].reshape')
