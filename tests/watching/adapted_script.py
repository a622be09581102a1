"""A script whose policy trains on single steps, beside a memory that is trained on rows."""

from __future__ import annotations

ADAPTED = '''"""An actor on stored features; a GRU that foretells the velocities."""
import torch
from tensordict.nn import TensorDictModule as Mod
from tensordict.nn import TensorDictSequential as Seq
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymEnv, InitTracker, SerialEnv, TransformedEnv
from torchrl.modules import GRUModule, OneHotCategorical, ProbabilisticActor, set_recurrent_mode


class Shown(nn.Module):
    def forward(self, observation):
        return observation[..., ::2], observation[..., 1::2]


def returns(reward, done, gamma=0.97):
    after, found = torch.zeros_like(reward[:, 0]), []
    for t in reversed(range(reward.shape[1])):
        after = reward[:, t] + gamma * after * ~done[:, t]
        found.append(after)
    return torch.stack(found[::-1], 1)


def main():
    torch.manual_seed(0)
    split = Mod(Shown(), in_keys=["observation"], out_keys=["seen", "hidden"])
    memory = GRUModule(input_size=2, hidden_size=12, in_key="seen", out_key="told")
    aux = Mod(nn.Linear(12, 2), in_keys=["told"], out_keys=["foretold"])
    head = Mod(nn.Linear(14, 2), in_keys=["features"], out_keys=["logits"])
    join = Mod(lambda a, b: torch.cat([a, b], -1), in_keys=["seen", "told"], out_keys=["features"])
    actor = ProbabilisticActor(
        head, in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True
    )
    env = TransformedEnv(SerialEnv(4, lambda: GymEnv("CartPole-v1")), InitTracker())
    env.append_transform(memory.make_tensordict_primer())
    acts = torch.optim.Adam(head.parameters(), 1e-3)
    recalls = torch.optim.Adam([*memory.parameters(), *aux.parameters()], 1e-3)
    collector = Collector(
        env, Seq(split, memory, join, actor), frames_per_batch=128, total_frames=1280
    )
    for data in collector:
        reward, done = data["next", "reward"], data["next", "done"]
        data["advantage"] = returns(reward, done) - 10.0
        flat = data.reshape(-1)
        for index in torch.randperm(len(flat)).split(64):
            update(actor, flat[index], acts)
        for rows in torch.randperm(4).split(2):
            recall(memory, aux, data[rows], recalls)


def update(actor, batch, optim):
    chosen = actor.get_dist(batch).log_prob(batch["action"])
    ratio = (chosen - batch["action_log_prob"]).exp()
    loss = -(ratio * batch["advantage"].squeeze(-1)).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()


def recall(memory, aux, rows, optim):
    with set_recurrent_mode(True):
        out = aux(memory(rows.select("seen", "is_init", "recurrent_state")))
    loss = (out["foretold"] - rows["hidden"]).square().mean()
    optim.zero_grad()
    loss.backward()
    optim.step()


main()
'''
Changes = tuple[tuple[str, str], ...]
# The memory's own rows are single steps in any order.
SHUFFLED: Changes = (
    (
        "recall(memory, aux, data[rows], recalls)",
        "recall(memory, aux, flat[torch.randperm(len(flat))].reshape(4, -1)[rows], recalls)",
    ),
)
# The actor's features are made anew, in recurrent mode, of single steps in any order.
ANEW: Changes = (
    ("update(actor, flat[index], acts)", "update(actor, flat[index], acts, Seq(memory, join))"),
    (
        "def update(actor, batch, optim):\n",
        "def update(actor, batch, optim, encode):\n"
        "    with torch.no_grad(), set_recurrent_mode(True):\n"
        '        rows = batch.select("seen", "is_init", "recurrent_state").reshape(2, -1)\n'
        '        batch = batch.set("features", encode(rows)["features"].reshape(-1, 14))\n',
    ),
)
_CELL = """class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.u, self.out = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 1)

    def forward(self, x, start):
        h, found = torch.zeros(len(x), 6), []
        for t in range(x.shape[1]):
            h = torch.tanh(self.w(x[:, t]) + self.u(h * ~start[:, t]))
            found.append(self.out(h))
        return torch.stack(found, 1)
"""
_LINEAR = """class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x, start):
        return self.out(x)
"""
_ESTIMATED = """        with torch.no_grad():
            start = data["is_init"]
            told, after = (critic(td["observation"], start) for td in (data, data["next"]))
        data["advantage"] = reward + 0.97 * after * ~done - told
"""


def _criticised(critic: str) -> Changes:
    """Advantages of one step, by a critic that never acts and that no loss trains."""
    return (
        ("def returns(", f"{critic}\n\ndef returns("),
        ("    acts = ", "    critic = Critic()\n    acts = "),
        ('        data["advantage"] = returns(reward, done) - 10.0\n', _ESTIMATED),
    )


WITHOUT_MEMORY, WITH_A_CELL = _criticised(_LINEAR), _criticised(_CELL)
