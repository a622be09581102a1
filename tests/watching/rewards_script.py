"""Rewards that are changed between the env and the loss: into other forms, or those of other
steps."""

from __future__ import annotations

from tests.watching.next_values_script import OWN, changed

# An env whose rewards differ from step to step.
_ENV = "env = TransformedEnv("
PAID = changed(
    OWN,
    (
        _ENV,
        """
class Paid(Transform):
    def _step(self, tensordict, next_tensordict):
        seen = next_tensordict["observation"]
        next_tensordict["reward"] = next_tensordict["reward"] + 3 * seen.sum(-1, keepdim=True)
        return next_tensordict


"""
        + _ENV,
    ),
    ("InitTracker(), ", "InitTracker(), Paid(), "),
    ("TransformedEnv\n", "Transform, TransformedEnv\n"),
)
_LOSS = "    loss = loss_of(data)\n"


def paid(reward: str) -> tuple[str, str]:
    """The batch has other rewards: ``r`` are those that were collected."""
    lines = f'    r = data["next", "reward"]\n    data["next", "reward"] = {reward}\n'
    return (_LOSS, lines + _LOSS)


# What a loop stores beside a step is what the env paid for the one before.
_COLLECTED = "for data in Collector(env, actor, frames_per_batch=96, total_frames=576):\n"
BY_HAND = (
    _COLLECTED,
    """td, last = env.reset(), torch.zeros(4, 1)
for _ in range(6):
    steps = []
    for _ in range(24):
        with torch.no_grad():
            now, td = env.step_and_maybe_reset(actor(td))
        now = now.clone()
        earned = now["next", "reward"].clone()
        now["next", "reward"], last = earned, earned
        steps.append(now)
    data = torch.stack(steps, 1)
""",
)
OF_THE_LAST = ("last = earned, earned", "last = last, earned")
