"""Whole episodes in a list, laid out in rows by hand; slices that a loss parts into rows."""

from __future__ import annotations

EPISODES = """
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import Categorical
from torch.nn.utils.rnn import pad_sequence
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, TransformedEnv
from torchrl.modules import LSTMModule, ProbabilisticActor, set_recurrent_mode

torch.manual_seed(2)
lstm = LSTMModule(input_size=4, hidden_size=16, in_key="observation", out_key="feat")
env = TransformedEnv(
    GymEnv("CartPole-v1", categorical_action_encoding=True),
    Compose(InitTracker(), StepCounter(20), lstm.make_tensordict_primer()),
)
env.set_seed(2)
policy = ProbabilisticActor(
    TensorDictSequential(lstm, TensorDictModule(nn.Linear(16, 2), ["feat"], ["logits"])),
    in_keys=["logits"],
    distribution_class=Categorical,
    default_interaction_type="random",
)
optim = torch.optim.Adam(policy.parameters(), 1e-3)
KEPT = ["observation", "action", "is_init", "recurrent_state_h", "recurrent_state_c"]


def togo(reward):
    found, after = torch.zeros_like(reward), 0.0
    for t in reversed(range(reward.shape[1])):
        after = found[:, t] = reward[:, t] + 0.9 * after
    return found


def in_rows(episodes):
    rows = {key: pad_sequence([one[key] for one in episodes], batch_first=True) for key in KEPT}
    rewards = [one["next", "reward"] for one in episodes]
    rows["reward"] = pad_sequence(rewards, batch_first=True)
    steps = rows["reward"].shape[1]
    lengths = torch.tensor([len(one) for one in episodes])
    rows["mask"] = (torch.arange(steps) < lengths[:, None]).unsqueeze(-1)
    return TensorDict(rows, [len(episodes), steps])


def loss_of(batch):
    mask = batch["mask"].float()
    with set_recurrent_mode(True):
        dist = policy.get_dist(batch.select(*KEPT).exclude("action"))
    told = dist.log_prob(batch["action"]).unsqueeze(-1)
    gain = togo(batch["reward"])
    base = (gain * mask).sum() / mask.sum()
    return -(told * (gain - base) * mask).sum() / mask.sum()


for _ in range(5):
    with torch.no_grad():
        episodes = [env.rollout(21, policy) for _ in range(8)]
    loss = loss_of(in_rows(episodes))
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
NO_STATES = (
    '"action", "is_init", "recurrent_state_h", "recurrent_state_c"]',
    '"action", "is_init"]',
)
COUNTED = ("(gain * mask).sum() / mask.sum()", "gain.mean()")

SLICES = """
import torch
import torch.nn.functional as F
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import SliceSampler
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, set_recurrent_mode

torch.manual_seed(7)
ROWS, LENGTH = 6, 8
gru = GRUModule(input_size=4, hidden_size=16, in_key="observation", out_key="feat")
env = TransformedEnv(
    GymEnv("CartPole-v1", categorical_action_encoding=True),
    Compose(InitTracker(), StepCounter(40), gru.make_tensordict_primer()),
)
env.set_seed(7)
policy = ProbabilisticActor(
    TensorDictSequential(gru, TensorDictModule(nn.Linear(16, 2), ["feat"], ["logits"])),
    in_keys=["logits"],
    distribution_class=torch.distributions.Categorical,
    default_interaction_type="random",
)
sampler = SliceSampler(num_slices=ROWS, traj_key=("collector", "traj_ids"), strict_length=True)
buffer = ReplayBuffer(storage=LazyTensorStorage(600), sampler=sampler, batch_size=ROWS * LENGTH)
optim = torch.optim.Adam(policy.parameters(), 1e-3)


def loss_of(batch):
    batch = batch.reshape(ROWS, LENGTH)
    with set_recurrent_mode(True):
        out = policy.module[0](batch.select("observation", "recurrent_state", "is_init"))
    label = (batch["observation"][..., 2:].sum(-1) > 0).long()
    return F.cross_entropy(out["logits"].flatten(0, 1), label.flatten())


for data in Collector(env, policy, frames_per_batch=120, total_frames=600):
    buffer.extend(data)
    for _ in range(2):
        sample = buffer.sample()
        loss = loss_of(sample)
        optim.zero_grad()
        loss.backward()
        optim.step()
"""
LEFT_FLAT = ("    batch = batch.reshape(ROWS, LENGTH)\n", "")
