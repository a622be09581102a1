"""What modules with weights of their own give, in the order of their calls."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from rnncheck.pipeline.instruments.vmap import is_batched


class ModuleOutputs:
    """Notes copies of it while the context is open, or of what has a graph alone; of ``layers``
    that give a state beside their outputs the outputs, too."""

    def __init__(self, *, graphed: bool = False, layers: bool = False) -> None:
        self._graphed, self._layers = graphed, layers
        self.seen = list[Tensor]()
        self.modules = list[nn.Module]()

    def __enter__(self) -> ModuleOutputs:
        self._handle = register_module_forward_hook(self._gave)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _gave(self, module: nn.Module, _inputs: object, result: object) -> None:
        if self._layers and isinstance(result, tuple) and result:
            result = result[0]
        if not module._parameters or not isinstance(result, Tensor) or is_batched(result):
            return
        if result.requires_grad or not self._graphed:
            self.seen.append(result.detach().clone())
            self.modules.append(module)

    def moved(self, other: ModuleOutputs) -> list[nn.Module]:
        """The modules that give something else in the same calls; none where the calls differ."""
        if len(self.seen) != len(other.seen):
            return []
        pairs = zip(self.modules, self.seen, other.seen, strict=True)
        return [one for one, mine, theirs in pairs if not torch.equal(mine, theirs)]
