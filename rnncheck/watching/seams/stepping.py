"""The seam of a loop over ``env.step`` written by hand: who acted in it, and its steps in a row."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase, TensorDictSequential
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torchrl.envs import EnvBase

from rnncheck.watching.observer import Watching
from rnncheck.watching.places import calling_place, is_theirs
from rnncheck.watching.seams import patching, training
from rnncheck.watching.seams.patching import replace
from rnncheck.watching.seen import Acting
from rnncheck.watching.switches import switches_of

_METHODS = ("step", "step_and_maybe_reset")
_LATEST = 16  # calls of modules between two steps that are remembered: chosen, a policy has few
_PARTS = 2  # batches that a row of steps is told as: the fewest that have a join between them
_BETWEEN = {nn.modules.module.__file__, patching.__file__, training.__file__}
Call = tuple[nn.Module, TensorDictBase]


def stepping_seams(watching: Watching, scope: ExitStack) -> None:
    """Open the seams until ``scope`` ends."""
    noting = Stepping(watching)
    for kind in _envs():
        for name in _METHODS:
            if name in kind.__dict__:
                replace(scope, kind, name, noting.stepped)
    scope.callback(register_module_forward_pre_hook(noting.called).remove)
    watching.at_the_first_update.append(noting.gather)
    scope.callback(noting.gather)


def _envs() -> list[type]:
    """TorchRL's env classes, the base first."""
    found, queue = list[type](), [EnvBase]
    while queue:
        kind = queue.pop(0)
        if kind.__module__.startswith("torchrl.envs") and kind not in found:
            found.append(kind)
            queue += kind.__subclasses__()
    return found


class Stepping:
    """Notes which modules the script calls on a tensordict that it then steps an env with."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._calls: deque[Call] = deque(maxlen=_LATEST)
        self._known: dict[tuple[int, ...], Acting] = {}
        self._rows: list[tuple[Acting, list[TensorDictBase]]] = []
        self._goes_on = False  # the last row was not broken off by a step of nobody's

    def called(self, module: nn.Module, inputs: Any) -> None:
        """A module is about to run: noted where the script itself calls it on a tensordict."""
        if not inputs or not isinstance(inputs[0], TensorDictBase) or isinstance(module, EnvBase):
            return
        if self._watching.looks and _by_the_script():
            self._calls.append((module, inputs[0]))

    def stepped(self, original: Callable[..., Any], env: EnvBase, data: Any, *more: Any) -> Any:
        """``env.step(data)`` or ``env.step_and_maybe_reset(data)``."""
        watching = self._watching
        if not watching.looks or not isinstance(data, TensorDictBase):
            return original(env, data, *more)
        modules = list(_parts(env, data, list(self._calls)))
        self._calls.clear()
        with watching.inside():
            found = original(env, data, *more)
        watching.seen.env_steps += 1
        for forget in watching.at_a_step:
            forget()
        step = found[0] if isinstance(found, tuple) else found
        if modules and isinstance(step, TensorDictBase):
            self._note(env, modules, step)
        self._goes_on = bool(modules)
        return found

    def _note(self, env: EnvBase, modules: list[nn.Module], step: TensorDictBase) -> None:
        seen = self._watching.seen
        acting = self._acting(env, modules)
        if seen.frozen:
            seen.moved_on = True
            return
        step = step.detach().clone()
        row = self._rows[-1] if self._rows and self._goes_on else None
        if row is not None and row[0] is acting and _alike(row[1][-1], step):
            row[1].append(step)
        else:
            self._rows.append((acting, [step]))

    def _acting(self, env: EnvBase, modules: list[nn.Module]) -> Acting:
        key = (id(env), *map(id, modules))
        if key not in self._known:
            whole = modules[0] if len(modules) == 1 else _one_after_the_other(modules)
            acting = Acting("steps", whole, env, calling_place(3), env=env)
            acting.switches = switches_of(whole)
            self._known[key] = acting
            self._watching.seen.acting.append(acting)
        return self._known[key]

    def gather(self) -> None:
        """The steps so far become batches."""
        rows, self._rows = self._rows, []
        for acting, steps in rows:
            acting.batches += _batches(steps)


def _by_the_script() -> bool:
    """Whether the call that a hook hears of is in one of the user's lines."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename in _BETWEEN:
        frame = frame.f_back
    return is_theirs(frame.f_code.co_filename)


def _parts(env: EnvBase, data: TensorDictBase, calls: list[Call]) -> Iterator[nn.Module]:
    """The modules that made the action in ``data``, up to the last that writes one; not those that
    are called by another of them."""
    actions = list(env.action_keys)
    mine = [module for module, given in calls if given is data]
    mine = mine or [module for module, given in calls if _same_action(given, data, actions)]
    inner = {id(part) for one in mine for part in one.modules() if part is not one}
    mine = [one for one in dict.fromkeys(mine) if id(one) not in inner]
    last = [n for n, one in enumerate(mine) if _writes(one, actions)]
    yield from mine[: last[-1] + 1] if last else mine


def _same_action(given: TensorDictBase, data: TensorDictBase, actions: list[Any]) -> bool:
    """Whether a module that was given another tensordict left the action of this one in it."""
    if given.batch_size != data.batch_size:
        return False
    pairs = [(given.get(key, None), data.get(key, None)) for key in actions]
    return all(
        isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and torch.equal(a, b)
        for a, b in pairs
    )


def _writes(module: nn.Module, actions: list[Any]) -> bool:
    return any(key in actions for key in getattr(module, "out_keys", actions))


def _one_after_the_other(modules: list[nn.Module]) -> nn.Module:
    whole = all(isinstance(one, TensorDictModuleBase) for one in modules)
    made: nn.Module = TensorDictSequential(*modules) if whole else nn.Sequential(*modules)
    return made


def _alike(before: TensorDictBase, step: TensorDictBase) -> bool:
    """Whether what both hold can be stacked."""
    if before.batch_size != step.batch_size:
        return False
    for key in set(before.keys(True, True)) & set(step.keys(True, True)):
        a, b = before.get(key), step.get(key)
        if type(a) is not type(b) or a.shape != b.shape or a.dtype != b.dtype:
            return False
    return True


def _batches(steps: list[TensorDictBase]) -> Iterator[TensorDictBase]:
    """The steps as rows in time, of the entries that all of them have."""
    common = set.intersection(*(set(one.keys(True, True)) for one in steps))
    size = -(-len(steps) // _PARTS)
    for begin in range(0, len(steps), size):
        part = [one.select(*common) for one in steps[begin : begin + size]]
        yield torch.stack(part, part[0].batch_dims).contiguous()
