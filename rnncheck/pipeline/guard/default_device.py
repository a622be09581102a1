"""The device on which a tensor is made that names none: the user's lines and the libraries' get the
one that the user has made the default, the tool's own lines the CPU.

`torch.set_default_device("cuda")` and `with torch.device("cuda"):` act on whatever runs meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from torch.utils._device import DeviceContext, _device_constructors

_OWN = str(Path(__file__).parents[2])  # the folder of this package


@contextmanager
def own_tensors_on_cpu() -> Iterator[None]:
    """Inside, what the tool's lines make is on the CPU; inside of another, nothing is added."""
    theirs: Any = DeviceContext.__torch_function__
    if getattr(theirs, "__module__", "") == __name__:
        yield
        return

    def chosen(
        self: DeviceContext, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in _device_constructors() and _is_ours(_asking(sys._getframe(1))):
            return func(*args, **(kwargs or {}))
        return theirs(self, func, types, args, kwargs)

    DeviceContext.__torch_function__ = chosen  # type: ignore[method-assign]
    try:
        yield
    finally:
        DeviceContext.__torch_function__ = theirs  # type: ignore[method-assign]


def _asking(frame: FrameType) -> str:
    """The file whose line makes the tensor: modes between it and us hand it on."""
    while frame.f_code.co_name == "__torch_function__" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename


def _is_ours(path: str) -> bool:
    return path.startswith(_OWN)
