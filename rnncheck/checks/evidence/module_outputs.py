"""What modules with weights of their own give, in the order of their calls."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from rnncheck.pipeline.instruments.vmap import is_batched


class ModuleOutputs:
    """Notes copies of it while the context is open."""

    def __init__(self) -> None:
        self.seen = list[Tensor]()

    def __enter__(self) -> ModuleOutputs:
        self._handle = register_module_forward_hook(self._gave)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _gave(self, module: nn.Module, _inputs: object, result: object) -> None:
        if module._parameters and isinstance(result, Tensor) and not is_batched(result):
            self.seen.append(result.detach().clone())
