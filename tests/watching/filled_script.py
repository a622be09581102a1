"""Losses that fill rows up themselves, and rollouts that repeat the last step of an env that is
done: nothing in the batch says which steps are no data."""

from __future__ import annotations

from tests.watching.ahead_script import HEAD

SEEDED = HEAD + "\nenv.set_seed(0)\n"

FILLED = (
    SEEDED.replace("LIMIT", "25")
    + """
from torchrl.collectors import Collector
from torchrl.collectors.utils import split_trajectories

critic = ValueOperator(nn.Linear(24, 1), in_keys=["feat"])
optim = torch.optim.Adam([*policy.parameters(), *critic.parameters()], 1e-3)


def loss_of(batch):
    rows = split_trajectories(batch, trajectory_key=("collector", "traj_ids"))
    mask = rows["collector", "mask"]
    with set_recurrent_mode(True):
        dist = policy.get_dist(rows)
    value = critic(rows)["state_value"].squeeze(-1)
    togo = (rows["next", "reward"].squeeze(-1) * mask).flip(1).cumsum(1).flip(1)
    each = (togo - value).square() - dist.log_prob(rows["action"]) * (togo - value).detach()
    return (each * mask).sum() / mask.sum()


for data in Collector(env, policy, frames_per_batch=120, total_frames=600):
    loss = loss_of(data)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)

REPEATED = (
    SEEDED.replace("LIMIT", "30")
    + """
optim = torch.optim.Adam(policy.parameters(), 1e-3)


def loss_of(batch):
    done, reward = batch["next", "done"].squeeze(-1), batch["next", "reward"].squeeze(-1)
    live = done.cumsum(1) - done.long() == 0
    togo, after = torch.zeros_like(reward), torch.zeros_like(reward[:, 0])
    for t in reversed(range(reward.shape[1])):
        after = live[:, t] * (reward[:, t] + 0.98 * after)
        togo[:, t] = after
    with set_recurrent_mode(True):
        told = policy.get_dist(batch).log_prob(batch["action"])
    each = told * (togo - 5.0)
    return -each[live].mean()


for _ in range(6):
    with torch.no_grad():
        data = env.rollout(30, policy, break_when_any_done=False, break_when_all_done=True)
    loss = loss_of(data)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)

# What is filled in is no zero where the memory reads it.
EMBEDDED = FILLED.replace(
    'gru = GRUModule(4, 24, in_key="observation", out_key="feat")',
    'gru = GRUModule(8, 24, in_key="embed", out_key="feat")\n'
    'embed = TensorDictModule(nn.Linear(4, 8), ["observation"], ["embed"])',
).replace("TensorDictSequential(gru,", "TensorDictSequential(embed, gru,")
HEALTHY = {"filled": FILLED, "embedded": EMBEDDED, "repeated": REPEATED}
FAULTS = {  # by the check that names it
    ("filled", "RP505"): ("(each * mask).sum() / mask.sum()", "each.mean()"),
    ("embedded", "RP505"): ("(each * mask).sum() / mask.sum()", "each.mean()"),
    ("repeated", "RP505"): ("each[live].mean()", "each.mean()"),
    ("repeated", "RP507"): (
        "    loss = loss_of(data)",
        '    data["observation"][:, 4] = 0.0\n    loss = loss_of(data)',
    ),
}
