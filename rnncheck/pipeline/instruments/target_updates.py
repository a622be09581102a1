"""What TorchRL's updaters of target networks do to these."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torchrl.objectives import TargetNetUpdater

from rnncheck.pipeline.copying.networks import networks_in

_MOST_STEPS = 100_000  # between two updates: chosen, Atari's DQN has some ten thousand
_TARGET = "target_"


def left_by(updater: TargetNetUpdater, loss: Any) -> tuple[list[str], list[str]]:
    """The target networks of ``loss``, a copy of the updater's own that may be changed, and those
    of them that steps leave as they are once the trained weights have moved."""
    made = copy.copy(updater)
    for name in ("_targets_val", "_sources_val"):  # what it keeps of its own loss
        vars(made).pop(name, None)
    made.loss_module = loss
    if not made.initialized:
        made.init_()
    found = {one.name: one.weights for one in networks_in(loss)}
    names = [name for name in found if name.startswith(_TARGET)]
    names = [name for name in names if name.removeprefix(_TARGET) in found]
    before = {name: [one.clone() for one in found[name]] for name in names}
    for name in names:
        shift(found[name.removeprefix(_TARGET)])
    steps = int(getattr(made, "value_network_update_interval", 1))
    for _ in range(min(steps, _MOST_STEPS) + 1):
        made.step()
    return names, [name for name in names if all(map(torch.equal, found[name], before[name]))]


@torch.no_grad()
def shift(weights: list[Tensor]) -> None:
    """Move them in place, by about as much as they are large."""
    generator = torch.Generator().manual_seed(7)
    for one in weights:
        noise = torch.randn(one.shape, generator=generator).to(one)
        one.data.add_(noise * (0.1 + one.detach().abs().mean()))
