"""A policy that is a function or an object of the user's and no module."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase
from torch import nn

from rnncheck.pipeline.copying.holdings import held_modules


class CalledPolicy(nn.Module):
    """Calls ``function`` on one step; the modules that it can reach are its parts."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        held = dict.fromkeys(module for _, module in held_modules(function))
        for number, module in enumerate(held):
            setattr(self, f"agent{number or ''}", module)

    def forward(self, td: TensorDictBase) -> Any:
        """What the function gives; the step, where it writes into that."""
        given = self.function(td)
        return td if given is None else given


def as_module(policy: Any) -> Any:
    """The policy, as a module where it is another thing that is called."""
    if policy is None or isinstance(policy, (nn.Module, type)) or not callable(policy):
        return policy
    return CalledPolicy(policy)


def is_of(module: Any, policy: Any) -> bool:
    """Whether it is that policy, or calls it."""
    return module is policy or (isinstance(module, CalledPolicy) and module.function is policy)
