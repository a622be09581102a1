"""Functions of the user's that are called on batches: which of their parameters is the batch, and
what the others get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tensordict import TensorDictBase
from torch import nn

from rnncheck.errors import ComponentError
from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.assembly.factories import Given, Offered, load_factory
from rnncheck.pipeline.copying.copies import CannotCopy
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.keys import as_key
from rnncheck.pipeline.subject.training_pass import TwoPasses
from rnncheck.roles import role_of
from rnncheck.spec.model import Component, LossSpec, Spec

T = TypeVar("T")


@dataclass(frozen=True)
class OwnCall:
    """A function with all of its arguments but the batch; ``batch`` is empty where it takes that
    one by position."""

    function: Callable[..., Any]
    given: dict[str, Any]
    batch: str

    def __call__(self, td: TensorDictBase) -> Any:
        """Call the function on a batch."""
        if self.batch:
            return self.function(**{self.batch: td}, **self.given)
        return self.function(td, **self.given)


def is_loss_itself(component: LossSpec, offered: Offered) -> bool:
    """What was handed over from Python is called on batches instead of once: it is marked so, or
    wants just one thing that no factory is given."""
    if component.function is not None:
        return True
    function = component._live
    if function is None or isinstance(function, (Given, type)):
        return False
    return role_of(function) == "loss" or len(_open(function, component, offered)) == 1


def build_own_loss(spec: Spec, component: LossSpec, offered: Offered) -> OwnLoss:
    """The loss that the function is."""
    call = own_call(spec, component, offered)
    return _own(spec, component, OwnLoss(call.function, call.given, call.batch))


def with_training_pass(spec: Spec, policy: nn.Module, offered: Offered) -> nn.Module:
    """The policy as it is judged: with the pass of its own that trains it, where it has one."""
    component = spec.training_pass
    if component is None:
        return policy
    call = _own(spec, component, own_call(spec, component, offered))
    keys = tuple(as_key(key) for key in component.out_keys)
    return TwoPasses(policy, call, keys, time_first=component.time_first)


def _own(spec: Spec, component: Component, made: T) -> T:
    """A copy of what the caller of ``verify`` holds as well."""
    if component._live is None or spec._copies is None:
        return made
    try:
        copied: T = spec._copies.whole(made, f"the {component.at[0]}")
        return copied
    except CannotCopy as error:
        hint = "pass a function that holds less"
        raise ComponentError(str(error), place=spec.locate(component.at), hint=hint) from error


def own_call(spec: Spec, component: Component, offered: Offered) -> OwnCall:
    """The function that ``component`` names, ready for batches."""
    function = load_factory(spec, component)
    function = function() if isinstance(function, Given) else function
    taken = c.accepts(function)
    free = _open(function, component, offered)
    if len(free) > 1 or not (free or taken.names or taken.positional):
        wanted = " and ".join(map(repr, free)) or "nothing"
        raise ComponentError(
            f"{component.factory} is called on a batch, and needs {wanted}",
            place=spec.locate(component.at),
            accepted="one parameter without a default, which gets the batch, beside "
            + c.listed_names(sorted(offered)),
            hint="give the others as keys beside the function, or bind them in Python",
        )
    c.check_arguments(spec, component, function, component.args, provided=[*offered, *free])
    batch = free[0] if free else _first(function, component, offered)
    wanted_names = [n for n in taken.names if n in offered and n not in component.args]
    given = {name: offered[name]() for name in wanted_names if name != batch}
    return OwnCall(function, {**given, **component.args}, _by_name(function, batch))


def _open(function: Any, component: Component, offered: Offered) -> list[str]:
    """The parameters without a default that nothing fills."""
    required = c.accepts(function).required
    return [n for n in required if n not in offered and n not in component.args]


def _first(function: Any, component: Component, offered: Offered) -> str:
    names = c.accepts(function).names
    return next((n for n in names if n not in offered and n not in component.args), "")


def _by_name(function: Any, batch: str) -> str:
    """Empty where the parameter can only be given by position."""
    one = c.parameters(function).get(batch)
    return "" if one is None or one.kind is one.POSITIONAL_ONLY else batch


def is_plain_function(loss: Any) -> bool:
    """A callable of the user's that is neither a module nor like a TorchRL loss: what a factory
    may return for a loss."""
    alike = (nn.Module, OwnLoss)
    return not isinstance(loss, alike) and not hasattr(loss, "value_estimator")
