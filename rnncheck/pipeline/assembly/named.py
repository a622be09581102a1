"""What a spec names, looked up without running any of the user's code: TorchRL's classes, their
arguments, and the functions of the factories in their source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchrl.envs.transforms import BurnInTransform

from rnncheck.errors import ComponentError, UserError, nearest
from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.assembly.advantage import estimator_class
from rnncheck.pipeline.assembly.collectors import OWN_ARGUMENTS
from rnncheck.pipeline.assembly.loss import as_network
from rnncheck.pipeline.assembly.module_list import WRAPPED, actor_arguments
from rnncheck.pipeline.assembly.replay import RECURRENT
from rnncheck.pipeline.assembly.sources import factory_complaint
from rnncheck.pipeline.compat import IMPLIED
from rnncheck.spec.model import Component, KeyPath, NetworkSpec, Spec

_PARTS = {"storage": c.STORAGE, "sampler": c.SAMPLER, "writer": c.WRITER}
_HANDED_OVER = {"policy", "create_env_fn", "replay_buffer", "modules", "scratch_dir"}
Named = tuple[Component, c.ComponentKind]


def wrong_names(spec: Spec) -> list[UserError]:
    """Everything that the spec names and that is not there, in no order."""
    found: list[UserError] = []
    queue = list(_top(spec))
    while queue:
        component, kind = queue.pop()
        if component.factory is not None:
            complaint = factory_complaint(spec, component)
            found += [complaint] if complaint is not None else []
        else:
            found += _of_class(spec, component, kind)
        queue += _inside(component.args, component.at, component.use or "")
    return found


def _top(spec: Spec) -> Iterator[Named]:
    yield spec.env, c.ENV
    yield from ((one, c.TRANSFORM) for one in spec.env.transforms)
    for network in (spec.policy, spec.critic):
        yield from _network(network)
    kinds = ((spec.collect, c.COLLECTOR), (spec.batch, c.ANY))
    for section, kind in (*kinds, (spec.advantage, c.ESTIMATOR), (spec.loss, c.LOSS)):
        if section is not None:
            yield section, kind
    if spec.replay is not None:
        yield spec.replay, c.REPLAY
        yield from ((one, c.TRANSFORM) for one in spec.replay.transforms)
        parts = ((getattr(spec.replay, name), kind) for name, kind in _PARTS.items())
        yield from ((part, kind) for part, kind in parts if part is not None)
    if spec.loss is not None and spec.loss.target_update is not None:
        yield spec.loss.target_update, c.UPDATER


def _network(network: NetworkSpec | None) -> Iterator[Named]:
    if network is not None:
        made = () if network.factory is None else (network.factory,)
        yield from ((one, c.NN_MODULE) for one in (*network.modules, *made))


def _inside(value: Any, at: KeyPath, owner: str) -> Iterator[Named]:
    """The components inside the arguments of one."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        here = (*at, key)
        inner = c.nested(item, here)
        network = as_network(item, here, str(key)) if owner.endswith("Loss") else None
        if inner is not None:
            yield inner, c.ANY
        elif network is not None:
            yield from _network(network)
        elif isinstance(item, (dict, list)):
            listed = owner if key == "modules" else ""
            yield from _inside(item, here, listed)
        elif isinstance(item, str) and _names_module(key, at, owner):
            yield Component(use=item, at=here), c.ANY


def _names_module(key: Any, at: KeyPath, owner: str) -> bool:
    """``modules: [Linear, Tanh]`` of a Sequential, and ``module: MLP``."""
    return key == "module" or (owner == "Sequential" and isinstance(key, int))


def _of_class(spec: Spec, component: Component, kind: c.ComponentKind) -> list[UserError]:
    """What is wrong with the name of a class, or with those of its arguments."""
    try:
        target = _class(spec, component, kind)
    except ComponentError as error:
        return [error]
    found: list[UserError] = []
    mine, free = class_arguments(component, target, kind)
    for argument, value in component.args.items():
        if argument not in mine and not free(argument):
            known = [name for name in mine if name not in IMPLIED or name in component.args]
            found.append(c.unknown_argument(spec, component, argument, known))
        elif isinstance(value, str) and argument.endswith("_class"):
            found += _class_argument(spec, component, argument, value)
    return found


def _class(spec: Spec, component: Component, kind: c.ComponentKind) -> type:
    if kind is c.ESTIMATOR:
        return estimator_class(spec, component)
    return c.find_class(spec, component.use or "", kind, (*component.at, "use"))


def _class_argument(spec: Spec, component: Component, argument: str, name: str) -> list[UserError]:
    kind = c.DISTRIBUTION if argument == "distribution_class" else c.NN_MODULE
    try:
        c.find_class(spec, name, kind, (*component.at, argument))
    except ComponentError as error:
        return [error]
    return []


def class_arguments(component: Component, target: type, kind: c.ComponentKind) -> Any:
    """The names that are taken, and which others are swallowed."""
    if target.__name__ == "ProbabilisticActor":
        return actor_arguments(), lambda name: False
    taken = c.accepts(target)
    missing = {*taken.required} - {*component.args} - _HANDED_OVER
    own = [*OWN_ARGUMENTS] if kind is c.COLLECTOR else []
    own += WRAPPED if kind in (c.NN_MODULE, c.ANY) else ()
    own += ["init_stats"] if target.__name__ == "ObservationNorm" else []
    own += [RECURRENT] if issubclass(target, BurnInTransform) else []
    own += ["modules"] if target.__name__ == "Sequential" else []
    mine = [*taken.names, *filter(None, [taken.positional]), *own]
    return mine, lambda name: taken.open and nearest(name, missing) is None
