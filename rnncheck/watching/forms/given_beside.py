"""Numbers of each step that a script hands to its loss beside the batch: advantages that it has
made of another one are not those of a batch that was changed."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
from torch import Tensor

from rnncheck.pipeline.subject.modes import called_in_mode, in_mode_of
from rnncheck.watching.forms.storages import spoilt
from rnncheck.watching.seen import Called


def numbers_beside(loss: Called) -> dict[str, Tensor]:
    """Those arguments, by name."""
    if not loss.inputs or loss.inputs[0].batch_dims < 2:
        return {}
    given = given_with(called_in_mode(loss.module)[1])
    return {name: one for name, one in given.items() if _of_every_step(one, loss)}


def spoilt_beside(loss: Called, name: str) -> Any:
    """The loss with no number of that argument as it was."""
    mode, inner = called_in_mode(loss.module)
    names = list(inspect.signature(inner.func).parameters)
    args = [spoilt(one) if names[n] == name else one for n, one in enumerate(inner.args)]
    keywords = {key: spoilt(one) if key == name else one for key, one in inner.keywords.items()}
    return in_mode_of(mode, functools.partial(inner.func, *args, **keywords))


def given_with(function: Any) -> dict[str, Any]:
    """What a function is called with beside a batch, by name."""
    if not isinstance(function, functools.partial):
        return {}
    try:
        names = list(inspect.signature(function.func).parameters)
    except (TypeError, ValueError):  # what is not written in Python has none
        return {}
    return {**dict(zip(names, function.args, strict=False)), **function.keywords}


def _of_every_step(value: Any, loss: Called) -> bool:
    """It has a row for each of the batch's, and about as many steps: one less of a bootstrap."""
    if not isinstance(value, Tensor) or isinstance(value, torch.nn.Parameter) or value.ndim < 2:
        return False
    rows, steps = loss.inputs[0].shape[:2]
    alike = value.shape[0] == rows and steps - value.shape[1] in (-1, 0, 1)
    return alike and value.is_floating_point()
