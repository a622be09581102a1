"""The states that episodes begin with, where these are no zeros: a constant, or one that is
learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data import Composite
from torchrl.envs import TensorDictPrimer

from rnncheck.pipeline.copying.holdings import held_modules
from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.plain_calls import FLAG


def begun_states(whole: TensorDictBase, keys: Iterable[Key], holder: Any) -> dict[Key, Tensor]:
    """Of the steps ``[rows, steps]`` those of the states ``keys`` that are the same, and not zero,
    wherever an episode begins, ``[...]`` of one row; where all begin at one step it must be one
    number, or weights that the ``holder`` has."""
    starts = whole.get(FLAG).reshape(whole.shape)
    found = dict[Key, Tensor]()
    for key in keys:
        states = whole.get(key, None)
        if states is None or not bool(starts.any()):
            continue
        began = states[starts]
        if bool(began[0].any()) and bool((began == began[0]).all()):
            several = int(starts.any(0).sum()) > 1
            if several or is_initial(began[0], holder):
                found[key] = began[0].detach().clone()
    return found


def is_initial(state: Tensor, holder: Any) -> bool:
    """Whether it is one number throughout, or weights or a buffer of what the ``holder`` has."""
    flat = state.detach().flatten()
    if flat.numel() > 1 and bool((flat == flat[0]).all()):
        return True
    modules = (module for _, module in held_modules(holder))
    held = (one for module in modules for one in _tensors(module))
    return any(one.numel() == flat.numel() and torch.equal(one.flatten(), flat) for one in held)


def primer(specs: Composite | dict[str, Any], begins: Mapping[Key, Tensor]) -> TensorDictPrimer:
    """Gives states that are zero at resets, but for those that begin otherwise."""
    given = TensorDictPrimer(specs, expand_specs=True)
    if begins:
        given.default_value = {
            key: partial(_laid, given, key, begins[_key(key)]) if _key(key) in begins else 0.0
            for key in given.primers.keys(True, True)
        }
    return given


def _laid(given: TensorDictPrimer, key: Any, state: Tensor) -> Tensor:
    """``[*envs, ...]``, as many as it gives."""
    spec = given.primers[key]
    return state.to(spec.device, spec.dtype).expand(spec.shape).clone()


def _key(key: Any) -> Key:
    return (key,) if isinstance(key, str) else tuple(key)


def _tensors(module: nn.Module) -> Iterable[Tensor]:
    yield from (one.detach() for one in module.parameters())
    yield from (one.detach() for one in module.buffers())
