"""Q-learning by TorchRL's DQN loss with a delayed copy of a cell of the user's own."""

from __future__ import annotations

OWN_CELL = """
import torch
from tensordict.nn import TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer, Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, TensorDictPrimer, TransformedEnv
from torchrl.modules import QValueModule, recurrent_mode, set_recurrent_mode
from torchrl.objectives import DQNLoss, SoftUpdate

ENVS, STEPS, HIDDEN = 4, 24, 12


class Agent(nn.Module):
    in_keys = ["observation", "hidden", "is_init"]
    out_keys = ["action_value", ("next", "hidden")]

    def __init__(self):
        super().__init__()
        self.cell, self.q = nn.GRUCell(4, HIDDEN), nn.Linear(HIDDEN, 2)

    def forward(self, td):
        x, h, start = td["observation"], td["hidden"], td["is_init"]
        if recurrent_mode():
            h, found = h[:, 0], []
            for t in range(x.shape[1]):
                h = self.cell(x[:, t], h.masked_fill(start[:, t], 0.0))
                found.append(h)
            h = torch.stack(found, 1)
        else:
            h = self.cell(x, h.masked_fill(start, 0.0))
        td["action_value"] = self.q(h)
        td["next", "hidden"] = h
        return td


torch.manual_seed(0)
make = lambda: GymEnv("CartPole-v1")
env = TransformedEnv(SerialEnv(ENVS, make), Compose(InitTracker(), TensorDictPrimer(
    {"hidden": Unbounded((HIDDEN,))}, expand_specs=True)))
spec = env.full_action_spec_unbatched["action"]
net = TensorDictSequential(Agent(), QValueModule(spec=spec))
loss_of = DQNLoss(net, action_space=spec, delay_value=True)
updater = SoftUpdate(loss_of, eps=0.9)
optim = torch.optim.Adam(loss_of.parameters(), lr=1e-3)
buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(200), batch_size=6)
collector = Collector(env, net, frames_per_batch=ENVS * STEPS, total_frames=ENVS * STEPS * 5)
for data in collector:
    buffer.extend(data)
    sample = buffer.sample()
    sample["next", "is_init"] = sample["is_init"].clone()
    with set_recurrent_mode(True):
        loss = loss_of(sample)["loss"]
    optim.zero_grad()
    loss.backward()
    optim.step()
    updater.step()
collector.shutdown()
"""
CUT = ("h = self.cell(x[:, t], h.masked", "h = self.cell(x[:, t], h.detach().masked")
