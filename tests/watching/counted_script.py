"""Returns ahead of a loss, of rewards that are scaled by what the script keeps count of."""

from __future__ import annotations

from tests.watching.estimates_script import HEAD, OWN_LOSS

# The lines that count give other numbers each time; what is behind them does not.
COUNTED = (
    HEAD
    + OWN_LOSS
    + """

class Scale:
    seen, total = 1, 1.0

    def of(self, rewards):
        self.seen += rewards.numel()
        self.total += float(rewards.sum())
        return self.total / self.seen


scale = Scale()


def discounted(td):
    reward, done, over = (td["next", key] for key in ("scaled", "done", "terminated"))
    with torch.no_grad():
        after = td["next"].select("observation", "is_init", "recurrent_state").clone()
        behind = critic(gru(after))["state_value"] * (~over)
    returns, going_on = torch.zeros_like(reward), behind[:, -1]
    for t in reversed(range(reward.shape[1])):
        going_on = torch.where(done[:, t], behind[:, t], going_on)
        going_on = reward[:, t] + 0.98 * going_on
        returns[:, t] = going_on
    td["returns"] = returns


for data in Collector(env, actor, frames_per_batch=96, total_frames=576):
    novel = data["next", "observation"].square().mean(-1, keepdim=True)
    by = scale.of(novel)
    data["next", "scaled"] = data["next", "reward"] + novel / by
    discounted(data)
    update(data)
"""
)
FAULTS = {  # by the check that names it
    "VL601": ("        going_on = torch.where(done[:, t], behind[:, t], going_on)\n", ""),
    "VL603": (" * (~over)", ""),
    "VL604": (
        'select("observation", "is_init", "recurrent_state").clone()\n        behind',
        'select("observation", "is_init").clone()\n        behind',
    ),
}
