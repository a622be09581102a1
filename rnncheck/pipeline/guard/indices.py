"""On an accelerator an index that is out of range ends every further computation of the process
(CUDA's device-side assertions), where on the CPU it raises. Code of the user's that is called on
other batches than its own may compute one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_INDEXED = {  # the first argument is read at the indices in the others
    Tensor.__getitem__,
    Tensor.gather,
    torch.gather,
    Tensor.index_select,
    torch.index_select,
}
_CLASSES = {
    torch.nn.functional.embedding,
    torch.nn.functional.one_hot,
    torch.nn.functional.nll_loss,
    torch.nn.functional.cross_entropy,
}
_DRAWN = {torch.multinomial, Tensor.multinomial}  # of numbers that are probabilities, or are not


class RangesKept(TorchFunctionMode):
    """Inside, what reads with indices raises before it is done what it raises on the CPU: there it
    is tried first, on stand-ins of the same shape and with the same indices."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """``func(*args, **kwargs)``. Raises IndexError or RuntimeError as the CPU does."""
        kwargs = kwargs or {}
        if func is Tensor.__setitem__:
            _try(Tensor.__getitem__, args[:2], {})
        elif func in _INDEXED or func in _CLASSES:
            _try(func, args, kwargs)
        elif func in _DRAWN:
            _check_probabilities(args[0] if args else kwargs["input"])
        return func(*args, **kwargs)


def _try(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> None:
    if func in _INDEXED:
        args = (_flat(args[0]), *_there(args[1:]))
    else:
        args = _there(args, flat=func in _CLASSES)
    with torch.no_grad():
        func(*args, **_there(kwargs, flat=func in _CLASSES))


def _check_probabilities(told: Tensor) -> None:
    if not bool((told.detach().isfinite() & (told.detach() >= 0)).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")


def _there(value: Any, *, flat: bool = False) -> Any:
    """On the CPU; ``flat``: numbers that are no classes as stand-ins."""
    if isinstance(value, Tensor):
        number = value.is_floating_point()
        return _flat(value) if number and flat else value.detach().to("cpu")
    if isinstance(value, dict):
        return {name: _there(one, flat=flat) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_there(one, flat=flat) for one in value)
    return value


def _flat(value: Tensor) -> Tensor:
    """Of its shape, in the memory of one number."""
    return torch.zeros((), dtype=value.dtype, device="cpu").expand(value.shape)
