"""Targets inside of losses, and how they take the ends of episodes into account."""

from __future__ import annotations

from tests.watching.next_values_script import OWN, changed

# Rows of which no episode terminates: all of them are cut.
SHORT = changed(OWN, ("StepCounter(200)", "StepCounter(6)"))
ENDS_IGNORED = (" * (~over)", "")
_READ = 'reward, over = batch["next", "reward"].squeeze(-1),'
CLIPPED = (_READ, _READ.replace("squeeze(-1)", "squeeze(-1).clamp(-1, 1)"))
SIGNS = (_READ, _READ.replace("squeeze(-1)", "squeeze(-1).sign()"))

# The sum of three rewards, and the value behind them; fewer where the episode or the row is over.
THREE_STEPS = (
    "    gain = reward + 0.97 * behind * (~over) - guess\n",
    """    done, steps = batch["next", "done"].squeeze(-1), reward.shape[1]
    target, going_on = torch.zeros_like(reward), torch.ones_like(reward)
    for n in range(3):
        at = (torch.arange(steps) + n).clamp(max=steps - 1)
        last = done[:, at] | (at == steps - 1) | (n == 2)
        more = torch.where(last, 0.97 * behind[:, at] * (~over[:, at]), 0.0)
        target = target + going_on * 0.97**n * (reward[:, at] + more)
        going_on = going_on * (~last)
    gain = target - guess
""",
)
THREE_IGNORED = (" * (~over[:, at])", "")
THREE_RUN_ON = ("last = done[:, at] |", "last =")

# What a step is discounted by is stored with it, and that is all that the loss reads of its end.
_COLLECTED = "for data in Collector(env, actor, frames_per_batch=96, total_frames=576):\n"
STEPPED = (
    _COLLECTED,
    """td = env.reset()
for _ in range(6):
    steps = []
    for _ in range(24):
        with torch.no_grad():
            now, td = env.step_and_maybe_reset(actor(td))
        now["going_on"] = 0.97 * (~now["next", "terminated"]).float()
        steps.append(now)
    data = torch.stack(steps, 1)
""",
)
OF_ITS_OWN = (
    ('batch["next", "terminated"].squeeze(-1)', 'batch["going_on"].squeeze(-1)'),
    ("0.97 * behind * (~over)", "behind * over"),
)
MADE = (
    "    loss = loss_of(data)\n",
    '    data["going_on"] = 0.97 * (~data["next", "terminated"]).float()\n'
    "    loss = loss_of(data)\n",
)
UNDER_NEXT = (
    ('now["going_on"]', 'now["next", "going_on"]'),
    ('batch["going_on"]', 'batch["next", "going_on"]'),
)
AS_A_FLAG = (
    ("0.97 * (~now", "(~now"),
    ('["next", "terminated"]).float()', '["next", "terminated"])'),
    ("behind * over", "0.97 * behind * over"),
)
WHATEVER_ENDS = ("behind * over", "0.97 * behind")

# Flags of terminated steps that a script clears itself ahead of its loss.
_LOSS = "    loss = loss_of(data)\n"
_KEPT = '    data["next", "terminated"] &= {}\n'
ALL_CLEARED = (_LOSS, _KEPT.format("False") + _LOSS)
LATE_CLEARED = (_LOSS, _KEPT.format('(data["next", "step_count"] < 15)') + _LOSS)
LIMIT_CLEARED = (_LOSS, _KEPT.format('(data["next", "step_count"] < 200)') + _LOSS)
