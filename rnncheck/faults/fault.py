"""What a planted fault is, and the plants that most of them are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.instruments.call_loss import total_of
from rnncheck.pipeline.keys import Key, declared, present, tensor_keys
from rnncheck.pipeline.placing import forked_rng
from rnncheck.pipeline.plant.env_changes import altered
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts, Plant
from rnncheck.pipeline.plant.module_changes import (
    Around,
    Call,
    has_recurrent_mode,
    is_recurrent,
    mode,
    wrap,
)
from rnncheck.pipeline.recording.masks import padding_mask
from rnncheck.pipeline.subject.subject import Carrier, carriers, next_key
from rnncheck.results.model import Stage

EnvBase = Any  # only the pipeline knows TorchRL


@dataclass(frozen=True)
class Fault:
    """One way of being wrong. ``expects`` are the checks that must see it: any one of them is
    enough.

    ``plant`` gets the built parts and returns what changes them, or raises CannotPlant where it
    finds nothing to take hold of.
    """

    name: str
    stage: Stage
    expects: tuple[str, ...]
    plant: Plant
    summary: str = ""  # the first line of the fault's file


def carriers_of(parts: Parts) -> list[Carrier]:
    """The policy's modules that carry state."""
    found = carriers(parts.policy)
    if not found:
        raise CannotPlant("no module of the policy carries state")
    return found


def needs_rows(parts: Parts, count: int = 2) -> None:
    """A batch of envs."""
    if parts.env.batch_size.numel() < count:
        raise CannotPlant("one env alone: there is no other row")


def needs_collect(parts: Parts) -> None:
    """Data that is collected."""
    if parts.spec.collect is None:
        raise CannotPlant("the spec has no collect stage")


def needs_workers(parts: Parts) -> None:
    """A collector with processes of its own. One that a factory makes is not known before it is
    called."""
    if not str(parts.spec.collect and parts.spec.collect.use).startswith("Multi"):
        raise CannotPlant("the spec names no collector with worker processes")


def needs_training(parts: Parts, *sections: str) -> None:
    """One of these stages behind collection."""
    if not any(getattr(parts.spec, section) is not None for section in sections):
        raise CannotPlant(f"the spec has no {' and no '.join(sections)} stage")


def needs_recurrent_mode(parts: Parts) -> None:
    """A policy that has two ways of running."""
    carriers_of(parts)
    if not has_recurrent_mode(parts.env, parts.policy):
        raise CannotPlant("the policy has no recurrent mode")


def _only(around: Around, recurrent: bool) -> Around:
    def run(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
        return around(module, call, td) if is_recurrent() is recurrent else call(td)

    return run


def wrapped(around: Around) -> Callable[[nn.Module], nn.Module]:
    """A hook that puts ``around`` about the call of every carrier of a network."""

    def change(network: nn.Module) -> nn.Module:
        for carrier in carriers(network):
            wrap(carrier.module, around)
        return network

    return change


def in_recurrent_mode(around: Around, *needs: Callable[[Parts], None]) -> Plant:
    """``around`` the policy's carriers while they run over time."""

    def plant(parts: Parts) -> Hooks:
        needs_recurrent_mode(parts)
        for need in needs:
            need(parts)
        return Hooks(policy=wrapped(_only(around, True)))

    return plant


def over_rows(around: Around) -> Plant:
    """``around`` the policy's carriers over time, where a batch has rows: those of the env, or of
    the training."""
    everywhere = in_recurrent_mode(around)

    def plant(parts: Parts) -> Hooks:
        hooks = everywhere(parts)
        if parts.env.batch_size.numel() > 1:
            return hooks
        if parts.spec.loss is None:
            raise CannotPlant("one env alone: there is no other row")
        return replace(hooks, trained=_with_rows)

    return plant


def _with_rows(sample: TensorDictBase) -> TensorDictBase:
    if sample.ndim < 2 or sample.shape[:-1].numel() < 2:
        raise CannotPlant("one env alone, and training batches of one row: there is no other")
    return sample


def where_it_fits(around: Around, fits: Callable[[Carrier], bool], otherwise: str) -> Plant:
    """``around`` the carriers that fit, over time: the policy's, or where none of them does, the
    critic's."""

    def plant(parts: Parts) -> Hooks:
        carriers_of(parts)
        if chosen := _fitting(parts.policy, fits):
            needs_recurrent_mode(parts)
            return Hooks(policy=lambda policy: _wrapped_at(policy, chosen, around))
        critic = parts.critic
        chosen = [] if critic is None else _fitting(critic, fits)
        if not chosen or critic is None:
            raise CannotPlant(otherwise)
        if not has_recurrent_mode(parts.env, critic, behind=parts.policy):
            raise CannotPlant("the critic has no recurrent mode")
        return Hooks(critic=lambda network: _wrapped_at(network, chosen, around))

    return plant


def _fitting(network: nn.Module, fits: Callable[[Carrier], bool]) -> list[str]:
    return [one.path for one in carriers(network) if fits(one)]


def _wrapped_at(network: nn.Module, paths: Sequence[str], around: Around) -> nn.Module:
    for path in paths:
        wrap(network.get_submodule(path), _only(around, True))
    return network


def while_acting(around: Around, *needs: Callable[[Parts], None]) -> Plant:
    """``around`` the policy's carriers while they run step by step."""

    def plant(parts: Parts) -> Hooks:
        carriers_of(parts)
        for need in needs:
            need(parts)
        return Hooks(policy=wrapped(_only(around, False)))

    return plant


def in_both_modes(around: Around, *needs: Callable[[Parts], None]) -> Plant:
    """``around`` the policy's carriers whenever they run."""

    def plant(parts: Parts) -> Hooks:
        carriers_of(parts)
        for need in needs:
            need(parts)
        return Hooks(policy=wrapped(around))

    return plant


def flag_keys(parts: Parts) -> tuple[Key, ...]:
    """The start flags that the env writes: boolean inputs of the policy's carriers."""
    first = parts.env.reset()
    reads = [key for one in carriers_of(parts) for key in declared(one.module, "in_keys")]
    found = [key for key in reads if first.get(key, None) is not None]
    flags = tuple(dict.fromkeys(k for k in found if first.get(k).dtype is torch.bool))
    if not flags:
        raise CannotPlant("the policy reads no start flag from the env")
    return flags


def on_states_of_env(change: Callable[[EnvBase, Sequence[Key]], EnvBase]) -> Plant:
    """Envs whose resets give the policy's states, changed: ``change(env, keys of the states)``."""

    def plant(parts: Parts) -> Hooks:
        keys = [key for one in carriers_of(parts) for key in one.keys]
        given = present(parts.env.reset(), keys)
        if not given:
            raise CannotPlant("no reset of the env gives a state that could be lost")
        return Hooks(env=lambda env: change(env, given))

    return plant


def at_reset(change: Callable[[Tensor, TensorDictBase | None], Tensor]) -> Plant:
    """The start flags that a reset gives, changed:
    ``change(flag, what the reset was asked with)``."""

    def plant(parts: Parts) -> Hooks:
        keys = flag_keys(parts)

        def reset(before: TensorDictBase | None, given: TensorDictBase) -> TensorDictBase:
            for key in keys:
                given.set(key, change(given.get(key), before))
            return given

        return Hooks(env=lambda env: altered(env, reset))

    return plant


Remembered = dict[Key, Tensor]


def remembering(
    env: EnvBase, keys: Sequence[Key], reset: Callable[[Remembered, TensorDictBase], None]
) -> EnvBase:
    """``env`` whose resets are changed by ``reset(last, given)``; ``last`` holds what the last step
    gave of ``keys``."""
    last: Remembered = {}

    def note(before: TensorDictBase, given: TensorDictBase) -> TensorDictBase:
        for key in keys:
            value = given.get(key, None)
            value = before.get(("next", *key), None) if value is None else value
            if value is not None:
                last[key] = value.clone()
        return given

    def change(before: TensorDictBase | None, given: TensorDictBase) -> TensorDictBase:
        reset(last, given)
        return given

    return altered(env, change, note)


def keeping_state(
    parts: Parts,
    choose: Callable[[Carrier], Sequence[Key]],
    mix: Callable[[Tensor], Tensor] | None = None,
) -> Callable[[EnvBase], EnvBase]:
    """A hook for envs whose resets leave the chosen states as they were, or what ``mix`` leaves of
    them."""
    keys = [key for one in carriers_of(parts) for key in choose(one)]
    _must_begin_with(parts, keys)

    def keep(last: Remembered, given: TensorDictBase) -> None:
        for key in keys:
            if key in last and given.get(key, None) is not None:
                given.set(key, last[key] if mix is None else mix(last[key]))

    return lambda env: remembering(env, keys, keep)


def _must_begin_with(parts: Parts, keys: Sequence[Key]) -> None:
    """The policy must begin an episode with the states that a reset gives, in one of its modes."""
    first = parts.env.reset()
    other = first.clone()
    for key in present(first, keys):
        other.set(key, first.get(key) + 1)
    states = [next_key(key) for one in carriers_of(parts) for key in one.keys]
    moved = True  # by a policy that cannot run, which shows elsewhere
    with suppress(Exception):
        for recurrent in (False, True):
            one, two = (_ran(parts.policy, td, recurrent) for td in (first, other))
            if any(not torch.equal(one.get(key), two.get(key)) for key in states):
                return
        moved = False
    if not moved:
        raise CannotPlant("the policy begins anew at a start flag, whatever state a reset gives")


def _ran(policy: nn.Module, first: TensorDictBase, recurrent: bool) -> TensorDictBase:
    """One step of a copy of the policy; in recurrent mode it is a sequence of one."""
    td = first.clone().unsqueeze(-1) if recurrent else first.clone()
    with mode(recurrent), torch.no_grad(), forked_rng():
        out: TensorDictBase = copy_of(policy, "the policy")(td)
        return out


def on_samples(change: Callable[[TensorDictBase, Parts], TensorDictBase]) -> Plant:
    """Training batches, changed on their way: through a replay, or what makes batches by hand."""

    def plant(parts: Parts) -> Hooks:
        needs_collect(parts)
        needs_training(parts, "replay", "batch")
        return Hooks(sample=lambda td: change(td.clone(), parts))

    return plant


def around_loss(around: Callable[[Any, TensorDictBase, Parts], Any]) -> Plant:
    """``around(call, batch, parts)`` in the place of the loss."""

    def plant(parts: Parts) -> Hooks:
        needs_training(parts, "loss")
        return Hooks(loss=lambda loss: _called(loss, around, parts))

    return plant


def reading(call: Any, td: TensorDictBase, values: dict[Key, Tensor]) -> Any:
    """``call`` on a batch with other ``values``; what it writes into its batch goes into ``td`` as
    well."""
    work = td.copy()
    for key, value in values.items():
        work.set(key, value)
    before = {key: work.get(key) for key in tensor_keys(work)}
    out = call(work)
    for key in tensor_keys(work):
        if work.get(key) is not before.get(key):
            td.set(key, work.get(key))
    return out


def loss_with(call: Any, td: TensorDictBase, values: dict[Key, Tensor]) -> Tensor:
    """The total of a loss on a copy of its batch with other ``values``; random numbers stay as they
    were."""
    with forked_rng():
        return total_of(reading(call, td.clone(), values))[0]


ENDS = ("done", "terminated", "truncated")


def ends_of(td: TensorDictBase) -> dict[Key, Tensor]:
    """The flags of a batch that say where an episode ends."""
    return {k: td.get(k) for k in tensor_keys(td) if k[0] == "next" and k[-1] in ENDS}


def around_estimator(around: Callable[[Any, TensorDictBase, Parts], Any]) -> Plant:
    """``around(call, batch, parts)`` in the place of the value estimator."""

    def plant(parts: Parts) -> Hooks:
        needs_training(parts, "advantage")
        return Hooks(estimator=lambda estimator: _called(estimator, around, parts))

    return plant


# Below these two estimates count as the same: some thousand, and near zero some ten, roundings of
# float32, which is what another order of the same sums makes. Chosen, the fault itself is larger.
RELATIVE, ABSOLUTE = 1e-4, 1e-6


def same_estimates(right: Any, out: Any) -> bool:
    """Whether an estimator gave the same numbers twice."""
    if not isinstance(right, TensorDictBase) or not isinstance(out, TensorDictBase):
        return False
    keys = [key for key in tensor_keys(out) if out.get(key).is_floating_point()]
    return all(
        torch.allclose(right.get(key), out.get(key), rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)
        for key in keys
    )


def where_padded(parts: Parts, change: Callable[[TensorDictBase, Key], TensorDictBase]) -> Hooks:
    """Hooks for training batches that a mask parts into data and padding: ``change(batch, key of
    the mask)``."""
    needs_training(parts, "loss")
    found = list[Key]()

    def trained(sample: TensorDictBase) -> TensorDictBase:
        mask = padding_mask(sample)
        if mask is None or bool(mask[1].all()):
            return sample
        found.append(mask[0])
        return change(sample, mask[0])

    def loss(made: Any) -> Any:
        if not found:
            raise CannotPlant("no training batch has padded steps behind a mask")
        return made

    return Hooks(trained=trained, loss=loss)


class Inside:
    """Which batch the loss or the estimator runs on, while it runs."""

    def __init__(self) -> None:
        self._batches: list[TensorDictBase] = []

    @property
    def batch(self) -> TensorDictBase | None:
        """None outside."""
        return self._batches[-1] if self._batches else None

    def run(self, call: Any, td: TensorDictBase) -> Any:
        """``call`` on ``td``."""
        self._batches.append(td)
        try:
            return call(td)
        finally:
            self._batches.pop()


def _called(
    function: Any, around: Callable[[Any, TensorDictBase, Parts], Any], parts: Parts
) -> Any:
    if isinstance(function, nn.Module):
        return wrap(function, lambda _module, call, td: around(call, td, parts))
    return _Called(function, _Kept(around, parts))


@dataclass(frozen=True)
class _Kept:
    """What is planted, and in its closures what it notes: a copy shares it, as a network's does."""

    around: Callable[[Any, TensorDictBase, Parts], Any]
    parts: Parts

    def __deepcopy__(self, memo: object) -> _Kept:
        return self


@dataclass(frozen=True)
class _Called:
    """A function with ``around`` in the place of its call; a copy of it calls a copy."""

    function: Any
    kept: _Kept

    def __call__(self, td: TensorDictBase) -> Any:
        return self.kept.around(self.function, td, self.kept.parts)
