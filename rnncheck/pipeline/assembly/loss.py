"""The loss: a LossModule wired to the policy and the critic by its signature, or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from rnncheck.errors import ComponentError, did_you_mean
from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.assembly import sizes
from rnncheck.pipeline.assembly.factories import Offered, call_factory, wrong_type
from rnncheck.pipeline.assembly.nested import build_nested, offered_critic, reads_action
from rnncheck.pipeline.assembly.own_functions import (
    build_own_loss,
    is_loss_itself,
    is_plain_function,
)
from rnncheck.pipeline.assembly.values import convert_arguments
from rnncheck.pipeline.compat import unbatched_action_spec
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.placing import module_on
from rnncheck.spec.model import Component, KeyPath, LossSpec, NetworkSpec, Spec

MakeNetwork = Callable[[NetworkSpec], nn.Module]
_LOSS_LIKE = "a LossModule, or any callable that takes a tensordict"
ACTOR = "actor_network"
Q_POLICY = (
    "value_network",
    "local_value_network",
)  # of a class that has no actor: the policy itself
DISCOUNTS = ("gamma", "lmbda")
CRITICS = ("critic_network", "qvalue_network", "value_network")


@dataclass(frozen=True)
class Kit:
    """What a loss is made from; ``env`` gives the action's spec to the classes that ask for one."""

    offered: Offered
    env: Any
    device: torch.device
    make_network: MakeNetwork


def build_loss(spec: Spec, component: LossSpec, kit: Kit) -> Any:
    """The loss with its value estimator."""
    if is_loss_itself(component, kit.offered):
        loss = build_own_loss(spec, component, kit.offered)
    elif component.factory is not None:
        loss = call_factory(spec, component, kit.offered)
        if not callable(loss) or isinstance(loss, type):
            raise wrong_type(spec, component, loss, _LOSS_LIKE)
    else:
        loss = _from_class(spec, component, kit)
    if isinstance(loss, nn.Module):
        loss = module_on(loss, kit.device)  # type: ignore[assignment]
    c.set_keys(spec, component, component.keys, loss)
    _make_value_estimator(spec, component, loss)
    return OwnLoss(loss, {}) if is_plain_function(loss) else loss


def _from_class(spec: Spec, component: LossSpec, kit: Kit) -> Any:
    target = c.find_class(spec, component.use or "", c.LOSS, (*component.at, "use"))
    wired = {
        **_networks(spec, component, target, kit.offered),
        **_action_arguments(component, target, kit.env),
    }
    c.check_arguments(spec, component, target, component.args, provided=wired)
    arguments = {**wired, **_arguments(spec, component, kit)}
    try:
        return c.construct(spec, component, target, arguments)
    except ComponentError as error:
        raise _of_the_estimator(spec, component, error) from error


def _of_the_estimator(spec: Spec, component: LossSpec, error: ComponentError) -> ComponentError:
    """A discount given to a class whose constructor refuses it: where it belongs in the spec."""
    moved = {name: value for name, value in component.args.items() if name in DISCOUNTS}
    if not moved or "make_value_estimator" not in error.message:
        return error
    said = " and ".join(moved)
    every = {**component.value_estimator, **moved}
    written = ", ".join(f"{name}: {value}" for name, value in every.items())
    return ComponentError(
        f"{component.use} of the installed TorchRL takes no {said} in its constructor: it belongs"
        " to its value estimator",
        place=spec.locate((*component.at, next(iter(moved)))),
        hint=f"in the loss section write `value_estimator: {{{written}}}` instead of {said}",
    )


def _arguments(spec: Spec, component: LossSpec, kit: Kit) -> dict[str, Any]:
    """The loss's own arguments; a network among them is written like the spec's critic."""
    networks = {
        name: network
        for name, value in component.args.items()
        if (network := as_network(value, (*component.at, name), name)) is not None
    }
    rest = {name: value for name, value in component.args.items() if name not in networks}
    plain = component.model_copy(update={"args": rest})
    args = convert_arguments(spec, plain, lambda inner: build_nested(spec, inner, kit.offered))
    return args | {name: kit.make_network(network) for name, network in networks.items()}


def as_network(value: Any, at: KeyPath, name: str) -> NetworkSpec | None:
    """The network that an argument of a loss is written as, where it is one."""
    if not name.endswith(("_network", "_model")) or not isinstance(value, (list, dict)):
        return None
    inner = c.nested(value, at)
    if inner is not None:
        by_factory = inner.factory is not None
        return NetworkSpec(
            modules=() if by_factory else (inner,), factory=inner if by_factory else None, at=at
        )
    listed, below = (
        (value, at) if isinstance(value, list) else (value.get("modules"), (*at, "modules"))
    )
    if not isinstance(listed, list) or not listed:
        return None
    modules = [_element(item, (*below, index)) for index, item in enumerate(listed)]
    return NetworkSpec(modules=tuple(modules), at=at)


def _element(item: Any, at: KeyPath) -> Component:
    return c.nested(item, at) or Component(use=str(item), at=at)


def _networks(
    spec: Spec, component: LossSpec, target: type, offered: Offered
) -> dict[str, nn.Module]:
    """Policy and critic under the names that the class gives them."""
    taken, given = c.accepts(target), component.args
    wired: dict[str, nn.Module] = {}
    if ACTOR not in taken.names:
        mine = [name for name in Q_POLICY if name in taken.names and name not in given]
        return {name: offered["policy"]() for name in mine}
    if ACTOR not in given:
        wired[ACTOR] = _actor(offered)
    slots = [n for n in CRITICS if n in taken.names and n not in given]
    needed = [n for n in slots if n in taken.required or n == "critic_network"]
    critic = offered_critic(offered)
    if needed and critic is not None:
        wired[_slot(needed, critic)] = critic
    _check_critic(spec, component, needed, critic, taken.required)
    return wired


def _actor(offered: Offered) -> nn.Module:
    """The policy; of an ActorValueOperator, its policy half."""
    policy = offered["policy"]()
    half = getattr(policy, "get_policy_operator", None)
    actor: nn.Module = half() if half is not None else policy
    return actor


def _slot(needed: list[str], critic: nn.Module) -> str:
    """Where a class wants both, a critic that reads the action is the one that judges actions."""
    if len(needed) > 1 and not reads_action(critic):
        return needed[-1]
    return needed[0]


def _check_critic(
    spec: Spec,
    component: LossSpec,
    needed: list[str],
    critic: nn.Module | None,
    required: tuple[str, ...],
) -> None:
    wanted = [name for name in needed if name in required] or _needs_critic(component, needed)
    if critic is None and wanted:
        raise ComponentError(
            f"{component.use} needs {' and '.join(wanted)}, and the spec has no critic",
            place=spec.locate(component.at),
            hint="add a `critic` section",
        )


def _needs_critic(component: LossSpec, needed: list[str]) -> list[str]:
    """PPO and A2C default the critic to None and then refuse it; REINFORCE can do without."""
    return [] if component.use == "ReinforceLoss" else needed


def _action_arguments(component: LossSpec, target: type, env: Any) -> dict[str, Any]:
    """The env's action spec, and what follows from it, under the names that the class takes."""
    taken, given = c.accepts(target).names, component.args
    action = unbatched_action_spec(env)[env.action_keys[0]]
    makers: dict[str, Callable[[], Any]] = {
        "action_space": lambda: action,
        "num_actions": lambda: sizes.action_size(action),
        "action_spec": lambda: action,
    }
    skipped = {*given, *({"action_spec"} if "bounds" in given else ())}
    if not sizes.is_discrete(action):
        skipped |= {"action_space", "num_actions"}
    return {name: make() for name, make in makers.items() if name in taken and name not in skipped}


def _make_value_estimator(spec: Spec, component: LossSpec, loss: Any) -> None:
    if not component.value_estimator:
        return
    at = (*component.at, "value_estimator")
    args = dict(component.value_estimator)
    inner = Component(use=f"{c.called(component)}.make_value_estimator", args=args, at=at)
    if not callable(getattr(loss, "make_value_estimator", None)):
        raise ComponentError(
            f"{c.called(component)} has no make_value_estimator", place=spec.locate(at)
        )
    kind = args.pop("type", None)
    first = () if kind is None else (_estimator_type(spec, kind, (*at, "type")),)
    with c.constructing(spec, inner, loss.make_value_estimator):
        loss.make_value_estimator(*first, **args)


def _estimator_type(spec: Spec, name: Any, at: KeyPath) -> Any:
    from torchrl.objectives import ValueEstimators

    known = {one.name.lower(): one for one in ValueEstimators}
    plain = str(name).lower().replace("_", "").replace("-", "").replace("estimator", "")
    if plain not in known:
        raise ComponentError(
            f"{name!r} is no value estimator",
            place=spec.locate(at),
            accepted=", ".join(known),
            hint=did_you_mean(str(name), known),
        )
    return known[plain]


def build_updater(spec: Spec, component: Component, loss: Any) -> Any:
    """The target updater over ``loss``."""
    if component.factory is not None:
        return call_factory(spec, component, {"loss": lambda: loss, "loss_module": lambda: loss})
    target = c.find_class(spec, component.use or "", c.UPDATER, (*component.at, "use"))
    c.check_arguments(spec, component, target, component.args, provided=("loss_module",))
    return c.construct(spec, component, target, {"loss_module": loss, **component.args})
