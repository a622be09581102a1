"""A module's first run: its sizes show, its lazy parameters get theirs, its copy is taken."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from tensordict import TensorDictBase
from torch import nn
from torch.nn.parameter import is_lazy

from rnncheck.pipeline.env import INIT_KEY
from rnncheck.pipeline.keys import declared


def run_once(module: nn.Module, td: TensorDictBase) -> TensorDictBase:
    """Run ``module`` on one reset's ``td``, which it fills; statistics and modes stay as they are."""
    for key in declared(module, "in_keys"):
        if key[-1] == INIT_KEY and td.get(key, None) is None:
            td[key] = torch.ones(*td.batch_size, 1, dtype=torch.bool, device=td.device)
    with _evaluating(module), torch.no_grad():
        result: TensorDictBase = module(td)
        return result


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def is_unfinished(module: nn.Module) -> bool:
    """Whether parameters or buffers still wait for their first input."""
    return any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers()))


def pristine_copy(module: nn.Module, name: str, notices: list[str]) -> nn.Module:
    """A copy that nothing has run on; the module itself, with a notice, when it cannot be copied."""
    try:
        return copy.deepcopy(module)
    except Exception as error:
        notices.append(
            f"the {name} cannot be copied ({type(error).__name__}: {error}): "
            "what the collector changes in it reaches the checks too"
        )
        return module
