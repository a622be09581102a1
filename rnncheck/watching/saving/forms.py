"""The forms that objects have in a saved run: plain data, each object once, tensors beside them.

A number, a text, True, False and None stand for themselves. Everything else is ``{"at": N}``, the
N-th of ``nodes``: a mapping with its ``kind``.
"""

from __future__ import annotations

import argparse
import types

import torch

DTYPES = {
    str(one).removeprefix("torch."): one
    for one in (
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.uint8),
        *(torch.int8, torch.int16, torch.int32, torch.int64, torch.complex64, torch.complex128),
    )
}
NAMESPACES = {one.__name__: one for one in (argparse.Namespace, types.SimpleNamespace)}
FLOATS = "float"  # a number of Python's: JSON has neither NaN nor infinity
AT = "at"
