"""A spec made of live objects and functions, for those who verify from Python instead of from a
file."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

from torch import nn
from torchrl.envs import EnvBase

from rnncheck.errors import Place, UserError
from rnncheck.pipeline.assembly.factories import Given
from rnncheck.pipeline.copying.copies import Copier
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.keys import declared
from rnncheck.spec.dump import fingerprint
from rnncheck.spec.model import (
    AdvantageSpec,
    Component,
    EnvSpec,
    LossSpec,
    NetworkSpec,
    PassSpec,
    ReplaySpec,
    Spec,
)
from rnncheck.spec.settings import VerifySpec

_SECTION_TYPES: dict[str, type[Component]] = {
    "env": EnvSpec,
    "training_pass": PassSpec,
    "collect": Component,
    "replay": ReplaySpec,
    "batch": Component,
    "advantage": AdvantageSpec,
    "loss": LossSpec,
}
_NETWORKS = ("policy", "critic")
_NEEDED = ("env", "policy")
# Per batch of the Collector that runs where none is given: some ten episodes of CartPole's random
# policy (22 steps each), one second with an env that makes 256 steps in it.
FRAMES = 256


def spec_of(
    parts: Mapping[str, Any],
    *,
    name: str,
    seed: int,
    device: str,
    verify: VerifySpec,
    place: Place,
) -> Spec:
    """The spec whose factories are ``parts``, by section; ``place`` is the caller's line.

    A part is a function, called with what it declares as in a spec's factory, or the object itself.
    Either way the pipeline is made of copies, which share what the parts share.
    Without ``collect`` TorchRL's Collector runs, unless it is False.
    """
    given = {section: part for section, part in parts.items() if part is not None}
    for section in _NEEDED:
        if section not in given:
            hint = "both may be an object or a function that makes it"
            raise UserError(f"verify() needs {section}=...", place=place, hint=hint)
    sections = {section: _section(section, part) for section, part in given.items()}
    sections.setdefault("collect", _default_collector())
    spec = Spec(
        schema=1, name=name, seed=seed, device=device, verify=verify,
        **{section: made for section, made in sections.items() if made is not None},
    )  # fmt: skip
    spec._path, spec._places = place.path, {(): place}
    spec._hash = fingerprint(spec)
    spec._copies = Copier(lasting=True)
    return spec


def loss_section(part: Any) -> Component:
    """The section of a spec that ``part`` is the loss of."""
    return _component(LossSpec, "loss", part)


def _section(section: str, part: Any) -> Component | NetworkSpec | None:
    if part is False and section == "collect":
        return None
    if section in _NETWORKS:
        inner = _component(Component, section, part)
        return NetworkSpec(factory=inner, at=(section,))
    return _component(_SECTION_TYPES[section], section, part)


def _component(model: type[Component], section: str, part: Any) -> Component:
    made = model(factory=_name(part), at=(section,))
    made._live = _factory(part)
    return made


def _default_collector() -> Component:
    return Component(use="Collector", args={"frames_per_batch": FRAMES}, at=("collect",))


def _factory(part: Any) -> Callable[..., Any]:
    if isinstance(part, EnvBase):
        return Given(_Envs(part))
    if isinstance(part, OwnLoss):
        return Given(lambda: part)
    if _is_function(part):
        function: Callable[..., Any] = part
        return function
    return Given(lambda: part)


def _is_function(part: Any) -> bool:
    """Modules and collectors are callable or iterable objects; what is left is called to make
    one."""
    is_object = isinstance(part, nn.Module) or bool(declared(part, "in_keys"))
    made = isinstance(part, type) or not (hasattr(part, "extend") or hasattr(part, "__iter__"))
    return callable(part) and (isinstance(part, type) or not is_object) and made


_CALLED = (FunctionType, MethodType, functools.partial)


def _name(part: Any) -> str:
    part = getattr(part, "function", part) if isinstance(part, OwnLoss) else part
    while isinstance(part, functools.partial):  # what is called in the end
        inner = (one for one in part.args if isinstance(one, _CALLED))
        part = next(inner, part.func)
    name = getattr(part, "__qualname__", type(part).__qualname__)
    return str(name).replace("<locals>.", "")


class _Envs:
    """Gives a copy of one env at each call; the env itself is neither stepped nor closed."""

    def __init__(self, env: EnvBase) -> None:
        self.env = env

    def __call__(self) -> EnvBase:
        try:
            return copy.deepcopy(self.env)
        except Exception as error:  # processes and renderers cannot be copied
            raise UserError(
                f"the env cannot be copied ({type(error).__name__}: {error})",
                hint="pass a function that makes it: env=make_env",
            ) from error
