"""Whether modules are in ``train()`` or in ``eval()`` while the script steps a plain env: a
function that acts may do something else in the other mode."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from torch import nn

from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.patching import hear_modules

_STEPS = 64  # that are looked at; chosen: no script changes its mind behind so many


def acting_mode_seams(watching: Watching, scope: ExitStack) -> None:
    """Note it until ``scope`` ends."""
    noting = _ActingModes(watching)
    hear_modules(watching, scope, noting.called)
    watching.at_a_step.append(noting.stepped)


class _ActingModes:
    """The modes of the modules that ran ahead of a step, in the first of these steps."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._since = dict[int, tuple[nn.Module, bool]]()  # the last step
        self._steps = 0

    def called(self, module: nn.Module, _inputs: Any) -> None:
        """A module is about to run."""
        if self._steps < _STEPS:
            self._since[id(module)] = module, module.training

    def stepped(self) -> None:
        """The env was stepped: what ran before it acted, or had trained before that."""
        if self._since and self._steps < _STEPS:
            self._steps += 1
            self._watching.seen.modes.update(self._since)
            self._since.clear()
