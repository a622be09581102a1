"""Training code of the user's own: which function, or which lines, make a loss of which batch.

Noted are the user's frames that hold a batch while the policy's weights are called with gradients,
and which of them ``backward`` is called in. Where a function of theirs was given the batch, that
function is the loss; else the lines of their loop between the batch and ``backward`` are.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import CodeType, FrameType
from typing import Any
from weakref import ref

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from rnncheck.errors import Place
from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.guard.user_frames import calling_place, display_path
from rnncheck.pipeline.instruments.vmap import is_batched, unbatched
from rnncheck.pipeline.subject.modes import Mode, in_mode_of
from rnncheck.roles import role_of
from rnncheck.watching.forms.named_switches import OwnSwitch, Switches, still_set
from rnncheck.watching.forms.plain_calls import OBSERVATION
from rnncheck.watching.forms.plain_policy import PlainPolicy, is_flat
from rnncheck.watching.forms.switches import switched_on, switches_of
from rnncheck.watching.observer import Watching, modes_now
from rnncheck.watching.seams.entered import EnteredModes, mode_around
from rnncheck.watching.seams.found_losses import FoundLoss, further, note_whose, of_a_function
from rnncheck.watching.seams.frames import (
    batches_in,
    decorated_with,
    depth_of,
    frame_arguments,
    is_tensordict,
    method_of,
    owner_of,
    their_frames,
)
from rnncheck.watching.seams.graphs import (
    leads_to,
    runs_networks,
    runs_over_steps,
    weights_in,
)
from rnncheck.watching.seams.held_batches import (
    GivenTo,
    HeldBatches,
    about_to_be_bound,
    alike,
    batches_given,
    begun_with,
    of_a_part,
    of_the_memory,
    states_in,
)
from rnncheck.watching.seams.lines import Lines, lines_between, lines_of_a_round
from rnncheck.watching.seams.lines_read import (
    NumbersByUpdate,
    begins_at,
    keys_among,
    keys_read,
    reads_of_steps,
    taken_out,
    with_taken,
)
from rnncheck.watching.seams.looked_into import LookedInto
from rnncheck.watching.seams.own_memories import through_own_memories
from rnncheck.watching.seams.patching import hear_modules, replace
from rnncheck.watching.seen import KEPT, Called, copy_now
from rnncheck.watching.weights import is_equal

_NOBODY: tuple[Callable[[], Any], bool] = (lambda: None), False
_MOST_LEFT_OUT = 8  # statements behind a batch's first binding that are left out; chosen
# Updates on what was collected last in whose frames no batch was: there is none at the next ones
# either. Chosen: an algorithm has one `backward` for each of its networks.
_FRUITLESS = 8


def own_training_seams(watching: Watching, scope: ExitStack) -> None:
    """Open the seams until ``scope`` ends."""
    noting = OwnTraining(watching, EnteredModes(watching, scope))
    hear_modules(watching, scope, noting.called)
    replace(scope, Tensor, "backward", noting.backward)
    scope.callback(noting.forget)
    watching.at_an_unreduced_loss.append(noting.unreduced)
    watching.at_a_step.append(noting.acts)  # what is stepped with was acted on, not trained on


class OwnTraining:
    """Follows one update after the other, from the policy's call to ``backward``."""

    def __init__(self, watching: Watching, modes: EnteredModes) -> None:
        self._watching, self._modes = watching, modes
        self._held: dict[FrameType, HeldBatches] = {}
        self._looked = LookedInto()
        # To find one may take a walk over all objects.
        self._functions = dict[CodeType, Any]()
        self._found: dict[tuple[Any, ...], Lines] = {}
        self._learners = dict[int, tuple[Callable[[], Any], bool]]()  # by the modules' ids
        self._learned = set[int]()  # weights that those are copies of which act
        self._trained = dict[int, set[int]]()  # weights that act, by how many were seen to
        self._numbers = NumbersByUpdate()
        self._told = set[str]()  # places of losses that own code is judged for
        self._itself = False  # a module with weights that act ran on a tensordict
        self._fruitless = 0  # calls of `backward` in a row, without an env's step, that held none
        self._unreduced = list[Called]()  # loss modules since the last `backward`

    def called(self, module: nn.Module, inputs: Any) -> None:
        """A module is about to run."""
        seen = self._watching.seen
        on_td = bool(inputs) and is_tensordict(inputs[0])
        if not (on_td or module._parameters) or not torch.is_grad_enabled():
            return
        if not on_td and self._looked.in_vain:
            return
        if not self._watching.looks or (seen.moved_on and not self._watching.untrained):
            return
        if self._fruitless >= _FRUITLESS:
            return
        if seen.losses and not any(one.own or one.fed or one.unreduced for one in seen.losses):
            return
        if on_td and not self._itself:
            self._itself = bool({id(one) for one in module.parameters()} & self._acting())
        if self._is_trained(module):
            self._looked.gave(batches=self._hold(sys._getframe(1)) or on_td)

    def unreduced(self, here: FrameType, called: Called, given: TensorDictBase) -> None:
        """A loss module is about to run whose caller, ``here``, reduces what it gives, or adds to
        it. What makes the batch that it is ``given``, such as padded rows, is ahead of the loss."""
        if not torch.is_grad_enabled() or self._watching.seen.moved_on:
            return
        named = any(given is one for f in their_frames(here) for one in batches_in(f).values())
        if not named and not called.unreduced:  # the lines would make targets as well
            return
        self._itself = True  # its networks run on what it is given
        self._unreduced.append(called)
        self._hold(here, given if named else None)

    def _hold(self, here: FrameType, only: TensorDictBase | None = None) -> bool:
        """Copies of the batches that the user's frames hold, as they are now; of ``only`` one.
        Whether there are any, from here or from before."""
        held, copies = len(self._held), dict[int, TensorDictBase]()  # one may be in many frames
        for frame in self._looked.further_on(here):
            if frame in self._held:
                continue
            left = about_to_be_bound(frame.f_code.co_filename, frame.f_lineno)
            there = {
                name: td
                for name, td in batches_in(frame).items()
                if name not in left and (only is None or td is only)
            }
            if found := batches_given(frame, there):
                copies |= {id(td): copy_now(td) for td in found.values() if id(td) not in copies}
                given = frame_arguments(frame)
                stored, drawn = through_own_memories(frame, found, given)
                self._held[frame] = HeldBatches(
                    frame.f_code,
                    frame,
                    frame.f_lineno,
                    modes_now(),
                    given,
                    self._switches(),
                    depth_of(frame),
                    {name: copies[id(td)] for name, td in found.items()},
                    self._modes.now(),
                    None if only is None else frame.f_lineno,
                    alike(found, self._watching.stored) | stored,
                    alike(found, self._watching.drawn) | drawn,
                    states_in(frame, left),
                )
        for look in self._watching.at_a_batch if len(self._held) > held else ():
            look(here)
        return bool(self._held)

    def _switches(self) -> Switches:
        acting = self._watching.seen.actor()
        if acting is None or not isinstance(acting.policy, nn.Module):
            return {}
        return switched_on(acting.switches, switches_of(acting.policy))

    def _in_its_mode(
        self, held: HeldBatches, lines: Lines, begun: Mapping[str, Any] | None = None
    ) -> Any:
        given = begun_with(lines, held) if begun is None else begun
        function = partial(lines.function, **given) if given else lines.function
        return in_mode_of(self._mode(held, begins_at(lines)), function)

    def _mode(self, held: HeldBatches, line: int = 0) -> Mode:
        """What the script has set around a frame, or around its lines from ``line`` on."""
        recurrent = mode_around(held.entered, held.depth, line)
        acting, named = self._watching.seen.actor(), still_set(held.switches, self._switches)
        if acting is None or not named:
            return recurrent
        return OwnSwitch(recurrent, acting.policy, named)

    def _is_trained(self, module: nn.Module) -> bool:
        """Whether it has weights that act, those of a learner that who acts is a copy of, or others
        that an optimiser has, such as a critic's."""
        mine, acting = [p for p in module._parameters.values() if p is not None], self._acting()
        if not mine or (acting and any(id(one) in acting for one in mine)):
            return bool(mine)
        if any(map(is_batched, mine)):  # those of an ensemble, under vmap: others at each call
            return self._is_stepped([unbatched(one) for one in mine])
        asked, known = self._learners.get(id(module), _NOBODY)
        told = asked() is module
        if told and not known:
            return False
        if any(one.is_meta for one in mine):
            return False
        if not told:
            known = self._acts_by_a_copy(mine) or self._is_stepped(mine)
            self._learners[id(module)] = ref(module), known
        return known

    def _is_stepped(self, mine: Sequence[Tensor]) -> bool:
        groups = (group for one in self._watching.optimisers for group in one.param_groups)
        held = {id(weight) for group in groups for weight in group["params"]}
        return any(id(one) in held for one in mine)

    def _acts_by_a_copy(self, mine: list[nn.Parameter]) -> bool:
        """Whether each of the weights, which are trained, was copied into one that acts."""
        policies = [one.policy for one in self._watching.seen.acting]
        theirs = [p for one in policies if isinstance(one, nn.Module) for p in one.parameters()]
        tells = any(one.requires_grad and _varies(one) for one in mine)
        copied = tells and all(any(is_equal(one, other) for other in theirs) for one in mine)
        self._learned |= {id(one) for one in mine if copied}
        return copied

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
            self._numbers.note(their_frames(sys._getframe(1)))
            for note in self._watching.at_a_backward:
                note(sys._getframe(1), loss)
            self._fruitless = 0 if self._held else self._fruitless + 1
            if self._held and not self._of_plain_storages():
                count = len(self._watching.seen.losses)
                self._note(sys._getframe(1))
                note_whose(self._watching.seen.losses[count:], loss, self._acting() | self._learned)
            else:
                self._name(loss, sys._getframe(1))
        self.forget()
        with self._watching.inside():
            original(loss, *args, **kwargs)

    def _of_plain_storages(self) -> bool:
        """Whether a plain loop keeps its steps in tensordicts, by names of its own: its storages
        are known by what they hold."""
        acting = self._watching.seen.actor()
        if acting is None or not isinstance(acting.policy, PlainPolicy):
            return False
        if is_flat(acting.make_env):  # these steps have other names than the script's
            return True
        held = (td for one in self._held.values() for td in one.batches.values())
        return not any(td.get(OBSERVATION, None) is not None for td in held)

    def _name(self, loss: Any, here: FrameType) -> None:
        """Note what of this loss nothing judges: all that is seen of it is its weights."""
        seen, called = self._watching.seen, calling_place(3)
        place, stack = str(called), list(their_frames(here))
        judged = any(
            str(one.place) == place or one.holds(called) or one.is_around(stack)
            for one in seen.losses
        )
        if judged or not seen.losses or place in self._told:
            return
        given = [node for nodes in seen.given.values() for node in nodes]
        weights = weights_in(loss, given)
        if not weights:
            return
        known = len(seen.unjudged)
        if not any(one.own for one in seen.losses):
            for one in seen.losses if runs_networks(loss, given) else ():
                if leads_to(loss, seen.given.get(id(one.module), ())):
                    one.added_to = True  # its next call is looked at
            seen.unjudged[place] = (
                "`backward` is called on more than loss modules gave: the rest is not judged"
            )
        elif not weights & (self._acting() | self._learned):
            seen.unjudged[place] = (
                "`backward` is called on a loss of none of the weights that act: it is not judged"
            )
        else:  # walking the graph again would say the same
            self._told.add(place)
        if len(seen.unjudged) > known and runs_over_steps(loss, given):
            seen.with_memory.add(place)

    def acts(self) -> None:
        """An env was stepped."""
        self._fruitless = 0
        self.forget()

    def forget(self) -> None:
        """The frames are let go: they hold all that was in them."""
        self._held.clear()
        self._looked.forget()
        self._unreduced.clear()
        self._itself = False

    def _note(self, here: FrameType) -> None:
        stack, losses = list(their_frames(here)), self._watching.seen.losses
        found, several = self._function(stack)
        if self._watching.seen.moved_on:
            for one in [*([found] if found else []), *self._lines(stack)]:
                self._goes_further(losses, one)
            return
        if found is None or several:
            lines = next(self._lines(stack), None)
            if lines is not None:
                self._add_rounds(self._add(losses, lines), stack)
            if lines is not None or found is None:
                return
        known = self._add(losses, found)
        outside = [one for one in stack if one is not found.held.frame]
        for lines in self._lines(outside, found.own):
            self._add(known.around, lines)
        self._add_rounds(known, outside)

    def _goes_further(self, losses: list[Called], found: FoundLoss) -> None:
        """It was called at a later update, on a batch of other weights."""
        known = next((one for one in losses if one.own == found.own), None)
        if known is not None:
            further(known, found)

    def _add_rounds(self, known: Called, stack: list[FrameType]) -> None:
        """Loops around the loss whose batch is bound anew: of what was collected last."""
        acting = self._watching.seen.actor()
        if known.rounds or acting is None or acting.collector is None or not acting.batches:
            return
        given = [*acting.batches, *acting.further][-1]
        for frame in stack:
            held = self._held.get(frame)
            found = None if held is None else lines_of_a_round(frame, set(held.batches))
            if held is not None and found is not None:
                place = Place(display_path(held.code.co_filename), held.line)
                loss = in_mode_of(self._mode(held), found.function)
                called = Called(loss, place, held.modes, [given], batch=found.batch)
                called.own, called.trains = (held.code, found.function.__code__), True
                known.rounds.append(called)

    def _add(self, losses: list[Called], found: FoundLoss) -> Called:
        """One more batch of the loss that was found."""
        held = found.held
        self._told.add(str(calling_place()))
        for one in self._unreduced:
            one.covered = True
        if self._unreduced:
            self._watching.seen.unjudged.pop(str(calling_place(5)), None)
        known = next((one for one in losses if one.own == found.own), None)
        if known is None:
            place = Place(display_path(held.code.co_filename), held.line)
            known = Called(found.loss, place, held.modes, switches=held.switches, own=found.own)
            known.batch, known.trains, known.later = found.argument, True, found.later
            losses.append(known)
        known.itself = known.itself or self._itself
        further(known, found)
        if len(known.inputs) < KEPT:
            known.inputs.append(with_taken(held.batches[found.batch], found.taken))
            known.beside += [] if (beside := found.beside) is None else [beside]
        return known

    def _function(self, stack: list[FrameType]) -> tuple[FoundLoss | None, bool]:
        """The function that is marked as the loss, else the outermost that was given a batch, or
        one inside it that trains on a part of that; and whether there are several, side by side, so
        that none of them is all of it."""
        found = list[GivenTo]()
        for held in sorted(self._held.values(), key=lambda one: one.depth):
            if self._acts(held) and not self._trains_in(held, stack):
                continue
            name = next((one for one in held.arguments if one in held.batches), None)
            if name is not None and (function := self._function_of(held)) is not None:
                found.append((function, held, name))
        marked = [one for one in found if role_of(one[0]) == "loss"]
        found = of_the_memory(found, self._held.values())
        for function, held, name in marked[:1] or of_a_part(found, stack)[:1]:
            beside = [one for _, one, _ in found if one.depth == held.depth]
            own = (held.code, *keys_among(held.arguments, held.batches[name]))
            told = of_a_function(function, held, name, self._mode(held), own)
            return told, not marked and len(beside) > 1
        return None, False

    def _acts(self, held: HeldBatches) -> bool:
        """Whether it is a part of who acts: no loss, though it is given a batch."""
        owner = owner_of(held.code, held.arguments)
        policies = [one.policy for one in self._watching.seen.acting]
        parts = (
            part for one in policies if isinstance(one, nn.Module) for part in all_modules(one)
        )
        return isinstance(owner, nn.Module) and any(part is owner for part in parts)

    def _trains_in(self, held: HeldBatches, stack: list[FrameType]) -> bool:
        """Whether nothing further inside leads to ``backward``, and it does so with the whole batch
        that it is given: a trainer may be what acts."""
        innermost = next((frame for frame in stack if frame in self._held), None)
        given = [held.batches[name].numel() for name in held.arguments if name in held.batches]
        least = min(one.numel() for one in held.batches.values())
        return innermost is held.frame and given[:1] == [least]

    def _lines(self, stack: list[FrameType], inner: Any = None) -> Iterator[FoundLoss]:
        """The lines of a loop that ``backward`` is reached in, from where one of its batches is
        there: the last that was made of another first. Around the loss ``inner``, if that is
        told."""
        for frame in stack:
            held = self._held.get(frame)
            names, known = frozenset() if held is None else frozenset(held.batches), set[int]()
            while held is not None and names:
                found = self._lines_of(frame, names, inner, held.since)
                if found is None:
                    break
                names -= {found.batch}
                if begins_at(found) in known:  # bound in one statement: the first of them is its
                    continue
                known.add(begins_at(found))
                whole, *later = self._from_each_start(frame, found, held)
                first, begun = begins_at(whole), begun_with(whole, held)
                yield FoundLoss(
                    self._in_its_mode(held, whole, begun),
                    held,
                    found.batch,
                    (held.code, first, *keys_read(whole, held.batches[found.batch])),
                    last=frame.f_lineno,
                    later=[self._in_its_mode(held, one) for one in later],
                    taken=taken_out(frame, whole),
                    numbers=self._numbers.read_by(whole, frame),
                    begun=begun,
                )

    def _from_each_start(
        self, frame: FrameType, found: Lines, held: HeldBatches
    ) -> Iterator[Lines]:
        """The lines from where the batch was bound first, the longest first, to those behind the
        last that bound it ahead of the policy's call. Ahead of a loss module's call they begin
        there, but where they read what lines ahead have made of the batch, such as a mask."""
        name = frozenset({found.batch})
        whole = found if held.since is None else self._lines_of(frame, name, None, None)
        last = found if held.since else self._lines_of(frame, name, None, held.line)
        if whole is None or last is None or begins_at(whole) == begins_at(last):
            yield found
            return
        shape = held.batches[found.batch].shape
        reads = reads_of_steps(last, shape) - reads_of_steps(whole, shape)
        if reads or held.since is None:
            yield whole
        if reads:
            shorter = (self._lines_of(frame, name, None, None, n) for n in range(1, _MOST_LEFT_OUT))
            for one in itertools.takewhile(lambda one: _is_ahead_of(one, last), shorter):
                if one is not None and reads_of_steps(one, shape) <= reads_of_steps(whole, shape):
                    yield one
        yield last

    def _lines_of(
        self,
        frame: FrameType,
        names: frozenset[str],
        inner: Any,
        since: int | None,
        without: int = 0,
    ) -> Lines | None:
        """What was made of them at the first time: it is that which is called again."""
        key = (frame.f_code, frame.f_lineno, names, inner, since, without)
        if key not in self._found:
            found = lines_between(frame, set(names), since, without)
            self._found |= {} if found is None else {key: found}
        return self._found.get(key)

    def _function_of(self, held: HeldBatches) -> Any:
        """The function, or bound method, whose frame it was; a module for its ``forward``."""
        method = method_of(held.code, held.arguments)
        if method is not None:
            return method
        if held.code not in self._functions:
            self._functions[held.code] = decorated_with(held.code, held.frame.f_globals)
        return self._functions[held.code]


def _is_ahead_of(one: Lines | None, last: Lines) -> bool:
    return one is not None and begins_at(one) < begins_at(last)


def _varies(one: torch.Tensor) -> bool:
    return not is_lazy(one) and bool((one != one.flatten()[:1]).any())
