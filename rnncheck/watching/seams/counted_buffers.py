"""Buffers that move while the script steps its env, such as running means of what it was shown."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.harmless import harmless
from rnncheck.watching.seams.patching import hear_modules

_LARGEST = 4096  # numbers of one buffer: statistics have one for each number that is observed
# By the module that has one and its name there: the buffer, a copy, and the module.
_Held = dict[tuple[int, str], tuple[Tensor, Tensor, nn.Module]]


def counted_seams(watching: Watching, scope: ExitStack) -> None:
    """Note until ``scope`` ends what the buffers of modules that ran ahead of a step held then."""
    noting = CountedBuffers(watching)
    hear_modules(watching, scope, noting.called)
    watching.at_a_step.append(noting.stepped)


class CountedBuffers:
    """What they held at the latest step of an env, and which of them moved from one to another with
    no update between."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._since: _Held = {}  # the last step
        self._acted: _Held = {}
        self._updates = 0

    def called(self, module: nn.Module, _inputs: Any) -> None:
        """A module is about to run."""
        if module._buffers and self._watching.looks:
            self._note(module)

    @harmless
    def _note(self, module: nn.Module) -> None:
        if isinstance(module, _BatchNorm) and module.training:
            return  # it reads those of its batch
        for name, one in module._buffers.items():
            if one is not None and not is_lazy(one) and one.numel() <= _LARGEST:
                self._since[id(module), name] = one, one.detach().clone(), module

    def stepped(self) -> None:
        """The env was stepped: what ran before it acted."""
        seen = self._watching.seen
        if self._updates != seen.updates:
            self._updates = seen.updates
            self._acted.clear()
            seen.counting.clear()
            seen.still.clear()
            seen.still_in.clear()
        for key, (one, now, module) in self._since.items():
            before, name = self._acted.get(key), f"{type(module).__name__}.{key[1]}"
            if before is not None and not torch.equal(before[1], now):
                seen.counting.add(name)
            self._acted[key] = one, now, module
            if name in seen.counting:
                seen.still.pop(id(one), None)
                seen.still_in.pop(key, None)
            else:
                seen.still[id(one)] = one, now
                seen.still_in[key] = module, key[1], now
        self._since.clear()
