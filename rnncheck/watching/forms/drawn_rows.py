"""Rows of steps that were drawn out of a memory."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.watching.forms.fewer_bits import observed_in_bits_of
from rnncheck.watching.forms.plain_calls import OBSERVATION
from rnncheck.watching.forms.plain_pass import Drawn


def drawn_rows(
    observed: Tensor, found: Tensor, whole: TensorDictBase, *, time_first: bool
) -> Drawn:
    """What rows ``observed`` show that were ``found`` ``[rows, steps, 2]`` among the steps of
    ``whole``, and where each was acted on; behind the last step as well, where that was."""
    whole = observed_in_bits_of(observed, whole)
    rows, steps = found.shape[:2]
    width = whole.get(OBSERVATION)[0, 0].numel()
    shown = observed.detach().cpu().to(whole.get(OBSERVATION).dtype)
    shown = (
        shown.reshape(-1, rows, width).transpose(0, 1)
        if time_first
        else shown.reshape(rows, -1, width)
    )
    for step in range(steps, shown.shape[1]):  # what the last one led to, where that was acted on
        row, after = found[:, -1, 0], (found[:, -1, 1] + 1).clamp_max(whole.shape[1] - 1)
        seen = whole.get(OBSERVATION)[row.clamp_min(0), after].reshape(rows, -1)
        same = (row >= 0) & (seen == shown[:, step]).all(-1)
        following = torch.where(same.unsqueeze(-1), torch.stack([row, after], -1), -1)
        found = torch.cat([found, following.unsqueeze(1)], 1)
    return shown, found
