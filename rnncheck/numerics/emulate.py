"""Running any torch code again in a wider dtype than it asks for, or with less exact matrix
products.

Both act below the code that is run: a cast, an autocast or a new tensor in a narrower floating
dtype becomes one of the wide dtype. What the code would compute without any rounding of its own is
so known without knowing the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from rnncheck.numerics.rounding import BITS, ProductPrecision

aten = torch.ops.aten
# Positions of the two operands of every product that recurrent code is made of.
OPERANDS: dict[Any, tuple[int, int]] = {
    aten.mm.default: (0, 1),
    aten.bmm.default: (0, 1),
    aten.mv.default: (0, 1),
    aten.dot.default: (0, 1),
    aten.addmm.default: (1, 2),
    aten.addmv.default: (1, 2),
    aten.baddbmm.default: (1, 2),
    aten.linear.default: (0, 1),
    aten.matmul.default: (0, 1),
    aten.convolution.default: (0, 1),
}
_PARTS: dict[torch.dtype | None, torch.dtype] = {  # of complex numbers
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


class Computing(TorchDispatchMode):
    """Inside the context floating tensors are made in ``dtype`` at least, and products are those of
    ``precision``.

    Higher-order operators (a scan over steps) raise NotImplementedError here.
    """

    def __init__(self, dtype: torch.dtype, precision: ProductPrecision | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype = dtype
        self.precision = precision
        self.acted = False  # something was about to be made in a narrower dtype

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        if kind is not None:
            torch._dynamo.reset()  # what was being compiled when it raised would stay broken

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if (wider := self._wider(named.get("dtype"))) is not None:
            named["dtype"], self.acted = wider, True
        if not func._schema.is_mutable and any(map(self._is_narrow, tree_leaves(args))):
            args, self.acted = tree_map(self._widened, args), True
        places = OPERANDS.get(func)
        if self.precision is None or places is None:
            return func(*args, **named)
        return self._rounded(self.precision, func, places, args, named)

    def _is_narrow(self, value: Any) -> bool:
        return isinstance(value, Tensor) and self._wider(value.dtype) is not None

    def _widened(self, value: Any) -> Any:
        return value.to(self._wider(value.dtype)) if self._is_narrow(value) else value

    def _wider(self, dtype: torch.dtype | None) -> torch.dtype | None:
        """The dtype in its place; None where it is as wide, or no floating one. That of complex
        numbers is wide as its parts are."""
        part = _PARTS.get(dtype, dtype)
        if part not in BITS or BITS[part] >= BITS[self.dtype]:
            return None
        return self.dtype.to_complex() if part is not dtype else self.dtype

    @staticmethod
    def _rounded(
        precision: ProductPrecision,
        func: Callable[..., Tensor],
        places: tuple[int, int],
        args: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Tensor:
        left, right = (args[place] for place in places)
        if not left.is_floating_point():
            return func(*args, **named)

        def function(one: Tensor, other: Tensor) -> Tensor:
            given = list(args)
            given[places[0]], given[places[1]] = one, other
            return func(*given, **named)

        return precision.product(function, left, right)
