"""A module's first run: its sizes show, its lazy parameters get theirs, its copy is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from tensordict import TensorDictBase
from torch import nn
from torch.nn.parameter import is_lazy

from rnncheck.pipeline.assembly.env_maker import INIT_KEY
from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.copying.copies import CannotCopy, copy_of
from rnncheck.pipeline.keys import declared, tensor_items
from rnncheck.pipeline.placing import forked_rng
from rnncheck.pipeline.subject.introspect import declared_shapes
from rnncheck.pipeline.subject.subject import carriers

_META = "meta"  # in what torch says of tensors without values


def run_once(module: nn.Module, td: TensorDictBase) -> TensorDictBase:
    """Run ``module`` on one reset's ``td``, which it fills; statistics and modes stay as they
    are."""
    for key in declared(module, "in_keys"):
        if key[-1] == INIT_KEY and td.get(key, None) is None:
            td[key] = torch.ones(*td.batch_size, 1, dtype=torch.bool, device=td.device)
    with _evaluating(module), torch.no_grad():
        result: TensorDictBase = module(td)
        return result


def run_from_some_state(module: nn.Module, td: TensorDictBase) -> TensorDictBase:
    """``run_once``; where the env gives no state, or one that the module refuses, from zeros of the
    module's own size.

    The state that the env gives stays in ``td``: whether it fits is for the checks to say (WR103,
    WR104).
    """
    try:
        return run_once(module, td)
    except Exception:
        shapes = {k: v for one in carriers(module) for k, v in declared_shapes(one).items()}
        if not shapes:
            raise
        states = {key: td.get(key, None) for key in shapes}
        for key, shape in shapes.items():
            td.set(key, torch.zeros(*td.batch_size, *shape, device=td.device))
        try:
            return run_once(module, td)
        finally:
            td.exclude(*shapes, inplace=True)
            td.update({key: value for key, value in states.items() if value is not None})


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    modes = [(part, part.training) for part in all_modules(module)]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def is_unfinished(module: nn.Module) -> bool:
    """Whether parameters or buffers still wait for their first input."""
    return any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers()))


def without_values(module: nn.Module, first: Callable[[], TensorDictBase]) -> str:
    """Why the module cannot compute anything of what it is given ``first``: parameters that were
    never given values; empty where all were, or those that were not are none that it computes
    with, as of a template that others are put into."""
    why = _without_values(module)
    if not why or is_unfinished(module):
        return why
    try:
        with forked_rng():
            result = run_from_some_state(copy_of(module, "the network"), first().clone())
    except Exception as error:  # the user's module may raise anything
        return why if _META in str(error) else ""
    return why if any(one.is_meta for _, one in tensor_items(result)) else ""


def _without_values(module: nn.Module) -> str:
    named = [*module.named_parameters(), *module.named_buffers()]
    for kind, found in (
        ("on the meta device", [name for name, tensor in named if tensor.is_meta]),
        ("not materialised", [name for name, tensor in named if is_lazy(tensor)]),
    ):
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            return f"{found[0]}{more} of its parameters and buffers: {kind}, without values"
    return ""


def pristine_copy(module: nn.Module, name: str, notices: list[str]) -> nn.Module:
    """A copy that nothing has run on.

    Where it cannot be copied, the module itself, with a notice: it shows how it is made, but what
    would run or convert it takes a copy first, and cannot look.
    """
    try:
        return copy_of(module, f"the {name}")
    except CannotCopy as error:
        notices.append(f"{error}: what needs a run of its own cannot look")
        return module
