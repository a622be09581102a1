"""The seam of a loop over the steps of a plain gymnasium env: who acted in it, by which call of the
user's functions, and what each step gave."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn

from rnncheck.errors import Place, first_line
from rnncheck.pipeline.guard.user_frames import calling_place, is_user_file
from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.acting_copies import (
    acted_by_trained,
    copies_of_trained,
    modes_as_acted,
)
from rnncheck.watching.forms.plain_calls import PlainCall, PlainStep, cast_now, has_graph
from rnncheck.watching.forms.plain_run import PlainRun
from rnncheck.watching.forms.shown_entries import with_parts_copied as _kept
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.acting_lines import LinesThatAct
from rnncheck.watching.seams.arguments import as_given
from rnncheck.watching.seams.env_kinds import hear_envs
from rnncheck.watching.seams.followed import FollowedCalls
from rnncheck.watching.seams.frames import function_with, method_in, their_frames
from rnncheck.watching.seams.fresh_layers import LAYERS, FreshLayers, Layer
from rnncheck.watching.seams.graphs import weights_in
from rnncheck.watching.seams.harmless import harmless
from rnncheck.watching.seams.next_rollout import NextRollout
from rnncheck.watching.seams.owners import OwnerStates, cloned
from rnncheck.watching.seams.patching import hear_modules
from rnncheck.watching.seams.stepped_env import SteppedEnv, are_several
from rnncheck.watching.seams.stood import StoodAt
from rnncheck.watching.seams.turns import Turns, acted, sent_from, unseen_call
from rnncheck.watching.seams.warm_up import RandomSteps, latest_of
from rnncheck.watching.weights import taken

_LATEST = 16  # calls between two steps that are remembered: chosen, a script has few
_BESIDE = 4  # calls behind a step that are kept: chosen
_SETTLED = 8  # steps in which one function acted: only that one is followed from then on


def plain_seams(watching: Watching, scope: ExitStack) -> PlainSteps:
    """Open the seams until ``scope`` ends; what follows the steps."""
    noting = PlainSteps(watching)
    hear_envs(scope, noting.reset, noting.stepped)
    hear_modules(watching, scope, noting.called, noting.gave)
    scope.callback(noting.end)
    watching.at_a_backward.append(noting.backward)
    watching.at_the_end.append(noting.end)
    return noting


@dataclass(eq=False)
class _Running:
    """A call that has not returned."""

    call: PlainCall
    parent: FrameType | None
    depth: int  # frames of the user's around it
    behind: bool  # a step, in lines that are behind that as well
    graph: bool  # its networks were called with gradients
    returned: bool = False


class PlainSteps:
    """Follows one step after the other."""

    def __init__(self, watching: Watching) -> None:
        self._watching, self._returns = watching, FollowedCalls()
        self._owners = OwnerStates()
        self._lines, self._layers = LinesThatAct(), FreshLayers()
        self._shown = dict[int, SteppedEnv]()
        self._calls = list[_Running]()
        self._under_way = list[_Running]()  # those that have not returned
        self._loop = StoodAt()
        self._functions = dict[CodeType, Any]()  # to find one may take a walk over all objects
        self._actor: CodeType | None = None  # who acts, once that is settled
        self._last_actor: CodeType | None = None
        self._acted_in_a_row = 0
        self._turns = Turns()
        self.latest: PlainStep | None = None  # that was noted
        self._beside = set[CodeType]()  # what was called behind steps
        self._rare = 0  # calls behind a step of what is not called behind every one
        self._resets: list[tuple[Any, Any]] | None = None  # inside the one that is under way
        self._inside: Any = None  # what a step inside another one gave
        self.reset_inside: tuple[Any, Any] | None = None  # of an env that another one holds, latest
        self._several = list[Any]()  # envs by name only: they hold several, and show them together
        self._run: PlainRun | None = None
        self._next, self._warm_up = NextRollout(watching), RandomSteps(watching)
        watching.waits.append(self._waits)
        self._passes = 0
        self._waited = 0  # losses of others
        self._ran = set[int]()  # parts of networks, with gradients, since the last backward
        self._place: Place | None = None  # of the first step
        self.awaited = False  # the first step of an env that was not reset
        self._done = self.only_steps = False  # steps alone, where who acts is known otherwise

    # --- the env ------------------------------------------------------------------------------

    def reset(self, original: Callable[..., Any], env: Any, *args: Any, **kwargs: Any) -> Any:
        """``env.reset()``."""
        if self._resets is not None:  # inside another env's
            self._resets.append((env, found := original(env, *args, **kwargs)))
            return found
        if not self._mine():
            found = original(env, *args, **kwargs)
            self.reset_inside = env, found
            return found
        inner = self._resets = list[tuple[Any, Any]]()
        try:
            with self._watching.inside():
                found = original(env, *args, **kwargs)
        finally:
            self._resets = None
        several = are_several(inner, found)
        self._several += [env] if several else []
        for one, shown in inner if several else [(env, found)]:
            self.begins(one, shown[0] if isinstance(shown, tuple) else shown)
        return found

    def begins(self, env: Any, shown: Any) -> None:
        """The env was reset, and shows this."""
        self._shown.setdefault(id(env), SteppedEnv(env, None)).begins(shown)

    def goes_on(self, env: Any, shown: Any) -> None:
        """The env shows this, behind a step, where some episodes begin anew."""
        self._shown[id(env)].seen = shown

    def forget(self, env: Any) -> None:
        """Who acts in the env is known otherwise."""
        self._shown.pop(id(env), None)

    def stepped(self, original: Callable[..., Any], env: Any, action: Any, *more: Any) -> Any:
        """``env.step(action)``."""
        several = self._several and any(env is one for one in self._several)
        if self._watching.is_inside or several or not self._mine():
            self._inside = original(env, action, *more)
            return self._inside
        note = self.about_to_step(env, sys._getframe(2), lambda: _kept(action))
        self._inside = None
        with self._watching.inside():
            found = original(env, action, *more)
        self._watching.stepped()
        if note is not None:
            self._gave(env, note, found)
        return found

    @harmless
    def _gave(self, env: Any, note: Callable[[tuple[Any, ...]], None], found: Any) -> None:
        self._shown[id(env)].notes_as_five(note, found, self._inside)

    def about_to_step(
        self, env: Any, frame: FrameType, action: Callable[[], Any], entry: Key = ()
    ) -> Callable[[tuple[Any, ...]], None] | None:
        """The env is about to be stepped out of the frame, with the action or a tensordict with it
        as an ``entry``; what notes what that gives, if it is of use."""
        shown, call, given = self._shown.get(id(env)), None, None
        if self._done:
            return functools.partial(self._note, shown, None, action()) if shown else None
        self._lines.entry = entry
        noted = self._run is None or self._next.begins(
            [*self._shown.values(), self._turns.together]
        )
        if noted:
            self._place = self._place or calling_place(3)
            given = action()
            told = self._called_by(list(their_frames(frame)), given, shown)
            call, given = told or (None, given)
        elif self._watching.seen.frozen and not self._waits():
            self._watching.move_on()
        self._forget_calls()
        self._passes = 0  # those before a step acted
        return functools.partial(self._note, shown, call, given) if noted and shown else None

    @harmless
    def _called_by(
        self, stack: list[FrameType], action: Any, shown: SteppedEnv | None
    ) -> tuple[PlainCall | None, Any]:
        """The call that gave the action to the loop on the stack, and the action as it gave it."""
        self._calls = [one for one in self._calls if one.returned]
        self._under_way.clear()
        for frame in stack:
            self._returns.leave(frame)
        self._loop.steps(stack)
        direct = [one for one in self._calls if any(one.parent is frame for frame in stack)]
        calls = [one.call for one in direct if not one.behind]
        self._warm_up.heard |= bool(calls)
        self._beside |= {one.call.code for one in direct if one.behind and self._actor is None}
        again = self._turns.goes_on(shown, calls) and not self._lines.heard
        call = acted(calls, action) or acted([one.call for one in direct], action)
        if call is None and shown is not None and (found := sent_from(calls, action, shown.env)):
            call, action, shown.way = found
        ahead = self._lines.stepped(stack, action, again=again) if call is None else None
        if call is not None:
            self._lines.forget()
        before = None if again else self._turns.begin(calls)
        if shown is not None:
            self._turns.turn(shown, ahead, self._lines.drawn(ahead))
        if not again:
            self._settle(call or before or ahead)
        self._layers.stepped(call or ahead, lines=call is None)
        return call or ahead, action

    def _settle(self, call: PlainCall | None) -> None:
        """Who acts is followed alone where it was the same function for some steps."""
        self._lines.wanted = self._lines.wanted and (call is None or self._lines.made(call))
        code = None if call is None else call.code
        again = code is not None and code is self._last_actor
        self._acted_in_a_row = self._acted_in_a_row + 1 if again else 0
        self._last_actor = code
        self._actor = code if self._acted_in_a_row >= _SETTLED else None

    def _mine(self) -> bool:
        """Whether it is the script that calls, and what it does is still of use; else the file that
        does is noted."""
        caller = sys._getframe(3).f_code.co_filename
        theirs, looks = is_user_file(caller), self._watching.looks
        if looks and not theirs:
            self._watching.seen.steppers.add(caller)
        return theirs and looks and (self.only_steps or not self._done)

    @harmless
    def _note(
        self, shown: SteppedEnv, call: PlainCall | None, action: Any, found: tuple[Any, ...]
    ) -> None:
        shown.gave(call or unseen_call(), action, found)
        self.latest = shown.steps[-1]
        self.latest.updates = self._watching.seen.updates

    # --- who acts -----------------------------------------------------------------------------

    def called(self, module: nn.Module, _inputs: Any) -> None:
        """A module is about to run: the user's functions that it runs in are followed."""
        self._returns.pause()
        begun = self._shown or self.awaited
        if module._parameters and begun and not self._done and self._watching.looks:
            self._called()

    @harmless
    def _called(self) -> None:
        collects, graph = self._collects, torch.is_grad_enabled()
        lines, follows = collects and self._lines.waits, self._of_use(collects, graph)
        if not lines and not follows:
            return
        frames = their_frames(sys._getframe(3))
        innermost = next(frames, None)
        if innermost is None or (not lines and innermost in self._returns):  # as those around it
            return
        stack = [innermost, *frames]
        if lines:
            self._lines.calls(stack)
        behind = (collects or not graph) and self._loop.is_behind(stack)
        if behind and not graph:
            self._loop.goes_on()
        if behind or graph:
            self._loop.earlier.note(stack)
        behind = behind and collects
        for number, (frame, parent) in enumerate(itertools.pairwise(stack if follows else [])):
            if frame.f_code in self._loop:
                break
            if frame not in self._returns and self._may_act(frame.f_code, behind=behind):
                self._follow(frame, parent, len(stack) - number, behind=behind)

    def _of_use(self, collects: bool, graph: bool) -> bool:
        """Whether a call that comes now, with a graph or without, may act or train."""
        if not graph:
            return collects and not self._acting_now()
        if self._passes >= _LATEST:
            return False
        return self._run is None or not self._run.complete or self._next.wanted

    @property
    def _collects(self) -> bool:
        """Whether steps that come now are noted."""
        return self._run is None or self._next.wanted

    def _acting_now(self) -> bool:
        """Whether what runs is inside a call of the function that acts, which is followed."""
        if self._actor is None:
            return False
        running = self._lines.running
        if running is not None and running.code is self._actor:
            return True
        return any(one.call.code is self._actor for one in self._under_way)

    def _may_act(self, code: CodeType, *, behind: bool) -> bool:
        """Whether it is a function, and none of which it is settled that another one acts, or that
        is called ``behind`` every step."""
        settled = self._actor is not None and not torch.is_grad_enabled()
        if settled and behind and (code in self._beside or self._rare < _LATEST):
            self._rare += code not in self._beside
            return bool(code.co_flags & inspect.CO_NEWLOCALS)
        return code is self._actor if settled else bool(code.co_flags & inspect.CO_NEWLOCALS)

    def _follow(self, frame: FrameType, parent: FrameType, depth: int, *, behind: bool) -> None:
        told = as_given(frame)
        if told is None:
            return
        arguments, owner = told
        function = self._function_of(frame, owner)
        given = arguments
        if owner is not None:
            given = {name: one for name, one in arguments.items() if one is not owner}
        before = self._owners.before(frame.f_code, function if owner is None else owner)
        call = PlainCall(frame.f_code, function, cloned(given), owner=owner, before=before)
        call.graphed = has_graph(given) or self._owners.graphed
        call.cast = cast_now() if isinstance(owner, nn.Module) else None
        running = _Running(call, parent, depth, behind, torch.is_grad_enabled())
        if self._returns.follow(frame, functools.partial(self._returned, running)):
            self._calls.append(running)
            self._under_way.append(running)
            if len(self._calls) > _LATEST:
                dropped = self._calls.pop(0)
                self._under_way = [one for one in self._under_way if one is not dropped]
        if torch.is_grad_enabled():
            self._passes += 1

    @harmless
    def _returned(self, running: _Running, result: Any) -> None:
        call = running.call
        self._under_way = [one for one in self._under_way if one is not running]
        call.result, running.returned = cloned(result), True
        call.after = self._owners.after(call.code, call.holder, call.before)
        if running.behind and self.latest is not None and not running.graph:
            self.latest.beside = [*self.latest.beside, call][:_BESIDE]

    def _forget_calls(self) -> None:
        self._calls.clear()
        self._under_way.clear()

    def _function_of(self, frame: FrameType, owner: Any) -> Any:
        """The function whose frame it is, or the bound method of its owner."""
        code = frame.f_code
        if owner is not None:
            return method_in(owner, code)
        if code not in self._functions:
            self._functions[code] = function_with(code, frame.f_globals)
        return self._functions[code]

    def gave(self, module: nn.Module, inputs: Any, *told: Any) -> None:
        """A module has run: what an innermost part gave is remembered."""
        raised = told[-1] is None
        if not module._modules and module._parameters and not self._done and not raised:
            if self._layers.wanted and self._collects and isinstance(module, LAYERS):
                self._note_layer(module, inputs, told[0])
            if isinstance(told[-1], Tensor):
                self._note_part(module, told[-1])
        self._returns.resume()

    @harmless
    def _note_layer(self, layer: Layer, inputs: Any, named: Any) -> None:
        self._layers.gave(layer, inputs, named, (one.call for one in self._under_way))

    @harmless
    def _note_part(self, module: nn.Module, result: Tensor) -> None:
        if result.requires_grad:
            self._ran.add(id(module))
        self._lines.gave(module, result)
        for running in self._under_way:
            running.graph |= result.requires_grad
            if len(running.call.parts) < _LATEST:
                running.call.parts.append((module, result.detach()))

    # --- training -----------------------------------------------------------------------------

    @harmless
    def backward(self, frame: FrameType, loss: Any) -> None:
        """``loss.backward()`` of the script's."""
        if self._done or not (self._run or any(one.steps for one in self._stepped)):
            return
        if self._run is None:
            self._begins(frame, loss)
        elif self._waits():
            self._trains(self._run, frame, loss)
        elif self._next.begun:
            stack = list(their_frames(frame))
            self._run = self._next.ended(self._run, self._longest(), stack, self._loop)
        if self._run is None:
            return
        stack = list(their_frames(frame))
        calls = [one for one in self._calls if one.returned and one.graph]  # no burn-in alone
        direct = [one for one in calls if any(one.parent is frame for frame in stack)]
        inside = sorted((one for one in calls if one not in direct), key=lambda one: one.depth)
        taken = [self._run.passed(one) for one in self._run.most_first(o.call for o in direct)]
        if not any(taken):  # where the outer one reads its data by name, an inner one is given it
            next((one for one in inside if self._run.passed(one.call)), None)
        elif not self._run.complete:
            for one in reversed(inside):
                self._run.passed_inside(one.call)
        for one in calls:
            self._next.passed(self._run, one.call)
        for one in self._calls:
            if one.returned and not one.graph:
                self._run.burns_in(one.call)
        self._ran = set()
        if not self._run.waits:  # for a loss behind this one, which what was called is part of too
            self._forget_calls()
            self._loop.earlier.forget()
        self._lines.forget()
        self._loop.frames = []
        self._passes = self._rare = 0

    def _begins(self, frame: FrameType, loss: Any) -> None:
        """Tell who acted, and what is trained on, where that is known by now."""
        steps, seen = self._longest(), self._watching.seen
        ahead = self._warm_up.ahead_of(steps)
        if ahead is None:  # random actions, so far
            self._forget_calls()
            self._passes = self._rare = 0
            return
        place, earlier = self._place or Place(""), latest_of(steps[:ahead])
        own = steps[ahead:] if ahead else steps
        self._layers.told(one.call for one in own)
        run = PlainRun(own, place, seen, earlier, drawn=True)
        if not run.acted():
            self._tell_of_several()
            self.stop()
            return
        self._run = run
        try:
            run = self._trains(run, frame, loss)
        finally:  # what trains may be told or not
            if ahead:  # those of the first update took no step
                seen.weights = taken(seen.modules())
        if not run.from_memory:
            self._next.behind(run.steps)

    def _trains(self, run: PlainRun, frame: FrameType, loss: Any) -> PlainRun:
        seen, weights, stack = self._watching.seen, weights_in(loss, ()), list(their_frames(frame))
        run.ran, run.weights = self._ran, weights
        run.trained(stack, self._loop)
        pairs = copies_of_trained(run.steps[0].call, stack, weights) if run.waits else []
        if pairs:
            seen.modes |= modes_as_acted(seen.modes, pairs)
            run = self._run = run.by(acted_by_trained(run.steps, pairs))
            run.ran, run.weights = self._ran, weights
            if run.acted():
                seen.acting[-1].copies = [one for one, _ in pairs]
                run.trained(stack, self._loop)
        self._waited += 1
        if seen.frozen and seen.losses:
            seen.weights = taken(seen.modules()) | seen.weights
        return run

    def _waits(self) -> bool:
        """Whether a loss of the policy is still to come: one of its critic came before."""
        if self._run is None:
            return self._warm_up.waits
        return self._run.waits and self._waited < _LATEST

    def _tell_of_several(self) -> None:
        """Envs that are stepped by turns, as by a vector env of the user's own."""
        number = sum(bool(one.steps) for one in self._shown.values())
        if number > 1 and not self._turns.together.steps:
            self._watching.seen.plain = (
                f"{number} envs are stepped one by one, so that no call acts in each: step them as"
                " one, as gymnasium.vector.SyncVectorEnv does"
            )

    @property
    def _stepped(self) -> list[SteppedEnv]:
        return [*self._shown.values(), self._turns.together]

    def _longest(self) -> list[PlainStep]:
        """The steps of the env that was stepped most, or of those that were by turns."""
        self._turns.end()
        return max((one.steps for one in reversed(self._stepped)), key=len)

    def give_up(self, error: Exception) -> None:
        """Follow nothing any more: what the script does could not be told."""
        seen = self._watching.seen
        said = f"what it does could not be told ({type(error).__name__}: {first_line(error)})"
        seen.plain = seen.unseen = said
        self.stop()

    @harmless
    def end(self) -> None:
        """Nothing more is followed; a script that only acts is told of."""
        if not self._done and self._run is None and self._longest():
            place = self._place or Place("")
            self._run = PlainRun(self._longest(), place, self._watching.seen)
            self._run.acted()
        self.stop()

    def stop(self) -> None:
        """Follow nothing any more: who acts is told, or cannot be."""
        self._done = True
        self._returns.stop()
