"""Advantages that a loss normalises beside its value loss, with rows or padding that leak."""

from __future__ import annotations

from tests.watching.ahead_script import PADDED
from tests.watching.next_values_script import changed
from tests.watching.unroll_script import UNROLLED

_SCALED = "    scaled = (gain - gain.mean()) / (gain.std() + 1e-6)\n"
_MEAN = "    return gain.pow(2).mean() - (chosen * scaled.detach()).mean()\n"
OVER_THE_BATCH = UNROLLED
# Episodes of five steps at most; rows end with one of a single step, which has no deviation.
ONE_STEP_LEFT = (
    ("max_steps=30", "max_steps=5"),
    ("STEPS, HIDDEN = 4, 24, 16", "STEPS, HIDDEN = 4, 26, 16"),
)
# The second half of the rows counts half.
BY_PLACE = (
    _MEAN,
    "    first, second = (gain.pow(2) - chosen * scaled.detach()).chunk(2)\n"
    "    return first.mean() + 0.5 * second.mean()\n",
)
FROM_OTHER_ROWS = (_SCALED, "    gain = gain + 0.3 * gain.detach().roll(1, 0)\n" + _SCALED)
OVER_THE_ENDS = (" * (~done[:, t])", "")

# Rollouts with padded rows, whose statistics leave the padding out.
_GAIN = "    loss = -(told * (togo - 5.0) * mask).sum() / mask.sum()\n"
MASKED = changed(
    PADDED,
    (
        _GAIN,
        """    middle = (togo * mask).sum() / mask.sum()
    spread = (((togo - middle) * mask).square().sum() / mask.sum()).sqrt()
    loss = -(told * (togo - middle) / (spread + 1e-6) * mask).sum() / mask.sum()
""",
    ),
)
PADDING_COUNTED = (
    "    middle = (togo * mask).sum() / mask.sum()\n",
    "    middle = (togo * mask).sum() / mask.sum() - told.detach().mean()\n",
)
