"""Who acts in a plain env, as a policy on tensordicts, and the env as one of TorchRL's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data import Unbounded
from torchrl.envs import (
    Compose,
    DTypeCastTransform,
    EnvBase,
    GymWrapper,
    InitTracker,
    SerialEnv,
    Transform,
    TransformedEnv,
)
from torchrl.modules import recurrent_mode

from rnncheck.errors import first_line
from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.copying.holdings import held_modules
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.placing import forked_rng, place_of, placed
from rnncheck.watching.envs import env_copy, env_like
from rnncheck.watching.forms.begun_states import primer
from rnncheck.watching.forms.flat_env import WholeEnv
from rnncheck.watching.forms.graphed_arrays import graph_at_arrays
from rnncheck.watching.forms.held_as import NUMBERS
from rnncheck.watching.forms.own_env import OwnEnv, OwnRows
from rnncheck.watching.forms.part_outputs import CallsNoted
from rnncheck.watching.forms.plain_calls import (
    ACTION,
    PlainCall,
    ToldCall,
    leaf_tensor,
    run_call,
)
from rnncheck.watching.forms.sent_actions import AS_IT_IS, sends
from rnncheck.watching.forms.shown_before import Before, ShownBefore
from rnncheck.watching.forms.shown_entries import ShownAs, ShowsEntries
from rnncheck.watching.forms.structures import Path, with_tensors
from rnncheck.watching.seen import Sightings


class PlainPolicy(nn.Module):
    """The user's function as the script calls it while acting."""

    def __init__(self, call: PlainCall, told: ToldCall) -> None:
        super().__init__()
        held = [module for _, module in held_modules([call.function, call.arguments, call.owner])]
        for number, module in enumerate(dict.fromkeys(held)):
            setattr(self, f"agent{number or ''}", module)
        self.call, self.told = call, told
        self.trains: dict[str, bool] = {}  # by the way to a part: its mode while it acted
        self.in_keys = [slot.key for slot in told.arguments.values()]
        written = [slot.key for slot in told.results.values()]
        self.out_keys = list(dict.fromkeys([*written, *([(ACTION,)] if told.action else ())]))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PlainPolicy:
        """With the arguments that it was called with: new ones lie where these do."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        call = self.call
        self.call = replace(
            call,
            arguments=with_tensors(call.arguments, fn),
            before=with_tensors(call.before, fn),
        )
        return self

    @property
    def batched(self) -> bool:
        """Whether the function handles several envs at once."""
        told = (*self.told.arguments.values(), *self.told.results.values())
        return all(slot.axis is not None for slot in told if slot.of_what != NUMBERS)

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        """One step of every env."""
        if td.batch_dims > 1 or recurrent_mode():  # steps of one env are no envs
            raise RuntimeError("the function that acts takes one step; none was seen for sequences")
        rows = td.reshape(-1) if td.batch_dims else td.unsqueeze(0)
        with self._as_it_acted():
            found = self.outputs(rows)
        for key, value in found.items():
            td.set(key, value.reshape((*td.batch_size, *value.shape[1:])))
        return td

    def acted_in(self, modes: Mapping[int, tuple[nn.Module, bool]]) -> None:
        """Its parts, by their ids, were in these modes while it acted; one that was not called
        itself in that which all parts of it were in."""
        for path, one in self.named_modules():
            inner = {modes[id(part)][1] for part in all_modules(one) if id(part) in modes}
            own = {modes[id(one)][1]} if id(one) in modes else inner
            if path and len(own) == 1:
                self.trains[path] = own.pop()

    @contextmanager
    def _as_it_acted(self) -> Iterator[None]:
        parts = dict(self.named_modules()) if self.trains else {}
        before = [(parts[path], parts[path].training, on) for path, on in self.trains.items()]
        for part, _, on in before:
            part.training = on
        try:
            yield
        finally:
            for part, was, _ in before:
                part.training = was

    def outputs(self, rows: TensorDictBase) -> dict[Key, Tensor]:
        """What it gives for one step of each of the rows, ``[rows, ...]``."""
        noted = CallsNoted()
        if self.told.rows == 1 and len(rows) > 1:  # it may be made for one env
            single = [self.outputs(rows[n : n + 1]) for n in range(len(rows))]
            noted.join([1] * len(rows), 1)
            return {key: torch.cat([one[key] for one in single]) for key in single[0]}
        if self.told.rows == len(rows):
            return self._at_once(rows)
        try:
            return self._at_once(rows)
        except Exception:  # it may be made for as many envs as the script has
            noted.take_back()
            found = self._filled_up(rows)
            size = self.told.rows
            noted.join([len(one) for one in rows.split(size)], size)
            return found

    def _filled_up(self, rows: TensorDictBase) -> dict[Key, Tensor]:
        """The same in parts of as many rows as it was called on, the last of them filled up."""
        size, found = self.told.rows, list[dict[Key, Tensor]]()
        for begin in range(0, len(rows), size):
            part = rows[begin : begin + size]
            whole = (
                torch.cat([part, part[:1].expand(size - len(part))]) if len(part) < size else part
            )
            made = self._at_once(whole)
            found.append({key: one[: len(part)] for key, one in made.items()})
        return {key: torch.cat([one[key] for one in found]) for key in found[0]}

    def _at_once(self, rows: TensorDictBase) -> dict[Key, Tensor]:
        told = self.told
        values = {path: slot.given(rows.get(slot.key)) for path, slot in told.arguments.items()}
        with graph_at_arrays(rows, ((one.key, one.of_what) for one in told.arguments.values())):
            result = run_call(self.call, values | dict.fromkeys(self._nones(rows)))
        found = {path: leaf_tensor(result[path]) for path in told.results}
        whole = {path: value for path, value in found.items() if value is not None}
        given = {slot.key: slot.found(whole[path]) for path, slot in told.results.items()}
        if told.action is not None:
            path, slot = told.action
            given[ACTION,] = slot.found(whole[path]).reshape(len(rows), *slot.rest)
        return {key: placed(value, place_of(rows)) for key, value in given.items()}

    def _nones(self, rows: TensorDictBase) -> Iterator[Path]:
        """The ways to states that are None where they are zero, and are."""
        slots = self.told.arguments.values()
        for none in {slot.none for slot in slots if slot.none is not None}:
            if not any(rows.get(slot.key).any() for slot in slots if slot.none == none):
                yield none


class _PlayedEnv(GymWrapper):  # type: ignore[misc]
    """Takes one number that stands in an array as well."""

    def read_action(self, action: Tensor) -> Any:
        """As the env gets it: numpy makes no number of an array ``[1]``."""
        alone = action.numel() == 1 and self.action_spec.shape == torch.Size([])
        return super().read_action(action.reshape(()) if alone else action)


@dataclass(frozen=True)
class PlainEnv:
    """Makes envs of TorchRL's out of envs like those that the script steps."""

    makers: tuple[Callable[[], Any] | WholeEnv, ...]
    states: Mapping[Key, tuple[tuple[int, ...], torch.dtype]]
    batched: bool
    part: tuple[int, ...] | None = None  # of what they show, which the policy gets
    before: Mapping[Key, Before] = field(default_factory=dict)  # what a loop shows of it
    shown: ShownAs | None = None  # where they show several things
    way: str = AS_IT_IS  # what is made of actions ahead of them
    floating: Mapping[Key, torch.dtype] = field(default_factory=dict)  # as which they are got
    begins: Mapping[Key, Tensor] = field(default_factory=dict)  # states that do not with zeros
    one_hot: bool = False  # the form of its actions

    def __call__(self) -> EnvBase:
        """One of them, with start flags and zero states at its resets."""
        base = self.base()
        specs = {
            key[0]: Unbounded(
                shape=shape,
                dtype=torch.get_default_dtype() if kind == torch.float32 else kind,
                device=torch.get_default_device(),
            )
            for key, (shape, kind) in self.states.items()
        }
        transforms = [*self._casts(base), InitTracker(), primer(specs, self.begins)]
        if self.before:
            transforms.append(ShownBefore(self.before))
        return TransformedEnv(base, Compose(*transforms))

    def _casts(self, base: EnvBase) -> Iterator[Transform]:
        """Of what it shows as integers, and the policy gets as floats."""
        for key, spec in base.observation_spec.items(True, True):
            kind = self.floating.get((key,) if isinstance(key, str) else key)
            if kind is not None and not spec.dtype.is_floating_point:
                yield DTypeCastTransform(spec.dtype, kind, in_keys=[key])

    def base(self) -> EnvBase:
        """The same without these."""
        first = self.makers[0]
        if isinstance(first, WholeEnv):
            return first(self.batched, self.part, self.shown)
        makers = [one for one in self.makers if not isinstance(one, WholeEnv)]
        wrapped = [partial(self._wrapped, make) for make in makers]
        return SerialEnv(len(wrapped), wrapped) if self.batched else wrapped[0]()

    def _wrapped(self, make: Callable[[], Any]) -> EnvBase:
        env = make() if self.part is None else PartShown(make(), self.part)
        env = env if self.shown is None else ShowsEntries(env, self.shown)
        env = sends(env, self.way)
        # With a device: TorchRL moves to an accelerator only what has one. With the default one:
        # it reads specs with tensors that it makes there.
        place = torch.get_default_device()
        made: EnvBase = _PlayedEnv(env, categorical_action_encoding=not self.one_hot, device=place)
        return made


def is_flat(make: Any) -> bool:
    """Whether what makes envs makes copies of one of TorchRL's, as a plain one."""
    return isinstance(make, PlainEnv) and isinstance(make.makers[0], WholeEnv)


class PartShown(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows some of the numbers that an env shows."""

    def __init__(self, env: Any, part: tuple[int, ...]) -> None:
        super().__init__(env)
        self._part, kind = list(part), env.observation_space.dtype or np.float32
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (len(part),), kind)

    def observation(self, observation: Any) -> Any:
        """``[len(part)]``."""
        return np.asarray(observation).reshape(-1)[self._part]


class AsItShows(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An env that shows something in another ``shape`` than it says, as one in a wrapper of the
    user's that leaves its space as it was."""

    def __init__(self, env: Any, shape: tuple[int, ...], kind: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, shape, kind)


def makers_of(env: Any, shown: Any = None) -> tuple[Callable[[], Any] | WholeEnv, ...]:
    """What makes each of the envs side by side, of one that has ``shown`` this. Raises ValueError
    where that is not known."""
    if isinstance(env, tuple):  # stepped by turns
        return tuple(make for one in env for make in makers_of(one))
    if isinstance(env, gymnasium.vector.VectorEnv):
        made = getattr(env.unwrapped, "env_fns", None)
        if made is None:
            raise ValueError(f"{type(env.unwrapped).__name__} does not tell what its envs are")
        return tuple(made)
    if isinstance(env, OwnEnv) and env.rows is not None:
        env = OwnRows(env_copy(env))
    if isinstance(env, EnvBase):
        return (WholeEnv(env_like(env)),)
    kept, space = env_copy(env), getattr(env, "observation_space", None)
    said = isinstance(space, gymnasium.spaces.Box) and not isinstance(env, OwnEnv)
    if said and isinstance(shown, np.ndarray) and shown.shape != getattr(space, "shape", None):
        kept = AsItShows(kept, shown.shape, shown.dtype.type)
    return (partial(env_copy, kept),)


def settle_envs(seen: Sightings) -> None:
    """Who acts in an env of which none like it can be played is not judged, and why is said."""
    for one in [one for one in seen.acting if isinstance(one.make_env, PlainEnv)]:
        try:
            with forked_rng():
                env = one.make_env()
                env.rand_step(env.reset())
        except Exception as error:  # an env of the user's may do anything
            seen.acting.remove(one)
            seen.plain = (
                f"no env like the script's can be played, as gymnasium's are: {first_line(error)}"
            )
