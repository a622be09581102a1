"""A trained policy's weights: a state_dict file, read without running any code that it may hold."""

from __future__ import annotations

import pickle
from typing import Any

import torch
from torch import Tensor, nn

from rnncheck.errors import ComponentError, Place, nearest
from rnncheck.pipeline.assembly.components import listed_names
from rnncheck.spec.model import NetworkSpec, Spec

_STATE_DICT_KEYS = (
    "state_dict",
    "policy",
    "model",
)  # keys under which checkpoints keep the state_dict


def load_weights(spec: Spec, network: NetworkSpec, module: nn.Module) -> None:
    """Load ``network.weights`` into ``module``, or a ComponentError that says what does not fit."""
    if network.weights is None:
        return
    place = spec.locate((*network.at, "weights"))
    state = _read(spec, network.weights, place)
    _check_names(state, module.state_dict(), network.weights, place)
    _check_shapes(state, module.state_dict(), network.weights, place)
    module.load_state_dict(state)


def _read(spec: Spec, name: str, place: Place) -> dict[str, Tensor]:
    path = spec.folder / name
    if not path.is_file():
        files = [p.name for p in path.parent.glob("*")] if path.parent.is_dir() else []
        match = nearest(path.name, files)
        hint = f"did you mean {match!r}?" if match else "the path is relative to the spec's folder"
        raise ComponentError(f"there is no weights file {name!r}", place=place, hint=hint)
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise _unsafe(name, place) from error
    except Exception as error:
        message = f"{name} is not a file that torch.save wrote ({type(error).__name__})"
        raise ComponentError(message, place=place) from error
    return _state_dict(loaded, name, place)


def _unsafe(name: str, place: Place) -> ComponentError:
    return ComponentError(
        f"{name} holds pickled Python objects, which loading would run as code",
        place=place,
        accepted="a file written by torch.save(policy.state_dict(), path)",
    )


def _state_dict(loaded: Any, name: str, place: Place) -> dict[str, Tensor]:
    if isinstance(loaded, dict):
        found = next(
            (loaded[k] for k in _STATE_DICT_KEYS if isinstance(loaded.get(k), dict)), loaded
        )
        if found and all(isinstance(value, Tensor) for value in found.values()):
            return dict(found)
    raise ComponentError(
        f"{name} holds no state_dict",
        place=place,
        accepted=f"a state_dict, or a dict with one under {', '.join(_STATE_DICT_KEYS)}",
    )


def _check_names(state: dict[str, Tensor], own: dict[str, Any], name: str, place: Place) -> None:
    missing = [key for key in own if key not in state]
    foreign = [key for key in state if key not in own]
    if not missing and not foreign:
        return
    parts = (("missing", missing), ("not in the network", foreign))
    said = "; ".join(f"{what}: {listed_names(keys)}" for what, keys in parts if keys)
    raise ComponentError(
        f"{name} is not of this network: {said}", place=place, accepted=listed_names(own)
    )


def _check_shapes(state: dict[str, Tensor], own: dict[str, Any], name: str, place: Place) -> None:
    wrong = [
        f"{key} is {list(state[key].shape)}, the network's is {list(value.shape)}"
        for key, value in own.items()
        if isinstance(value, Tensor) and state[key].shape != value.shape
    ]
    if wrong:
        raise ComponentError(f"{name} has other shapes: {listed_names(wrong)}", place=place)
