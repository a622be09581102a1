"""What was seen of a loop over a plain env: who acted, what was collected and what was trained on,
in tensordicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.errors import Place
from rnncheck.pipeline.guard.user_frames import display_path
from rnncheck.pipeline.keys import LATER_KEY, REWARD_ADDED, Key, tensor_keys
from rnncheck.watching.forms.acted_again import ActedAgain
from rnncheck.watching.forms.begun_states import begun_states
from rnncheck.watching.forms.beside_calls import BesideCalls, beside_calls
from rnncheck.watching.forms.by_numbers import Counts
from rnncheck.watching.forms.last_calls import LastCall, last_calls
from rnncheck.watching.forms.later_resets import BEHIND_THE_RESET, begins_behind_resets
from rnncheck.watching.forms.made_longer import made_longer, with_their_last
from rnncheck.watching.forms.names_read import called_from, names_read_at
from rnncheck.watching.forms.own_env import is_own_env
from rnncheck.watching.forms.plain_calls import (
    FLAG,
    MASK_OF_ROWS,
    OBSERVATION,
    OWNER,
    PlainCall,
    PlainStep,
    ToldCall,
    narrowed,
)
from rnncheck.watching.forms.plain_columns import columns_of, fullest, shown_of
from rnncheck.watching.forms.plain_joins import states_at_the_join, states_at_the_opening
from rnncheck.watching.forms.plain_loss import MadeBeside, rollout_loss
from rnncheck.watching.forms.plain_pass import CallPass, Drawn, SeenPass, seen_pass
from rnncheck.watching.forms.plain_policy import PlainEnv, PlainPolicy, makers_of
from rnncheck.watching.forms.plain_record import parts_given, random_steps, steps_recorded
from rnncheck.watching.forms.plain_told import told_call
from rnncheck.watching.forms.recognised import Storages, storages_in
from rnncheck.watching.forms.recorded_rows import begins_later, with_data
from rnncheck.watching.forms.returns_made import returns_named
from rnncheck.watching.forms.said_of_runs import said_of_doubt, said_of_nowhere
from rnncheck.watching.forms.sampled_parts import begun_anew
from rnncheck.watching.forms.shown_before import Before
from rnncheck.watching.forms.step_ends import ends_by, is_one_episode, is_over
from rnncheck.watching.forms.storages import DONE
from rnncheck.watching.forms.structures import Path
from rnncheck.watching.observer import modes_now
from rnncheck.watching.seams.lines import (
    around_of,
    counts_itself,
    lines_behind,
    lines_inside,
)
from rnncheck.watching.seams.sampling import sampled_lines
from rnncheck.watching.seams.stood import StoodAt
from rnncheck.watching.seen import KEPT, Acting, Called, Sightings

_CUT: Key = ("next", "truncated")
_NOT_RETURNED = "actions were not returned by a call of a function of yours out of the loop"
_PARTS = 2  # batches that the steps are told as: the fewest that have a join between them


class PlainRun:
    """One run of steps, told to the sightings once; ``before`` are those that it goes on from."""

    def __init__(
        self,
        steps: list[PlainStep],
        place: Place,
        seen: Sightings,
        before: Sequence[PlainStep] = (),
        *,
        drawn: bool = False,
    ) -> None:
        """Steps ``before`` are those that the rollout goes on from; where they are ``drawn``, they
        had random actions, and lie in the memory that is trained on."""
        self.steps, self.place, self._seen = steps, place, seen
        self._before, self._random = before, before if drawn else ()
        self._told, self._whole = ToldCall(), TensorDict({}, [])
        self._all: TensorDictBase | None = None  # with the random steps ahead of them
        self._call = steps[0].call  # with the most in it: a state may be None at first
        self._acting: Acting | None = None
        self._called: Called | None = None
        self._policy: PlainPolicy | None = None
        self.from_memory = False  # what is trained on
        self._drawn: Drawn | None = None  # of that
        self.waits = False  # for a loss in which the policy runs
        self.weights: set[int] | None = None  # that the loss is made of, by id, where it is known
        self.ran = set[int]()  # parts of networks, by id, with gradients and since the last steps
        self._counts = Counts()
        self._burns = False  # its training pass begins with a state that earlier steps are run for
        self._split = False  # its training pass gets one trajectory after the other
        self._inside = False  # an episode ended inside a rollout
        self._to_an_end = False  # a rollout went on to the end of an episode, and no further

    def acted(self) -> bool:
        """Tell who acted; False where that cannot be told."""
        steps = self.steps
        unseen = sum(step.call.function is None for step in steps)
        if unseen or len({step.call.code for step in steps}) > 1:
            self._seen.plain = f"{unseen} of {len(steps)} {_NOT_RETURNED}"
            return False
        columns, calls = columns_of(steps, bool(self._before)), [step.call for step in steps]
        whole = columns.width
        self._told, shown = told_call(columns), shown_of(columns)
        if self._told.why and shown is not None:  # as if it were all that the env shows
            steps = [narrowed(step, shown) for step in steps]
            columns = columns_of(steps, bool(self._before))
            self._told = told_call(columns)
        if self._told.why:
            self._seen.plain = self._told.why
            return False
        self._call = calls[fullest([{**one.arguments, OWNER: one.before} for one in calls])]
        policy = PlainPolicy(self._call, self._told)
        policy.acted_in(self._seen.modes)
        states = {slot.key: (slot.rest, slot.dtype) for slot in self._told.carry.values()}
        before = {
            slot.key: Before(told.source, told.begins_with(slot), told.one_hot, told.stays)
            for slot in self._told.arguments.values()
            if (told := self._told.before.get(slot.key)) is not None
        }
        way = max(step.way for step in steps)
        part = None if columns.width == whole else shown
        try:
            make = PlainEnv(
                makers_of(steps[0].env, steps[0].seen), states, policy.batched, part, before,
                columns.shown, way, self._told.floating,
            )  # fmt: skip
        except Exception as error:  # an env of the user's may refuse to be copied
            self._seen.plain = f"no env like the script's can be made: {error}"
            return False
        self._policy = policy
        self._whole = steps_recorded(steps, columns, self._told, policy, self._before[-1:])
        make = replace(make, begins=begun_states(self._whole, states, [policy, self._call]))
        if begins_behind_resets(steps, self._whole, self._told):
            self._seen.plain = BEHIND_THE_RESET
            return False
        self._note_acting(policy, make, part)
        return True

    def _note_acting(
        self, policy: PlainPolicy, make: PlainEnv, part: tuple[int, ...] | None
    ) -> None:
        size = -(-self._whole.shape[1] // _PARTS)
        parts = [one for one in self._whole.split(size, 1) if one.shape[1] > 1]
        acting = Acting("steps", policy, make, self.place, modes=modes_now())
        if self._random:
            given = self._random, self._whole, self._told, part, make.shown
            acting.random, ahead = 1, random_steps(*given)
            parts, self._all = [ahead, *parts], torch.cat([ahead, self._whole], 1)
        acting.batches = [one if policy.batched else one[0] for one in parts]
        acting.parts = list(parts_given(self._call, policy))
        updates = {step.updates for step in self.steps}
        acting.forgets = f"`{self._call.code.co_name}`" if not self._told.carry else ""
        acting.moved = bool(self._random) and len(updates) > 1
        acting.never_reset, acting.counted = self.puts_back_unseen, sorted(self._seen.counting)
        if (join := states_at_the_join(self._before, self._whole, self._told, policy)) is not None:
            acting.joins.append(join)
        acting.shows_starts = is_own_env(self.steps[0].env)
        acting.ends_by = ends_by([*self._before, *self.steps])
        self._acting = acting
        self._seen.acting.append(acting)

    @property
    def puts_back_unseen(self) -> bool:
        """Whether the loop itself puts the state back, since the function that acts gets no flag,
        and no episode began behind another."""
        given = self._told.arguments.values()
        before = [one for one in self._before[-1:] if one.call.function is not None]
        begins = map(is_over, [*before, *self.steps[:-1]])
        return not any(slot.key == (FLAG,) for slot in given) and not any(begins)

    def trained(self, stack: Sequence[FrameType], stood: StoodAt) -> None:
        """``backward`` is about to be called: tell what is trained on. A list that the lines have
        made a tensor of since, or that an object has put an empty one in the place of, is among
        the containers of where the loop ``stood`` at the last step."""
        loop = stood.lines
        number = next((n for n, one in enumerate(stack) if one.f_code in loop), None)
        if number is None:
            return
        if self._random and (
            self._sampled(stack, stood) or self.waits
        ):  # only a memory holds these
            return
        frame = stack[number]
        inner = called_from(frame, stood.frames)
        stepping = None if inner is None else (inner, loop[inner.f_code])
        kept = () if inner is None else stood.containers.get(inner.f_code, {}).keys()
        lines = lines_behind(frame, loop[frame.f_code], stepping, kept)
        if lines is None and number:  # one statement steps and trains: `update(collect())`
            frame, inner = stack[number - 1], None
            lines = lines_inside(frame)
        if lines is None:
            self._sampled(stack, stood)
            return
        names = names_read_at(lines, frame, inner, stood)
        steps = self._whole.shape[1]
        longer = made_longer(names, lines.appended, steps)
        names |= longer
        found, beside = self._held(names, lines.stepped)
        ways = lines.appended - {(name,) for name in longer}
        found.parts |= with_their_last(found.parts, names, ways, steps)
        acts = self._acts_again() if found.graphed else None
        nowhere = (OBSERVATION,) not in found.keys and acts is None
        of_a_memory = found.of_a_memory or self._is_drawn(found.episodes, stack, stood)
        if nowhere or (acts is None and of_a_memory):
            sampled = self._sampled(stack, stood) or self.waits
            if nowhere and not sampled:
                self._seen.unseen = said_of_nowhere(self._whole)
            if nowhere and not sampled and self._called is None:
                self._passes_in(frame, rollout_loss(lines.function, names, found.parts, None))
            if nowhere or sampled:
                return
        place = Place(display_path(frame.f_code.co_filename), frame.f_lineno)
        make = partial(rollout_loss, lines.function, names, acts=acts, beside=beside)
        loss, doubts = self._made_by(make, found)
        self._called = Called(loss, place, modes_now(), [self._whole], own=frame.f_code)
        self._called.alone, self._called.doubts = is_one_episode(self.steps), doubts
        counts = next((n for n in range(number - 1, 0, -1) if counts_itself(stack[n])), 0)
        inside = (self._lines_alone(one, stood, acts) for one in reversed(stack[:counts]))
        self._called.inner = [one for one in inside if one is not None]
        self._seen.losses.append(self._called)

    def _lines_alone(self, frame: FrameType, stood: StoodAt, acts: ActedAgain | None) -> Any:
        """What the function of the frame does alone, of the same batch, and what it may read."""
        lines = lines_inside(frame)
        if lines is None:
            return None
        names = names_read_at(lines, frame, None, stood)
        found, beside = self._held(names, lines.stepped)
        make = partial(rollout_loss, lines.function, names, acts=acts, beside=beside)
        return self._made_by(make, found)

    def _made_by(
        self, make: Callable[[Mapping[Path, Any]], Any], found: Storages
    ) -> tuple[Any, list[tuple[str, Any]]]:
        """The loss, and its doubts."""
        doubts = [
            (said_of_doubt(path, part, self._whole, self._call), make({**found.parts, path: part}))
            for path, part in found.doubts.items()
        ]
        return make(found.parts), doubts

    def _passes_in(self, frame: FrameType, lines: Any) -> None:
        """Of lines that hold what nobody knows the calls may tell what the recurrent pass is."""
        place = Place(display_path(frame.f_code.co_filename), frame.f_lineno)
        self._called = Called(lines, place, modes_now(), [self._whole], own=frame.f_code)
        self._called.alone = is_one_episode(self.steps)
        self._seen.passes.append(self._called)

    def _is_drawn(self, episodes: set[str], stack: Sequence[FrameType], stood: StoodAt) -> bool:
        """Whether all that the lines hold of each step of some rows is known by itself: the list of
        ``episodes`` may be a memory that these were drawn of, if they read nothing more of it."""
        told = sampled_lines(stack, self._whole, self._told, stood.earlier) if episodes else None
        return told is not None and not told[2].doubts and not told[1].reads & episodes

    def _held(
        self, names: Mapping[str, Any], stepped: frozenset[str]
    ) -> tuple[Storages, list[MadeBeside]]:
        """What of the variables holds the steps, and which calls beside these some of it is of."""
        made: list[tuple[BesideCalls | LastCall, dict[Key, Tensor]]]
        made = [*beside_calls(self.steps, self._whole)]
        made += last_calls(self.steps, self._whole, self._told)
        whole = self._whole.clone(recurse=False)
        for _, gave in made:
            whole.update(gave)
        found = storages_in(names, whole, self._told, stepped)
        if (more := whole.get(REWARD_ADDED, None)) is not None:
            self._whole.set(REWARD_ADDED, more)
        self._whole.set(_CUT, whole.get(_CUT))  # of a step that is an end as well one may be meant
        used: list[MadeBeside] = [call for call, gave in made if gave.keys() & found.keys]
        return found, [*used, *filter(None, map(returns_named, found.keys))]

    def _sampled(self, stack: Sequence[FrameType], stood: StoodAt) -> bool:
        """Whether what is trained on are steps out of a memory. A loss in which the policy does not
        run, such as that of a critic, is a part of the next one, behind it."""
        whole = self._whole if self._all is None else self._all
        told = sampled_lines(stack, whole, self._told, stood.earlier)
        if told is None:
            return False
        self._whole, self._all = whole, None
        self._counts.note(one for frame in stack for one in frame.f_locals.values())
        self.from_memory, self.waits = True, not self._is_trained()
        if self.waits:
            return False
        frame, lines, found = told
        self._drawn = found.drawn
        held = lines.function.__kwdefaults__ or {}
        names = {name: held.get(name, frame.f_globals.get(name)) for name in sorted(lines.reads)}
        place = Place(display_path(frame.f_code.co_filename), frame.f_lineno)
        loss = rollout_loss(lines.function, names, found.parts, None)
        self._called = Called(loss, place, modes_now(), [found.batch], own=frame.f_code)
        self._called.ways = self._counts.ways(loss)
        self._called.alone = self._split = not found.flagged
        self._called.holds_states = not found.from_starts
        around = around_of(lines.function)
        self._called.begins = (around.behind or 0) if around is not None else 0
        self._seen.judge_within(self._called)
        for path, part in found.doubts.items():
            other = rollout_loss(lines.function, names, {**found.parts, path: part}, None)
            self._called.doubts.append((said_of_doubt(path, part, self._whole, self._call), other))
        self._seen.losses.append(self._called)
        return True

    def _is_trained(self) -> bool:
        """Whether the loss goes back to a network that acted: that one ran says little where the
        loss of a critic is made behind it."""
        if self.weights is None or self._policy is None:
            return bool(self._acted() & self.ran)
        parts = map(self._policy.get_submodule, parts_given(self._call, self._policy))
        own = {id(weight) for part in parts for weight in part.parameters()}
        return bool(self.weights & own)

    def _acts_again(self) -> ActedAgain | None:
        cut = not any(step.call.graphed for step in self.steps)
        return None if self._policy is None else ActedAgain(self._policy, cut)

    def beside(self, steps: Sequence[PlainStep]) -> None:
        """What another rollout tells of this one: how long they are is the script's choice, or the
        episodes'. That the last one is over may show with the next reset alone."""
        rollouts = (self.steps, steps)
        self._inside |= any(is_over(one) for rollout in rollouts for one in rollout[:-1])
        self._to_an_end |= any(map(is_one_episode, rollouts))
        if self._called is not None:
            self._called.alone = (self._to_an_end and not self._inside) or self._split

    def by(self, steps: list[PlainStep]) -> PlainRun:
        """The same steps, by the networks that are trained: those that acted are copies of them."""
        self._seen.acting = [one for one in self._seen.acting if one is not self._acting]
        return PlainRun(steps, self.place, self._seen, self._before, drawn=bool(self._random))

    def knows_what(self, other: PlainRun) -> None:
        """The rollouts that told of the other tell of this one."""
        self._inside |= other._inside
        self._to_an_end |= other._to_an_end
        self._seen.modes = other._seen.modes

    def instead_of(self, other: PlainRun, seen: Sightings) -> bool:
        """Tell ``seen`` of this one and no longer of the other, if it was told whole."""
        if not (self._seen.acting and self._seen.losses):
            return False
        theirs = other._told_of
        if self._acting is not None and theirs[0] is not None:
            self._acting.openings += [*theirs[0].openings, *other._openings()]
        seen.acting = [one for one in seen.acting if one is not theirs[0]] + self._seen.acting
        seen.losses = [one for one in seen.losses if one is not theirs[1]] + self._seen.losses
        seen.unseen, self._seen = "", seen
        return True

    def _openings(self) -> Iterator[TensorDictBase]:
        """What it was seen to be trained from, where it begins inside of an episode."""
        for given in () if self._called is None else self._called.passed[:1]:
            states = states_at_the_opening(given, self._whole, self._told)
            if states is not None:
                yield states

    @property
    def _told_of(self) -> tuple[Acting | None, Called | None]:
        return self._acting, self._called

    @property
    def complete(self) -> bool:
        """Whether no further call is of use."""
        if self._called is None:
            return not self.waits
        return len(self._called.passed) >= KEPT

    def passed(self, call: PlainCall) -> bool:
        """Tell of a call on a training batch; False where it is none, or enough were told."""
        called, policy = self._called, self._policy
        if called is None or policy is None or self.complete:
            return False
        found = seen_pass(call, self._told, self._call, self._whole, self._drawn)
        if found is None or not self._is_of_the_policy(call):
            return False
        if isinstance(called.over, CallPass) and self._is_beside(call, found, called.over.seen):
            return True
        if self._burns:  # with weights that were trained since: not what acting had there
            return True
        self._burns = self._drawn is not None and begins_later(found.batch, self._drawn[0])
        anew = self.from_memory and self._split and not called.holds_states
        given = with_data(found.batch)
        called.passed.append(begun_anew(given, self._told) if anew else given)
        if self.from_memory:
            self._note_given(found.batch)
        if called.over is None:
            called.over = self._pass(found, policy)
            self._split = self._split or self._of_one_trajectory(found)
            called.alone = called.alone or self._split
        elif isinstance(called.over, CallPass):
            before = called.over.seen.call
            if len(self._ran_in(call)) > len(self._ran_in(before)):  # that was a critic's alone
                called.over = self._pass(found, policy)
        return True

    def burns_in(self, call: PlainCall) -> None:
        """A call without gradients ahead of the loss, which may be on the first steps of what was
        drawn: with the states that it begins with."""
        called = self._called
        if called is None or self._drawn is None or len(called.burn_ins) >= KEPT:
            return
        found = seen_pass(call, self._told, self._call, self._whole, self._drawn)
        if found is not None and self._is_of_the_policy(call):
            called.burn_ins.append(with_data(found.batch))

    def opening(self, call: PlainCall) -> TensorDictBase | None:
        """Of a call on a training batch that begins where the rollout does: the states there."""
        found = seen_pass(call, self._told, self._call, self._whole)
        if found is None or not self._is_of_the_policy(call):
            return None
        return states_at_the_opening(found.batch, self._whole, self._told)

    def goes_on_with(self, later: PlainRun) -> None:
        """What shows whether a later rollout goes on with the states of the one before it."""
        if self._acting is not None and later._acting is not None:
            for join in later._acting.joins:
                self._acting.joins.append(join.clone().set(LATER_KEY, torch.ones(join.shape)))

    def opens_later_with(self, states: TensorDictBase) -> None:
        """A training batch of a later rollout began inside of an episode, with these."""
        if self._acting is not None:
            self._acting.openings.append(states)

    def _note_given(self, given: TensorDictBase) -> None:
        """What was drawn holds what a pass over all of it was given of each step's predecessor: a
        memory may have paired that with another step."""
        held = None if self._called is None else self._called.inputs[0]
        if held is None or len(given) != len(held) or given.shape[1] < held.shape[1]:
            return
        given = given[:, : held.shape[1]]
        if not torch.equal(given.get(OBSERVATION), held.get(OBSERVATION)):
            return
        there = set(tensor_keys(held)) & set(tensor_keys(given))
        for key in there & self._told.before.keys():
            held.set(key, given.get(key).clone())

    def _is_beside(self, call: PlainCall, found: SeenPass, over: SeenPass) -> bool:
        """Whether fewer parts ran in it, over other steps: a critic alone, on the next ones."""
        own, others = (one.batch.get((OBSERVATION,)) for one in (found, over))
        fewer = len(self._ran_in(call)) < len(self._ran_in(over.call))
        return fewer and not (own.shape == others.shape and torch.equal(own, others))

    def _pass(self, found: SeenPass, policy: PlainPolicy) -> CallPass:
        paths = parts_given(self._call, policy)
        return CallPass(found, {path: policy.get_submodule(path) for path in paths})

    def _acted(self) -> set[int]:
        """The parts of networks that acted, by id: the policy's object may hold others as well."""
        if self._policy is None:
            return set()
        return {
            id(self._policy.get_submodule(path)) for path in parts_given(self._call, self._policy)
        }

    def _is_of_the_policy(self, call: PlainCall) -> bool:
        """Whether a part that acted ran in it, and not those of a copy, a target, alone; nor an
        encoder alone, of which a part that others are run on makes no step's outputs."""
        return bool(self._ran_in(call)) or not (call.parts or self._acted())

    def most_first(self, calls: Iterable[PlainCall]) -> list[PlainCall]:
        """Those in which most of the parts that acted ran: a critic's alone may be over the next
        steps, to value them."""
        return sorted(calls, key=lambda call: -len(self._ran_in(call)))

    def _ran_in(self, call: PlainCall) -> set[int]:
        """The parts that acted and ran in it, by id."""
        return self._acted() & {id(part) for part, _ in call.parts}

    def passed_inside(self, call: PlainCall) -> None:
        """Tell of a call inside one that ``passed``."""
        over = None if self._called is None else self._called.over
        if isinstance(over, CallPass):
            found = seen_pass(call, self._told, self._call, self._whole, self._drawn)
            if found is not None:
                over.calls(found)

    def _of_one_trajectory(self, found: SeenPass) -> bool:
        """Whether a call that gets no start flags got one trajectory out of several, from its first
        step to its last, or one in each row, which zeros follow."""
        if any(one.key in ((FLAG,), DONE) for one in found.steps.values()):
            return False
        whole, own = self._whole, found.batch

        def at(edge: int, key: Key) -> bool:
            """There is a flag at this end of it, or the rollout ends there as well."""
            seen = own.get((OBSERVATION,))[:, edge], whole.get((OBSERVATION,))[:1, edge]
            return bool(own.get(key)[:, edge].all()) or torch.equal(*seen)

        inside = bool(whole.get((FLAG,))[:, 1:].any()), bool(own.get((FLAG,))[:, 1:].any())
        if inside != (True, False):
            return False
        return MASK_OF_ROWS in own.keys(True, True) or (at(0, (FLAG,)) and at(-1, DONE))
