"""The seam of a loop over ``env.step`` written by hand: who acted in it, and its steps in a row."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from types import FrameType
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.envs import EnvBase

from rnncheck.pipeline.guard.user_frames import calling_place, is_user_file
from rnncheck.pipeline.keys import Key, as_key, declared, tensor_items, tensor_keys
from rnncheck.pipeline.recording.masks import MASK, padding_mask
from rnncheck.watching.forms.called_policy import CalledPolicy
from rnncheck.watching.forms.drawn_actions import DrawsActions
from rnncheck.watching.forms.named_switches import modes_of
from rnncheck.watching.forms.part_outputs import innermost_parts, of_one_step, part_key
from rnncheck.watching.forms.shown_before import (
    shown_before,
    shown_by,
    with_begun_states,
    with_shown,
)
from rnncheck.watching.forms.switches import switches_of
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams import patching, training
from rnncheck.watching.seams.acting_callers import ActingCallers
from rnncheck.watching.seams.calls import (
    RememberedOutermost,
    one_after_the_other,
    writers_of,
    writes_one,
)
from rnncheck.watching.seams.frames import is_tensordict
from rnncheck.watching.seams.patching import hear_modules, kinds_of, replace
from rnncheck.watching.seen import Acting, copy_now

_METHODS = ("step", "step_and_maybe_reset")
_GIVEN = 64  # outputs of parts that are remembered: chosen, more than a policy has parts
_PARTS = 2  # batches that a row of steps is told as: the fewest that have a join between them
_BETWEEN = {nn.modules.module.__file__, patching.__file__, training.__file__}


def stepping_seams(watching: Watching, scope: ExitStack) -> Stepping:
    """Open the seams until ``scope`` ends; what notes the steps."""
    noting = Stepping(watching)
    for kind in torchrl_envs():
        for name in _METHODS:
            if name in kind.__dict__:
                replace(scope, kind, name, noting.stepped)
    hear_modules(watching, scope, noting.called, noting.gave)
    watching.at_the_first_update.append(noting.gather)
    scope.callback(noting.gather)
    return noting


def torchrl_envs() -> list[type]:
    """TorchRL's env classes, the base first."""
    return [one for one in kinds_of(EnvBase) if one.__module__.startswith("torchrl.envs")]


class Stepping:
    """Notes which modules the script calls on a tensordict that it then steps an env with."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._calls = watching.calls
        self._known: dict[tuple[int, ...], Acting] = {}
        self._outermost = RememberedOutermost()
        self._rows: list[tuple[Acting, list[TensorDictBase]]] = []
        self._forgotten = set[int]()  # ids of those who are told of otherwise
        self._latest: TensorDictBase | None = None  # step that was noted, as the script has it
        self._goes_on = False  # the last row was not broken off by a step of nobody's
        self._gave: deque[tuple[nn.Module, torch.Tensor]] = deque(maxlen=_GIVEN)
        self._callers = ActingCallers()
        self._keys = set[Key]()  # of the tensordict that the latest call was on, before it

    def called(self, module: nn.Module, inputs: Any) -> None:
        """A module is about to run: noted where the script itself calls it on a tensordict."""
        if not inputs or not is_tensordict(inputs[0]) or isinstance(module, EnvBase):
            return
        caller = _scripts_frame() if self._watching.looks else None
        if caller is not None:
            self._callers.called(caller)
            if not self._calls or self._calls[-1][1] is not inputs[0]:
                self._gave.clear()
                self._keys = set() if self._watching.seen.frozen else set(tensor_keys(inputs[0]))
            self._calls.append((module, inputs[0]))

    def gave(self, module: nn.Module, _inputs: Any, *told: Any) -> None:
        """A module has run: what an innermost part gave for one step is remembered."""
        looks = self._calls and not self._watching.seen.frozen and self._watching.looks
        if looks and isinstance(told[-1], torch.Tensor) and not module._modules:
            self._gave.append((module, told[-1].detach()))

    def stepped(self, original: Callable[..., Any], env: EnvBase, data: Any, *more: Any) -> Any:
        """``env.step(data)`` or ``env.step_and_maybe_reset(data)``."""
        watching = self._watching
        if not watching.looks or not isinstance(data, TensorDictBase):
            return original(env, data, *more)
        modules = list(writers_of(list(env.action_keys), data, self._calls, self._outermost))
        told = () if watching.seen.frozen else tensor_keys(data)  # behind an update it is of no use
        wrote = [key for key in told if key not in self._keys]
        self._calls.clear()
        acts = None
        if modules and not writes_one(modules, list(env.action_keys)):
            acts = self._callers.policy(data)
        self._callers.forget()
        with watching.inside():
            found = original(env, data, *more)
        watching.seen.env_steps += 1
        for forget in watching.at_a_step:
            forget()
        step = found[0] if isinstance(found, tuple) else found
        if modules and isinstance(step, TensorDictBase):
            self._note(env, modules, step, wrote, acts)
        self._goes_on = bool(modules)
        return found

    def _note(
        self,
        env: EnvBase,
        modules: list[nn.Module],
        step: TensorDictBase,
        wrote: list[Key],
        acts: CalledPolicy | None,
    ) -> None:
        seen = self._watching.seen
        acting = self._acting(env, modules, acts)
        if id(acting) in self._forgotten:
            return
        if seen.frozen:
            self._watching.move_on(acting, step)
            return
        self._put_out()
        self._latest, step = step, copy_now(step)
        if not acting.ahead:
            acting.ahead = frozenset(self._keys)
        if not self._rows:
            acting.primed = {k: step.get(k) for k in _given_by_the_loop(acting, self._keys)}
        self._note_parts(acting, step, wrote)
        if not self._rows or not self._goes_on or self._rows[-1][0] is not acting:
            self._rows.append((acting, []))
        self._rows[-1][1].append(step)

    def _put_out(self) -> None:
        """Rows that the script has filled with zeros since their step, as what is behind the end of
        an episode that others go on beside, are told so."""
        steps = self._rows[-1][1] if self._rows else []
        if self._latest is not None and steps and self._latest.batch_dims:
            emptied = _emptied(self._latest, steps[-1])
            for key, value in tensor_items(steps[-1]) if bool(emptied.any()) else ():
                now = self._latest.get(key, None)
                value[emptied] = 0 if now is None else now[emptied].to(value)
            if bool(emptied.any()):
                steps[-1].set(MASK, ~emptied)
        self._latest = None

    def _acting(self, env: EnvBase, modules: list[nn.Module], acts: CalledPolicy | None) -> Acting:
        key = (id(env), *map(id, modules))
        if key not in self._known:
            whole = one_after_the_other(modules) if acts is None else acts
            if acts is None and not writes_one(modules, list(env.action_keys)):
                whole = DrawsActions(whole, env)
            acting = Acting("steps", whole, env, calling_place(3), env=env)
            acting.switches = switches_of(whole)
            acting.trains = modes_of(whole)
            self._known[key] = acting
            self._watching.seen.acting.append(acting)
        return self._known[key]

    def _note_parts(self, acting: Acting, step: TensorDictBase, wrote: list[Key]) -> None:
        """What parts of the policy gave becomes a part of the step."""
        paths = {part: path for path, part in innermost_parts(acting.policy).items()}
        given = dict[str, list[torch.Tensor]]()
        for part, value in self._gave:
            if part in paths:
                given.setdefault(paths[part], []).append(value)
        found = of_one_step(given, step.batch_size)
        for path, value in found.items():
            step.set(part_key(path), value.clone())
        acting.parts = list(found) if not acting.writes else [p for p in acting.parts if p in found]
        acting.writes = acting.writes or wrote

    def hands_on(self, acting: Acting) -> bool:
        """Whether the loop hands on what the policy wrote, under another name that it reads: a
        state that no key tells of."""
        steps = next((steps for one, steps in self._rows if one is acting), [])
        filled = filled_by_loop(acting)
        if not filled or len(steps) < 2:
            return False
        actions = set(map(as_key, acting.env.action_keys))  # the one before is no state
        outputs = declared(acting.policy, "out_keys") or acting.writes
        written = [key for key in outputs if key[0] != "next" and key not in actions]
        return any(
            all(_handed(a, b, key, wrote) for a, b in pairwise(steps))
            for key in filled
            for wrote in written
        )

    @property
    def keys_ahead(self) -> frozenset[Key]:
        """Those of the tensordict that the latest call was on, before it."""
        return frozenset(self._keys)

    def tell(self, acting: Acting, steps: list[TensorDictBase], wrote: list[Key]) -> None:
        """Steps of an env that is none of TorchRL's, in which it acted."""
        acting.writes = wrote
        acting.primed = {
            key: steps[0].get(key) for key in _given_by_the_loop(acting, set(acting.ahead))
        }
        self._watching.seen.acting.append(acting)
        self._rows.append((acting, steps))

    def forget(self, acting: Acting) -> None:
        """It is told of otherwise."""
        self._watching.seen.acting.remove(acting)
        self._forgotten.add(id(acting))
        self._rows = [(one, steps) for one, steps in self._rows if one is not acting]

    def gather(self) -> None:
        """The steps so far become batches."""
        self._put_out()
        rows, self._rows = self._rows, []
        for acting, steps in rows:
            for row in _alike_in_a_row(steps):
                acting.batches += _batches(row)
        for acting in {id(one): one for one, _ in rows}.values():
            _show_before(acting)


def _show_before(acting: Acting) -> None:
    """What the loop itself shows the policy of the step before, envs like the script's show it
    too."""
    read, env = declared(acting.policy, "in_keys"), acting.make_env
    if isinstance(env, EnvBase) and acting.batches:
        entries = shown_before(env, acting.batches, read, acting.writes)
        begun = {key: one for key, one in acting.primed.items() if not bool(one.any())}
        env = with_begun_states(env, begun) if begun else env
        acting.make_env = with_shown(env, entries) if entries else env
        acting.shown = {key: one.source for key, one in entries.items()}


def filled_by_loop(acting: Acting) -> list[Key]:
    """What the policy reads that neither the env shows nor the policy's step before wrote."""
    if not isinstance(acting.env, EnvBase):
        return []
    shown, read = shown_by(acting.env), declared(acting.policy, "in_keys")
    carried = {key[1:] for key in declared(acting.policy, "out_keys") if key[0] == "next"}
    if not read:  # it tells nothing: what it was given beside what the env shows
        read = tuple(sorted(key for key in acting.ahead if key[0] != "next"))
        carried = {key[1:] for key in acting.writes if key[0] == "next"}
    return [key for key in read if key not in shown | carried]


def _given_by_the_loop(acting: Acting, keys: set[Key]) -> list[Key]:
    """The states that were in the tensordict ahead of the first step, and that no reset gives."""
    if not isinstance(acting.env, EnvBase):
        return []
    carried = {key[1:] for key in declared(acting.policy, "out_keys") if key[0] == "next"}
    read = [key for key in declared(acting.policy, "in_keys") if key in carried & keys]
    return [key for key in read if key not in shown_by(acting.env)]


def _handed(before: TensorDictBase, step: TensorDictBase, key: Key, wrote: Key) -> bool:
    """Whether the entry is what the step before wrote, where no episode ended with that."""
    given, value = before.get(wrote, None), step.get(key, None)
    if given is None or value is None or given.shape != value.shape:
        return False
    if not value.is_floating_point():
        return False
    done = before.get(("next", "done")).reshape(*before.batch_size, -1).any(-1)
    same = (given == value).reshape(*before.batch_size, -1).all(-1)
    return bool((same | done).all())


def _emptied(step: TensorDictBase, noted: TensorDictBase) -> torch.Tensor:
    """``[*batch]``: where every number that was noted is zero by now, and some was not."""
    empty = torch.ones(step.batch_size, dtype=torch.bool)
    was = torch.zeros(step.batch_size, dtype=torch.bool)
    for key, value in tensor_items(noted):
        now = step.get(key, None) if value.is_floating_point() else None
        if now is None:
            continue
        lead = (*step.batch_size, -1)
        empty &= ~(now != 0).reshape(lead).any(-1).cpu()
        was |= (value != 0).reshape(lead).any(-1).cpu()
        if not bool(empty.any()):
            break
    return empty & was


def _scripts_frame() -> FrameType | None:
    """Where the call that a hook hears of is in one of the user's lines, the frame."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename in _BETWEEN:
        frame = frame.f_back
    return frame if is_user_file(frame.f_code.co_filename) else None


def _alike_in_a_row(steps: list[TensorDictBase]) -> Iterator[list[TensorDictBase]]:
    """The steps, parted where the next one cannot be stacked on those before it."""
    told = [_described(one) for one in steps]
    parted = [n for n in range(1, len(steps)) if not _alike(told[n - 1], told[n])]
    for begin, end in pairwise([0, *parted, len(steps)]):
        yield steps[begin:end]


def _described(step: TensorDictBase) -> dict[Any, Any]:
    """What must be the same of its entries so that they can be stacked."""
    found = {
        key: (type(one), one.shape, torch.int64 if _is_whole(one) else one.dtype)
        for key, one in step.items(True, True)
    }
    return {**found, (): step.batch_size}


def _alike(before: dict[Any, Any], step: dict[Any, Any]) -> bool:
    """Whether what both hold can be stacked."""
    return before == step or all(before[key] == step[key] for key in before.keys() & step.keys())


def _batches(steps: list[TensorDictBase]) -> Iterator[TensorDictBase]:
    """The steps as rows in time, of the entries that all of them have."""
    if any(MASK in one.keys(True) for one in steps):
        steps = [_told_whole(one) for one in steps]
    common = set.intersection(*(set(one.keys(True, True)) for one in steps))
    time = steps[0].batch_dims
    steps = _of_one_type([one.select(*common) for one in steps])
    whole = torch.stack(steps, time).contiguous()
    size = -(-len(steps) // _PARTS)
    parts = _masked_rollouts(whole) or whole.split(size, time)
    yield from (one.contiguous() for one in parts)


def _told_whole(step: TensorDictBase) -> TensorDictBase:
    """The step with a mask, where no row of it is left out."""
    if MASK in step.keys(True):
        return step
    return step.clone(False).set(MASK, torch.ones(step.batch_size, dtype=torch.bool))


def _of_one_type(steps: list[TensorDictBase]) -> list[TensorDictBase]:
    """The steps, with whole numbers in the widest type where an env shows others at a reset."""
    kinds = [{key: one.dtype for key, one in tensor_items(step)} for step in steps]
    vary = {key for one in kinds for key, kind in one.items() if kind != kinds[0].get(key)}
    for step in steps if vary else ():
        for key in vary:
            step.set(key, step.get(key).long())
    return steps


def _is_whole(value: torch.Tensor) -> bool:
    return value.dtype in (torch.int8, torch.int16, torch.int32)


def _masked_rollouts(whole: TensorDictBase) -> list[TensorDictBase]:
    """The rollouts, each from a reset of all envs on, where the script masks what it has stepped
    on behind the ends of some: inside of one a row may begin with that."""
    time = whole.batch_dims - 1
    flags = [v for key, v in tensor_items(whole) if key[-1] == "is_init" and key[0] != "next"]
    all_begin = [one.movedim(time, 0).flatten(1).all(1).tolist() for one in flags[:1]]
    cuts = [n for n in range(1, whole.shape[time]) if all_begin and all_begin[0][n]]
    sizes = [end - begin for begin, end in pairwise([0, *cuts, whole.shape[time]])]
    parts = list(whole.split(sizes, time))
    return parts if any(padding_mask(one) is not None for one in parts) else []
