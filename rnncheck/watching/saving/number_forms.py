"""Arrays and numbers of numpy's, and generators of random numbers, as the forms of a saved run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rnncheck.watching.saving.env_forms import Decodes, Encodes
from rnncheck.watching.saving.forms import DTYPES
from rnncheck.watching.saving.import_paths import CannotKeep

Node = dict[str, Any]
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_DTYPE = "dtype"  # by which an array of a state is told
_HEX = "0x"  # how a state's numbers of 128 bits are written


def array_node(encoder: Encodes, value: np.ndarray[Any, Any] | np.generic) -> Node:
    """An array, or a number, as a tensor."""
    scalar = isinstance(value, np.generic)
    if type(value) is not np.ndarray and not scalar:
        raise CannotKeep(f"a {type(value).__name__} cannot be kept without pickle")
    if str(value.dtype) not in DTYPES:
        raise CannotKeep(f"an array of {value.dtype}")
    whole = torch.from_numpy(np.array(value, copy=True))
    return {"kind": "array", "of": encoder.form(whole), "scalar": scalar}


def array_again(decoder: Decodes, node: Node, _number: int) -> Any:
    """The same numbers."""
    held = decoder.part(node["of"]).numpy()
    return held[()] if node["scalar"] else held


def dtype_node(_encoder: Encodes, value: np.dtype[Any]) -> Node:
    """Its name."""
    if str(value) not in DTYPES:
        raise CannotKeep(f"the dtype {value}")
    return {"kind": "numpy dtype", "is": str(value)}


def dtype_again(_decoder: Decodes, node: Node, _number: int) -> np.dtype[Any]:
    """One of those that tensors have."""
    return np.dtype(str(DTYPES[node["is"]]).removeprefix("torch."))


def generator_node(encoder: Encodes, value: np.random.Generator) -> Node:
    """Its kind and where it is."""
    state = dict(value.bit_generator.state)
    if state["bit_generator"] not in _BIT_GENERATORS:
        raise CannotKeep(f"a generator of random numbers by {state['bit_generator']}")
    return {"kind": "numpy generator", "state": encoder.form(_written(state))}


def generator_again(decoder: Decodes, node: Node, _number: int) -> np.random.Generator:
    """One that goes on there."""
    state = _read(decoder.part(node["state"]))
    if state["bit_generator"] not in _BIT_GENERATORS:
        raise CannotKeep("a generator of random numbers of a kind that is none")
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def torch_generator_node(encoder: Encodes, value: torch.Generator) -> Node:
    """Where it is; one of another device than the CPU cannot be moved."""
    if value.device.type != "cpu":
        raise CannotKeep(f"a generator of random numbers on {value.device}")
    return {"kind": "torch generator", "state": encoder.form(value.get_state())}


def torch_generator_again(decoder: Decodes, node: Node, _number: int) -> torch.Generator:
    """One that goes on there."""
    made = torch.Generator()
    made.set_state(decoder.part(node["state"]))
    return made


def _written(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {name: _written(one) for name, one in state.items()}
    if isinstance(state, np.ndarray):
        return {_DTYPE: str(state.dtype), "of": [_written(int(one)) for one in state]}
    return f"{_HEX}{state:x}" if isinstance(state, int) else state


def _read(state: Any) -> Any:
    if isinstance(state, Mapping) and _DTYPE in state:
        kind = np.uint32 if state[_DTYPE] == "uint32" else np.uint64
        return np.array([_read(one) for one in state["of"]], dtype=kind)
    if isinstance(state, Mapping):
        return {name: _read(one) for name, one in state.items()}
    return int(state, 16) if isinstance(state, str) and state.startswith(_HEX) else state
