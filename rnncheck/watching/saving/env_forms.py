"""Envs as the forms of a saved run: how they are made, not what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from torchrl.envs import EnvBase, EnvCreator, GymEnv, ParallelEnv, SerialEnv, TransformedEnv

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.shown_before import Before, ShownBefore
from rnncheck.watching.saving.import_paths import CannotKeep

_BATCHED = (SerialEnv, ParallelEnv)
_LIBRARIES = ("torchrl.", "torch.", "tensordict.")
Node = dict[str, Any]


class Encodes(Protocol):
    """What gives parts of an env their form."""

    def form(self, value: Any) -> Any:
        """The form of a part."""

    def path(self, value: Any) -> str:
        """The import path of a class."""

    def object(self, value: Any) -> Node:
        """An object as its class and its state."""

    def whole(self, value: Any) -> Any:
        """The same, and where it cannot be kept nothing of it stays."""


class Decodes(Protocol):
    """What makes the parts again."""

    def part(self, form: Any) -> Any:
        """The object of a form."""

    def found(self, told: Any) -> Any:
        """The class that is named."""


def env_node(encoder: Encodes, env: EnvBase) -> Node:
    """A live env as what makes one like it."""
    if isinstance(env, TransformedEnv):
        parts = [encoder.form(env.base_env), encoder.form(env.transform.clone())]
        return {"kind": "transformed", "of": parts}
    if isinstance(env, _BATCHED):
        made = [maker_form(encoder, one) for one in _makers(env)]
        return {"kind": "batched", "of": encoder.path(type(env)), "made": made}
    if isinstance(env, GymEnv):
        of = encoder.path(type(env))
        return {"kind": "gym", "of": of, "given": encoder.form(_arguments(env))}
    if type(env).__module__.startswith(_LIBRARIES):
        raise CannotKeep(f"a live {type(env).__name__}, which no function of a module makes")
    return encoder.object(env)  # the user's own class


def shown_node(encoder: Encodes, shown: ShownBefore) -> Node:
    """What a loop shows of the step before."""
    return {"kind": "shown before", "of": encoder.form(shown_forms(shown.entries))}


def shown_forms(entries: Mapping[Key, Before]) -> list[Any]:
    """Each of the entries."""
    found = entries.items()
    return [[list(key), list(one.source), one.first, one.one_hot, one.stays] for key, one in found]


def shown_again(forms: Any) -> dict[Key, Before]:
    """The entries."""
    return {
        tuple(key): Before(tuple(source), first, bool(hot), bool(stays))
        for key, source, first, hot, stays in forms
    }


def shown_entries(decoder: Decodes, node: Node, _number: int) -> ShownBefore:
    """The same."""
    return ShownBefore(shown_again(decoder.part(node["of"])))


def _arguments(env: GymEnv) -> dict[str, Any]:
    """What makes an env of the registry like this one. Its specs tell whether it is."""
    given = {name: value for name, value in env._constructor_kwargs.items() if name != "env"}
    given |= {
        "categorical_action_encoding": env._categorical_action_encoding,
        "frame_skip": env.wrapper_frame_skip,
        "convert_actions_to_numpy": env._convert_actions_to_numpy,
    }
    if env.from_pixels:
        given |= {"from_pixels": True, "pixels_only": env.pixels_only}
    like = type(env)(**given)
    try:
        same = like.specs == env.specs and not env.info_dict_reader
    finally:
        like.close()
    if not same:
        raise CannotKeep(f"a {type(env).__name__} that its name and arguments do not make again")
    return given


def _makers(env: SerialEnv | ParallelEnv) -> list[Any]:
    makers = env.create_env_fn
    if not isinstance(makers, (list, tuple)):
        makers = [makers] * env.num_workers
    if any(env.create_env_kwargs):
        raise CannotKeep("an env whose workers get arguments of their own")
    return list(makers)


def maker_form(encoder: Encodes, make: Any) -> Any:
    """What makes envs: a function by its name, else an env like that it makes."""
    if isinstance(make, EnvBase):
        return encoder.form(make)
    if isinstance(make, EnvCreator):
        make = make.create_env_fn
    try:
        return encoder.whole(make)
    except CannotKeep:
        return _made_by(encoder, make)


def _made_by(encoder: Encodes, make: Any) -> Any:
    env = make()
    try:
        return encoder.form(env)
    finally:
        with suppress(Exception):
            env.close()


def transformed(decoder: Decodes, node: Node, _number: int) -> EnvBase:
    """Its base env, and its transforms again."""
    base, transform = (decoder.part(one) for one in node["of"])
    return TransformedEnv(base, transform)


def batched(decoder: Decodes, node: Node, _number: int) -> EnvBase:
    """Several envs side by side."""
    kind, makers = decoder.found(node["of"]), [_maker(decoder.part(one)) for one in node["made"]]
    if kind not in _BATCHED or not makers or len(makers) > 1024:
        raise CannotKeep("several envs of a kind that is none")
    made: EnvBase = kind(len(makers), makers)
    return made


def _maker(made: Any) -> Any:
    """SerialEnv takes functions; an env is copied by each call of them."""
    from rnncheck.watching.envs import env_maker

    return env_maker(made)


def gym(decoder: Decodes, node: Node, _number: int) -> EnvBase:
    """An env of a registry, by its name."""
    kind = decoder.found(node["of"])
    if not issubclass(kind, GymEnv):
        raise CannotKeep("an env of a registry whose class is none")
    made: EnvBase = kind(**decoder.part(node["given"]))
    return made
