"""Value estimators: the spec's, or the user's own, and their run over a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from rnncheck.errors import ComponentError
from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.assembly.factories import Offered, call_factory, wrong_type
from rnncheck.pipeline.assembly.nested import build_nested, offered_critic
from rnncheck.pipeline.assembly.values import convert_arguments
from rnncheck.spec.model import AdvantageSpec, Component, Spec

_ESTIMATOR_LIKE = "a value estimator, or any callable that takes a tensordict"
_NETWORK_ARGUMENTS = ("value_network", "actor_network")


def build_estimator(
    spec: Spec, component: AdvantageSpec, offered: Offered, device: torch.device
) -> Any:
    """The estimator that ``use`` names (``TD0`` stands for ``TD0Estimator``), or the factory's."""
    if component.factory is not None:
        made = call_factory(spec, component, offered)
        if callable(made) and not isinstance(made, type):
            return made
        raise wrong_type(spec, component, made, _ESTIMATOR_LIKE)
    target = estimator_class(spec, component)
    args = convert_arguments(spec, component, lambda inner: build_nested(spec, inner, offered))
    wired = _networks(spec, component, target, offered)
    if device.type != "cpu" and "device" in c.accepts(target).names:
        wired["device"] = device
    c.check_arguments(spec, component, target, component.args, provided=wired)
    made = c.construct(spec, component, target, {**wired, **args})
    c.set_keys(spec, component, component.keys, made)
    return made.to(device)


def estimator_class(spec: Spec, component: Component) -> type:
    """The estimator's class; ``TD0`` stands for ``TD0Estimator``."""
    name, at = component.use or "", (*component.at, "use")
    known = c.class_names(c.ESTIMATOR)
    return c.find_class(spec, name if name in known else _full(name, known), c.ESTIMATOR, at)


def _full(name: str, known: list[str]) -> str:
    return f"{name}Estimator" if f"{name}Estimator" in known else name


def _networks(
    spec: Spec, component: AdvantageSpec, target: type, offered: Offered
) -> dict[str, Any]:
    """The critic and the policy under the names that the estimator's class gives them."""
    taken = [name for name in _NETWORK_ARGUMENTS if name in c.accepts(target).names]
    makers = {"value_network": lambda: _value_network(spec, component, offered)}
    makers["actor_network"] = offered["policy"]
    return {name: makers[name]() for name in taken if name not in component.args}


def _value_network(spec: Spec, component: AdvantageSpec, offered: Offered) -> nn.Module:
    network = offered_critic(offered)
    if network is None:
        raise ComponentError(
            f"{component.use} needs a value network, and the spec has no critic",
            place=spec.locate(component.at),
            hint="add a `critic` section, or let the policy write 'state_value'",
        )
    return network
