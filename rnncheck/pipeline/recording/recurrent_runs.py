"""On how many steps recurrent modules run while something is done, as a burn-in does."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils.hooks import RemovableHandle
from torchrl.envs.transforms import BurnInTransform

from rnncheck.pipeline.subject.subject import carriers

_RECURRENT = (nn.RNNCellBase, nn.RNNBase)


class RecurrentRuns:
    """Inside the context: on how many steps each outermost recurrent module runs.

    ``ready_made`` has the ``burn_in`` of each BurnInTransform that ran.
    """

    def __init__(self) -> None:
        self.steps: dict[int, int] = defaultdict(int)
        self.ready_made: list[int] = []
        self._depth = 0
        self._known: dict[int, tuple[nn.Module, bool]] = {}
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> RecurrentRuns:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _before(self, module: nn.Module, args: Any) -> None:
        if isinstance(module, BurnInTransform):
            self.ready_made.append(int(module.burn_in))
        elif self._recurs(module):
            if self._depth == 0 and args:
                self.steps[id(module)] += _steps(module, args[0])
            self._depth += 1

    def _after(self, module: nn.Module, _args: Any, _result: Any) -> None:
        if not isinstance(module, BurnInTransform) and self._recurs(module):
            self._depth -= 1

    def _recurs(self, module: nn.Module) -> bool:
        if id(module) not in self._known:
            found = isinstance(module, _RECURRENT) or bool(carriers(module))
            self._known[id(module)] = (module, found)
        return self._known[id(module)][1]


def _steps(module: nn.Module, given: Any) -> int:
    if isinstance(given, TensorDictBase):
        return int(given.batch_size.numel())
    if not isinstance(given, Tensor):
        return 0
    lead = given.shape[:-1]  # the rows of a single step, or rows and steps
    return int(lead.numel()) if isinstance(module, _RECURRENT) else 0
