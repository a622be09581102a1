"""A student that learns what a teacher would do; the labels are made behind the rollouts."""

from __future__ import annotations

SCRIPT = """
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, set_recurrent_mode

torch.manual_seed(0)


def make_env():
    return GymEnv("CartPole-v1", categorical_action_encoding=True)


gru = GRUModule(4, 16, in_key="observation", out_key="feat")
student = TensorDictSequential(gru, TensorDictModule(nn.Linear(16, 2), ["feat"], ["logits"]))
choose = TensorDictModule(lambda x: torch.distributions.Categorical(logits=x).sample(),
                          ["logits"], ["action"])
acting = TensorDictSequential(student, choose)
env = TransformedEnv(SerialEnv(4, make_env), Compose(InitTracker(), StepCounter(15)))
env.append_transform(gru.make_tensordict_primer())
env.set_seed(0)
teacher = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optim = torch.optim.Adam(student.parameters(), 1e-3)


def distance(batch):
    with set_recurrent_mode(True):
        out = student(batch.select("observation", "is_init", "recurrent_state"))
    told = batch["wanted"]
    mine = out["logits"].log_softmax(-1)
    return -(told.softmax(-1) * mine).sum(-1).mean()


for update in range(8):
    with torch.no_grad():
        batch = env.rollout(24, acting, break_when_any_done=False)
        batch.set("wanted", 3 * teacher(batch["observation"]))
    loss = distance(batch)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
EARLIER = ('batch["wanted"]', 'batch["wanted"].roll(1, 1)')
# What the teacher does next, from what is seen now.
PREDICTED = (
    """    told = batch["wanted"]
    mine = out["logits"].log_softmax(-1)
""",
    """    told = batch["wanted"][:, 1:]
    mine = out["logits"].log_softmax(-1)[:, :-1]
""",
)
NUMBERS = (
    ('3 * teacher(batch["observation"])', '(batch["observation"][..., 2] > 0).long()'),
    (
        "-(told.softmax(-1) * mine).sum(-1).mean()",
        "-mine.gather(-1, told.unsqueeze(-1)).mean()",
    ),
)
# A loss that raises for what is no distribution.
PROBABILITIES = (
    ('3 * teacher(batch["observation"])', '(3 * teacher(batch["observation"])).softmax(-1)'),
    (
        "-(told.softmax(-1) * mine).sum(-1).mean()",
        "torch.distributions.kl_divergence(torch.distributions.Categorical(probs=told),"
        " torch.distributions.Categorical(logits=mine)).mean()",
    ),
)
