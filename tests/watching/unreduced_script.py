"""TorchRL's loss over padded rows, one number for each step: the script leaves the padding out."""

from __future__ import annotations

from tests.watching.ahead_script import HEAD

SCRIPT = (
    HEAD.replace("LIMIT", "25").replace(
        'default_interaction_type="random",',
        'default_interaction_type="random",return_log_prob=True,',
    )
    + """
from torchrl.collectors import Collector
from torchrl.collectors.utils import split_trajectories
from torchrl.objectives import ClipPPOLoss

env.set_seed(0)
critic = TensorDictSequential(gru, ValueOperator(nn.Linear(24, 1), in_keys=["feat"]))
loss_module = ClipPPOLoss(policy, critic, normalize_advantage=False, reduction="none")
optim = torch.optim.Adam(loss_module.parameters(), 1e-3)


def prepared(rows):
    mask = rows["here"]
    reward = rows["next", "reward"].squeeze(-1) * mask
    togo = reward.flip(1).cumsum(1).flip(1)
    with torch.no_grad(), set_recurrent_mode(True):
        value = critic(rows.clone())["state_value"].squeeze(-1)
    rows["value_target"] = togo.unsqueeze(-1)
    rows["advantage"] = ((togo - value) * mask).unsqueeze(-1)
    return rows


for data in Collector(env, policy, frames_per_batch=120, total_frames=600):
    rows = split_trajectories(data, trajectory_key=("collector", "traj_ids"))
    rows["here"] = rows["collector", "mask"]
    rows = prepared(rows.exclude("collector"))
    mask = rows["here"]
    found = loss_module(rows)
    each = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
    loss = (each.reshape(mask.shape) * mask).sum() / mask.sum()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
# The lines that reduce it are of a function, whatever that is given.
IN_A_FUNCTION = (
    """    mask = rows["here"]
    found = loss_module(rows)
    each = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
    loss = (each.reshape(mask.shape) * mask).sum() / mask.sum()
""",
    """    loss = reduced(loss_module(rows), rows["here"])
""",
)
REDUCED = (
    """for data in Collector(""",
    """def reduced(found, mask):
    each = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
    return (each.reshape(mask.shape) * mask).sum() / mask.sum()


for data in Collector(""",
)
UNMASKED = ("* mask).sum() / mask.sum()\n    optim", ").mean()\n    optim")
UNMASKED_THERE = ("* mask).sum() / mask.sum()\n\n", ").mean()\n\n")
# Means and deviations of advantages that count the padding.
NORMALISED = ("normalize_advantage=False", "normalize_advantage=True")
# The mask is made ahead of the batch's last binding, and the loss leaves it out of the batch.
MASK_AHEAD = (
    """    rows = prepared(rows.exclude("collector"))
    mask = rows["here"]
""",
    """    mask = rows["here"]
    rows = prepared(rows.exclude("collector"))
""",
)
# Weights that the lines take out of the batch ahead of the loss.
TAKEN = (
    """    mask = rows["here"]
    found = loss_module(rows)
""",
    """    mask = rows.pop("here")
    found = loss_module(rows)
""",
)
