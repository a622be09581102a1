"""Loops over TorchRL's collectors with targets of their own: rows that begin with resets, estimates
made ahead of the loss out of what was left, and rows of whole episodes."""

_PARTS = """
import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TensorDictPrimer
from torchrl.envs import TransformedEnv
from torchrl.objectives.value import GAE

HIDDEN = 8
torch.manual_seed(0)


class Memory(nn.Module):
    def __init__(self, inputs=4):
        super().__init__()
        self.cell = nn.GRUCell(inputs, HIDDEN)

    def forward(self, x, start, h):
        keep = 1.0 - start.float()
        if x.ndim < 3:
            h = self.cell(x, keep * h)
            return h, h
        found, h = [], h[:, 0]
        for x_t, keep_t in zip(x.unbind(1), keep.unbind(1)):
            h = self.cell(x_t, keep_t * h)
            found.append(h)
        return torch.stack(found, 1), torch.stack(found, 1)


def make_env(*states):
    primer = TensorDictPrimer({name: Unbounded((HIDDEN,)) for name in states})
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    env = TransformedEnv(env, Compose(StepCounter(9), InitTracker(), primer))
    env.set_seed(0)
    return env
"""

FROM_RESETS = (
    _PARTS
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory, self.q = Memory(), nn.Linear(HIDDEN, 2)

    def forward(self, x, start, h):
        y, h = self.memory(x, start, h)
        return self.q(y).argmax(-1), h

    def over_rows(self, x, start):
        h, found = torch.zeros(len(x), HIDDEN), []
        for x_t, start_t in zip(x.unbind(1), start.unbind(1)):
            h, _ = self.memory(x_t, start_t, h)
            found.append(self.q(h))
        return torch.stack(found, 1)

    def over_next(self, x, start, after):
        h, found, goes_on = torch.zeros(len(x), HIDDEN), [], torch.zeros_like(start[:, 0])
        for x_t, start_t, after_t in zip(x.unbind(1), start.unbind(1), after.unbind(1)):
            h, _ = self.memory(x_t, start_t, h)
            follows, _ = self.memory(after_t, goes_on, h)
            found.append(self.q(follows))
        return torch.stack(found, 1)


net, target = Net(), Net()
target.load_state_dict(net.state_dict())
policy = TensorDictModule(net, ["observation", "is_init", "h"], ["action", ("next", "h")])
collector = Collector(
    SerialEnv(2, lambda: make_env("h")),
    policy,
    frames_per_batch=32,
    total_frames=320,
    reset_at_each_iter=True,
)
buffer = ReplayBuffer(storage=LazyTensorStorage(40), batch_size=4)
optim = torch.optim.Adam(net.parameters(), 1e-3)
for number, data in enumerate(collector):
    buffer.extend(data.exclude("h", ("next", "h")))
    if number < 2:
        continue
    rows = buffer.sample()
    x, start, after = rows["observation"], rows["is_init"], rows["next", "observation"]
    with torch.no_grad():
        best = target.over_next(x, start, after).amax(-1, True)
        wanted = rows["next", "reward"] + 0.9 * ~rows["next", "terminated"] * best
    chosen = net.over_rows(x, start).gather(-1, rows["action"].unsqueeze(-1))
    loss = (chosen - wanted).square().mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
NEXT_FROM_ZEROS = ("self.memory(after_t, goes_on, h)", "self.memory(after_t, ~goes_on, h)")
NOT_RESET = ("reset_at_each_iter=True", "reset_at_each_iter=False")

AHEAD = (
    _PARTS
    + """
def branch(name, out):
    keys = ["observation", "is_init", name], ["feature", ("next", name)]
    return TensorDictSequential(TensorDictModule(Memory(), *keys), out)


value = TensorDictModule(nn.Linear(HIDDEN, 1), ["feature"], ["state_value"])
actor = ProbabilisticTensorDictSequential(
    *branch("actor_h", TensorDictModule(nn.Linear(HIDDEN, 2), ["feature"], ["logits"])),
    ProbabilisticTensorDictModule(
        ["logits"], ["action"], distribution_class=Categorical, return_log_prob=True
    ),
)
critic = branch("critic_h", value)


class Policy(TensorDictModuleBase):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = actor, critic
        self.in_keys = ["observation", "is_init", "actor_h", "critic_h"]
        self.out_keys = [
            *("action", "action_log_prob", "state_value"),
            *(("next", name) for name in ("actor_h", "critic_h")),
        ]

    def forward(self, td):
        return self.critic(self.actor(td)).exclude("logits", "feature", inplace=True)


def estimated(data):
    with torch.no_grad():
        after = data["next"].reshape(-1)
        after_value = critic(after)["state_value"].reshape(*data.shape, 1)
    reward, ends = data["next", "reward"], data["next", "terminated"]
    over, gains, last = data["next", "done"], torch.zeros(*data.shape, 1), 0
    for t in reversed(range(data.shape[1])):
        delta = reward[:, t] + 0.9 * ~ends[:, t] * after_value[:, t] - data["state_value"][:, t]
        last = delta + 0.8 * ~over[:, t] * last
        gains[:, t] = last
    data["gain"], data["wanted"] = gains, gains + data["state_value"]
    return data


def update(rows):
    logp = actor.get_dist(rows).log_prob(rows["action"])
    ratio = (logp - rows["action_log_prob"]).exp().unsqueeze(-1)
    error = critic(rows)["state_value"] - rows["wanted"]
    loss = error.square().mean() - (ratio * rows["gain"]).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()


optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 1e-3)
value_of = GAE(gamma=0.9, lmbda=0.8, value_network=None)
env = SerialEnv(4, lambda: make_env("actor_h", "critic_h"))
for data in Collector(env, Policy(), frames_per_batch=64, total_frames=640):
    update(estimated(data.clone()))
"""
)
STATE_AHEAD = (
    '        after = data["next"].reshape(-1)\n',
    '        after = data["next"].reshape(-1)\n'
    '        after["critic_h"] = data["critic_h"].reshape(-1, HIDDEN)\n',
)
ZERO_STATE = (
    '        after = data["next"].reshape(-1)\n',
    '        after = data["next"].reshape(-1)\n'
    '        after["critic_h"] = torch.zeros_like(after["critic_h"])\n',
)
# A critic without memory, whose values need no state.
FORGETFUL = (
    (
        'critic = branch("critic_h", value)',
        "shown = nn.Sequential(nn.Linear(4, HIDDEN), nn.Tanh())\n"
        'shown = TensorDictModule(shown, ["observation"], ["feature"])\n'
        "critic = TensorDictSequential(shown, value)",
    ),
    ('"actor_h", "critic_h"]', '"actor_h"]'),
    ('for name in ("actor_h", "critic_h")', 'for name in ("actor_h",)'),
    ('make_env("actor_h", "critic_h")', 'make_env("actor_h")'),
)
GAE_CALLED = (
    "    update(estimated(data.clone()))",
    """    with torch.no_grad():
        after = critic(data["next"].reshape(-1))["state_value"]
        data["next", "state_value"] = after.reshape(*data.shape, 1)
        data = value_of(data, time_dim=1)
    data["gain"], data["wanted"] = data["advantage"], data["value_target"]
    update(data)""",
)
RENAMED = (
    "value_network=None)\n",
    'value_network=None)\nvalue_of.set_keys(advantage="gain", value_target="wanted")\n',
)
AS_NAMED = ('    data["gain"], data["wanted"] = data["advantage"], data["value_target"]\n', "")
OVER_ROWS = ("time_dim=1", "time_dim=0")

EPISODES = (
    _PARTS
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.pi = nn.GRU(4, HIDDEN, batch_first=True), nn.Linear(HIDDEN, 2)

    def forward(self, x, start, h):
        lead, h = x.shape[:-1], h * ~start
        y, h = self.gru(x.reshape(-1, 1, 4), h.reshape(1, -1, HIDDEN))
        action = Categorical(logits=self.pi(y)).sample()
        return action.reshape(lead), h.reshape(*lead, HIDDEN)

    def over_rows(self, x):
        return Categorical(logits=self.pi(self.gru(x)[0]))


net = Net()
policy = TensorDictModule(net, ["observation", "is_init", "h"], ["action", ("next", "h")])
env, episodes = make_env("h"), []
with torch.no_grad():
    for _ in range(12):
        episodes.append(env.rollout(9, policy))


def padded(values):
    return nn.utils.rnn.pad_sequence(values, batch_first=True)


columns = {name: padded([one[name] for one in episodes]) for name in ("observation", "action")}
columns["reward"] = padded([one["next", "reward"].squeeze(-1) for one in episodes])
columns["mask"] = padded([torch.ones(len(one)) for one in episodes])
data = TensorDict(columns, BATCH)
buffer = ReplayBuffer(storage=LazyTensorStorage(20), batch_size=6)
buffer.extend(data)
optim = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(6):
    rows = buffer.sample()
    after = rows["reward"].flip(1).cumsum(1).flip(1)
    logp = net.over_rows(rows["observation"]).log_prob(rows["action"])
    loss = -(logp * after * rows["mask"]).sum() / rows["mask"].sum()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
ROWS = ("BATCH", '[len(episodes), columns["mask"].shape[1]]')
TIME_INSIDE = ("BATCH", "[len(episodes)]")
