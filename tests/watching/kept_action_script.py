"""A belief that is filtered with the action before, which the policy hands on itself, and that is
trained by a model of what comes next; heads on it are trained apart."""

from __future__ import annotations

KEPT_ACTION = """
import torch
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer, Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, TensorDictPrimer, TransformedEnv
from torchrl.modules import OneHotCategorical, ProbabilisticActor

HIDDEN, SLICE = 16, 8


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.cell = nn.Linear(6, HIDDEN), nn.GRUCell(HIDDEN, HIDDEN)

    def forward(self, seen, before, belief, start):
        belief, before = (one.masked_fill(start, 0.0) for one in (belief, before))
        x = torch.tanh(self.enc(torch.cat([seen, before], -1)))
        return self.cell(x.reshape(-1, HIDDEN), belief.reshape(-1, HIDDEN)).view_as(belief)


class Believes(TensorDictModuleBase):
    in_keys = ["observation", "before", "belief", "is_init"]
    out_keys = ["posterior", ("next", "belief")]

    def __init__(self, filter):
        super().__init__()
        self.filter = filter

    def forward(self, td):
        td["posterior"] = td["next", "belief"] = self.filter(*(td[key] for key in self.in_keys))
        return td


class Keeps(TensorDictModuleBase):
    in_keys, out_keys = ["action"], [("next", "before")]

    def forward(self, td):
        td["next", "before"] = td["action"].float()
        return td


torch.manual_seed(0)
net, model = Filter(), nn.Linear(HIDDEN + 2, 4)
head, worth = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)
logits = TensorDictModule(head, in_keys=["posterior"], out_keys=["logits"])
actor = ProbabilisticActor(logits, in_keys=["logits"], distribution_class=OneHotCategorical)
policy = TensorDictSequential(Believes(net), actor, Keeps())
of_model = torch.optim.Adam([*net.parameters(), *model.parameters()], lr=2e-3)
of_heads = torch.optim.Adam([*head.parameters(), *worth.parameters()], lr=1e-3)


def unroll(batch):
    belief, found = batch["belief"][:, 0], []
    for t in range(batch.shape[1]):
        before = batch["before"][:, t]
        belief = net(batch["observation"][:, t], before, belief, batch["is_init"][:, t])
        found.append(belief)
    return torch.stack(found, 1)


def update(batch):
    z = unroll(batch)
    told = model(torch.cat([z, batch["action"].float()], -1)) - batch["next", "observation"]
    loss = told.square().sum(-1).mean()
    of_model.zero_grad()
    loss.backward()
    of_model.step()
    z = z.detach()
    dist = OneHotCategorical(logits=head(z))
    gain = batch["next", "reward"] - worth(z)
    chosen = dist.log_prob(batch["action"]).unsqueeze(-1)
    apart = gain.square().mean() - (chosen * gain.detach()).mean()
    of_heads.zero_grad()
    apart.backward()
    of_heads.step()


primer = {"belief": Unbounded((HIDDEN,)), "before": Unbounded((2,))}
parts = InitTracker(), StepCounter(16), TensorDictPrimer(primer, expand_specs=True)
env = TransformedEnv(GymEnv("CartPole-v1"), Compose(*parts))
env.set_seed(0)
sampler = SliceSampler(slice_len=SLICE, traj_key=("collector", "traj_ids"))
buffer = TensorDictReplayBuffer(
    storage=LazyTensorStorage(600), batch_size=8 * SLICE, sampler=sampler
)
collector = Collector(env, policy, frames_per_batch=80, total_frames=400)
for data in collector:
    buffer.extend(data)
    update(buffer.sample().reshape(-1, SLICE))
collector.shutdown()
"""
OWN_ACTION = ('before = batch["before"][:, t]', 'before = batch["action"][:, t].float()')
CUT = ("found.append(belief)", "found.append(belief)\n        belief = belief.detach()")
