"""Training code of the user's own: which function, or which lines, make a loss of which batch.

Noted are the user's frames that hold a batch while the policy's weights are called with gradients,
and which of them ``backward`` is called in. Where a function of theirs was given the batch, that
function is the loss; else the lines of their loop between the batch and ``backward`` are.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from rnncheck.errors import Place
from rnncheck.pipeline.guard.user_frames import display_path
from rnncheck.roles import role_of
from rnncheck.watching.observer import Watching, modes_now
from rnncheck.watching.places import calling_place, is_theirs
from rnncheck.watching.seams.arguments import bound_anew, given_by_caller
from rnncheck.watching.seams.graphs import weights_in
from rnncheck.watching.seams.lines import lines_between
from rnncheck.watching.seams.patching import replace
from rnncheck.watching.seen import KEPT, Called, Modes
from rnncheck.watching.switches import Switches, switched_on, switches_of

_MOST_FRAMES = 40  # of a stack that are looked at: a training loop is seldom deeper


@dataclass
class HeldBatches:
    """The batches that a frame of the user's held when the policy was called in it."""

    code: CodeType
    frame: FrameType
    line: int
    modes: Modes
    arguments: dict[str, Any]
    switches: Switches
    batches: dict[str, TensorDictBase] = field(default_factory=dict)  # copies, by name


@dataclass(frozen=True)
class FoundLoss:
    """What makes a loss of ``batch``, the name of one that is ``held``. ``own`` tells one such from
    another."""

    loss: Any
    held: HeldBatches
    batch: str
    own: Any
    argument: str = ""
    last: int = 0


def own_training_seams(watching: Watching, scope: ExitStack) -> None:
    """Open the seams until ``scope`` ends."""
    noting = OwnTraining(watching)
    scope.callback(register_module_forward_pre_hook(noting.called).remove)
    replace(scope, torch.Tensor, "backward", noting.backward)
    scope.callback(noting.forget)
    watching.at_a_step.append(noting.forget)  # what is stepped with was acted on, not trained on


class OwnTraining:
    """Follows one update after the other, from the policy's call to ``backward``."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._held: dict[FrameType, HeldBatches] = {}  # outermost last
        self._trained = dict[int, set[int]]()  # weights that act, by how many were seen to

    def called(self, module: nn.Module, _inputs: Any) -> None:
        """A module is about to run."""
        seen = self._watching.seen
        if not torch.is_grad_enabled() or not self._watching.looks or seen.moved_on:
            return
        if seen.losses and not any(one.own or one.fed for one in seen.losses):
            return
        if self._is_trained(module):
            for frame in _their_frames(sys._getframe(1)):
                if frame not in self._held and (found := _as_given(frame, _batches_in(frame))):
                    arguments = _arguments_of(frame)
                    copies = {name: td.detach().clone() for name, td in found.items()}
                    self._held[frame] = HeldBatches(
                        frame.f_code,
                        frame,
                        frame.f_lineno,
                        modes_now(),
                        arguments,
                        self._switches(),
                        copies,
                    )

    def _switches(self) -> Switches:
        acting = self._watching.seen.actor()
        if acting is None or not isinstance(acting.policy, nn.Module):
            return {}
        return switched_on(acting.switches, switches_of(acting.policy))

    def _is_trained(self, module: nn.Module) -> bool:
        """Whether it has weights that act."""
        mine = {id(one) for one in module._parameters.values() if one is not None}
        return bool(mine and mine & self._acting())

    def _acting(self) -> set[int]:
        """The weights that act, by id."""
        acting = self._watching.seen.acting
        key = len(acting)
        if key not in self._trained:
            modules = [one.policy for one in acting if isinstance(one.policy, nn.Module)]
            self._trained = {key: {id(p) for one in modules for p in one.parameters()}}
        return self._trained[key]

    def backward(self, original: Callable[..., None], loss: Any, *args: Any, **kwargs: Any) -> None:
        """``loss.backward()``: whose it is, then the call itself."""
        if self._watching.looks:
            self._watching.seen.backwards += 1
            if self._held:
                self._note(sys._getframe(1))
            else:
                self._name(loss)
        self.forget()
        with self._watching.inside():
            original(loss, *args, **kwargs)

    def _name(self, loss: Any) -> None:
        """Note what of this loss nothing judges: all that is seen of it is its weights."""
        seen = self._watching.seen
        given = [node for nodes in seen.given.values() for node in nodes]
        weights = weights_in(loss, given)
        if not weights or not seen.losses:
            return
        place = str(calling_place(3))
        if not any(one.own for one in seen.losses):
            seen.unjudged[place] = (
                "`backward` is called on more than loss modules gave: the rest is not judged"
            )
        elif not weights & self._acting():
            seen.unjudged[place] = (
                "`backward` is called on a loss of none of the weights that act: it is not judged"
            )

    def forget(self) -> None:
        """The frames are let go: they hold all that was in them."""
        self._held.clear()

    def _note(self, here: FrameType) -> None:
        found = self._function() or self._lines(list(_their_frames(here)))
        if found is None:
            return
        losses, held = self._watching.seen.losses, found.held
        known = next((one for one in losses if one.own == found.own), None)
        if known is None:
            place = Place(display_path(held.code.co_filename), held.line)
            known = Called(found.loss, place, held.modes, switches=held.switches, own=found.own)
            known.batch = found.argument
            losses.append(known)
        if found.last > known.last:  # of lines that go on to another `backward`: all of them
            known.module, known.last = found.loss, found.last
        if len(known.inputs) < KEPT:
            known.inputs.append(held.batches[found.batch])

    def _function(self) -> FoundLoss | None:
        """The function that is marked as the loss, else the outermost that was given a batch."""
        found = []
        for held in reversed(self._held.values()):
            name = next((one for one in held.arguments if one in held.batches), None)
            if name is not None and (function := _function_of(held)) is not None:
                found.append((function, held, name))
        marked = [one for one in found if role_of(one[0]) == "loss"]
        for function, held, name in [*marked, *found][:1]:
            loss = _with_the_rest(function, held, name)
            return FoundLoss(loss, held, name, held.code, argument=name)
        return None

    def _lines(self, stack: list[FrameType]) -> FoundLoss | None:
        """The lines of a loop that ``backward`` is reached in."""
        for frame in stack:
            held = self._held.get(frame)
            if held is None:
                continue
            found = lines_between(frame, set(held.batches))
            if found is not None:
                own = (held.code, found.function.__code__.co_firstlineno)
                return FoundLoss(found.function, held, found.batch, own, last=frame.f_lineno)
        return None


def _their_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The user's frames on the stack, innermost first."""
    count = 0
    while frame is not None and count < _MOST_FRAMES:
        if is_theirs(frame.f_code.co_filename):
            yield frame
        frame, count = frame.f_back, count + 1


def _batches_in(frame: FrameType) -> dict[str, TensorDictBase]:
    """What the frame holds that may be a batch: several steps of something."""
    return {
        name: value
        for name, value in frame.f_locals.items()
        if isinstance(value, TensorDictBase) and value.batch_dims and value.numel() > 1
    }


def _as_given(frame: FrameType, found: dict[str, TensorDictBase]) -> dict[str, TensorDictBase]:
    """The batches, those that are parameters as the caller handed them over; without those of which
    that cannot be told."""
    arguments = _arguments_of(frame)
    anew = [name for name in found if name in arguments and bound_anew(frame, name)]
    if not anew:
        return found
    bound = _owner_of(frame.f_code, arguments) is not None
    first = {name: given_by_caller(frame, name, bound=bound) for name in anew}
    kept = {name: td for name, td in found.items() if name not in first}
    return kept | {name: td for name, td in first.items() if isinstance(td, TensorDictBase)}


def _arguments_of(frame: FrameType) -> dict[str, Any]:
    code, held = frame.f_code, frame.f_locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: held[name] for name in names if name in held}


def _function_of(held: HeldBatches) -> Any:
    """The function, or bound method, whose frame it was; a module for its ``forward``."""
    owner = _owner_of(held.code, held.arguments)
    if owner is not None:
        bound = getattr(owner, held.code.co_name)
        return owner if isinstance(owner, nn.Module) and held.code.co_name == "forward" else bound
    made = [one for one in gc.get_referrers(held.code) if isinstance(one, FunctionType)]
    return next((one for one in made if one.__globals__ is held.frame.f_globals), None)


def _owner_of(code: CodeType, arguments: dict[str, Any]) -> Any:
    """The object whose method the code is."""
    owner = next(iter(arguments.values()), None)
    bound = getattr(owner, code.co_name, None) if owner is not None else None
    mine = getattr(bound, "__code__", None) is code and getattr(bound, "__self__", None) is owner
    return owner if mine else None


def _with_the_rest(function: Any, held: HeldBatches, batch: str) -> Any:
    """The function with the arguments that it was given beside the batch."""
    owner = getattr(function, "__self__", function if isinstance(function, nn.Module) else None)
    rest = {k: v for k, v in held.arguments.items() if k != batch and v is not owner}
    names = list(held.arguments)
    if not rest or isinstance(function, nn.Module):
        return function
    first = [name for name in names[: names.index(batch)] if name in rest]
    if len(first) == names.index(batch) - (owner is not None):  # those before it are positional
        given = [rest.pop(name) for name in first]
        return partial(function, *given, **rest)
    return partial(function, **rest)
