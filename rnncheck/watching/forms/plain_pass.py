"""The call of a user's function on a training batch of tensors, as a pass over sequences."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.keys import Key, tensor_items
from rnncheck.pipeline.placing import on_cpu, place_of, placed
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.watching.forms.along_rows import beside_known
from rnncheck.watching.forms.entries_read import is_unread
from rnncheck.watching.forms.fewer_bits import ObservedSteps, in_bits_of
from rnncheck.watching.forms.graphed_arrays import graph_at_arrays
from rnncheck.watching.forms.held_as import (
    SCALE_CLOSE,
    TENSORS,
    Scale,
    gathered,
    handed,
    is_shifted_mask,
    lists_in,
    scale_of,
)
from rnncheck.watching.forms.one_step import names_a_reward, names_a_start, names_an_end
from rnncheck.watching.forms.part_outputs import PartOutputs, over_steps, own_calls, part_key
from rnncheck.watching.forms.pass_rows import along_the_rows, leading
from rnncheck.watching.forms.pass_states import states_given
from rnncheck.watching.forms.plain_calls import (
    ACTION_BEFORE,
    ENDS,
    FLAG,
    MASK_OF_ROWS,
    MOSTLY,
    OBSERVATION,
    OF_STEP_BEFORE,
    OWNER,
    REWARD_BEFORE,
    PlainCall,
    Slot,
    ToldCall,
    held_states,
    run_call,
)
from rnncheck.watching.forms.recorded_rows import behind_ends, recorded_steps
from rnncheck.watching.forms.structures import Path, leaves_in
from rnncheck.watching.forms.time_axis import in_a_row, prints

AsKey = tuple[Key, Scale | None]
# What the steps of rows out of a memory showed, ``[rows, steps or one more, ...]``, and where each
# was acted on, ``[rows, steps or one more, 2]``.
Drawn = tuple[Tensor, Tensor]
_ENDED: tuple[Key, ...] = tuple(("next", one) for one in ("done", *ENDS[:2]))
_FLAGS = {*_ENDED, (FLAG,)}


@dataclass(frozen=True)
class Spread:
    """Entry ``key`` of all steps of a batch; flat where ``lead`` has one dimension."""

    key: Key
    flat: bool
    rest: tuple[int, ...]
    dtype: torch.dtype
    of_what: str = TENSORS
    listed: bool = False
    scale: Scale | None = None  # a and b of a x + b: a mask is the opposite of a flag

    def given(self, value: Tensor, *, time_first: bool) -> Any:
        """``[rows, steps, ...]`` as the function wants it."""
        if self.scale is not None:
            value = value.double() * self.scale[0] + self.scale[1]
        kind = torch.get_default_dtype() if self.dtype == torch.float32 else self.dtype
        whole = value.reshape(*value.shape[:2], *self.rest).to(kind)
        whole = whole.transpose(0, 1) if time_first else whole
        laid = whole.flatten(0, 1) if self.flat else whole.contiguous()
        return handed(laid, self.of_what, listed=self.listed)


@dataclass(frozen=True)
class SeenPass:
    """What was told of a call on a training batch: each leaf of its arguments, and the batch that
    they make, ``[rows, steps]``. ``lengths`` are numbers among them that say how many steps."""

    call: PlainCall
    steps: dict[Path, Spread]
    states: dict[Path, Slot]
    time_first: bool
    batch: TensorDictBase
    lengths: tuple[Path, ...] = ()
    nones: tuple[Path, ...] = ()  # states that its owner did not have yet


@dataclass(frozen=True)
class GivenTensors:
    """The tensors of a call's arguments, those gathered from its lists among them."""

    tensors: dict[Path, Tensor]
    gathered: dict[Path, str]  # of what a list is
    listed: frozenset[Path]

    @classmethod
    def of(cls, arguments: Any) -> GivenTensors:
        """Every leaf that is a tensor or a list that one can be made of."""
        leaves = leaves_in(arguments)
        tensors = {path: on_cpu(leaf) for path, leaf in leaves if isinstance(leaf, Tensor)}
        lists = dict(lists_in(arguments))
        made = {path: gathered(value) for path, value in lists.items()}
        tensors |= {path: value for path, (value, _) in made.items() if value is not None}
        listed = {path for path, one in lists.items() if isinstance(one, (list, tuple, deque))}
        return cls(tensors, {path: what for path, (_, what) in made.items()}, frozenset(listed))

    def as_given(self, path: Path, slot: Slot) -> Slot:
        """A state in the form that it has here: acting may get it in another, such as an array."""
        of_what = self.gathered.get(path, TENSORS)
        return replace(slot, of_what=of_what, listed=path in self.listed)


@dataclass(frozen=True)
class LaidSteps:
    """How ``found``, the places of a call's observations among the acted steps, lies in rows and
    steps; ``lead`` are the dimensions ahead of what one step holds."""

    found: Tensor
    lead: tuple[int, ...]
    rows: int
    span: int

    @property
    def time_first(self) -> bool:
        """Of both orders that fit the one in which more steps follow each other."""
        grids = {True: (self.span, self.rows), False: (self.rows, self.span)}
        scores = {
            first: in_a_row(self.found.reshape(*grid, 2), 0 if first else 1)
            for first, grid in grids.items()
        }
        fitting = [one for one, grid in grids.items() if self.flat or self.lead[:2] == grid]
        return max(fitting or grids, key=lambda first: scores[first])

    @property
    def flat(self) -> bool:
        """Whether rows and steps lie in one dimension."""
        return len(self.lead) == 1

    def laid(self, value: Tensor, rest: tuple[int, ...], *, time_first: bool) -> Tensor:
        """As ``[rows, steps, *rest]``."""
        if time_first:
            return value.reshape(self.span, self.rows, *rest).transpose(0, 1)
        return value.reshape(self.rows, self.span, *rest)


def seen_pass(
    call: PlainCall,
    told: ToldCall,
    acting: PlainCall,
    acted: TensorDictBase,
    drawn: Drawn | None = None,
) -> SeenPass | None:
    """None where it is no call on steps that were acted on, ``acted`` ``[rows, steps]``, or that
    were ``drawn`` of these."""
    held = held_states(call)
    given = GivenTensors.of({**call.arguments, OWNER: held})
    same = call.code is acting.code
    known = {path: slot for path, slot in told.arguments.items() if same and path in given.tensors}
    as_keys: dict[Path, AsKey] = {path: (slot.key, slot.scale) for path, slot in known.items()}
    observed, found = _observed(given.tensors, acted, drawn)
    if observed is None:
        there = drawn is None  # else there may be steps that were collected later
        observed, found = along_the_rows(given.tensors, told, acted, all_there=there)
    if observed is None or found is None:
        return None
    states = states_given(given.tensors, known, told, observed, (acted, found))
    states = {p: slot if p in known else given.as_given(p, slot) for p, slot in states.items()}
    steps = _steps(given.tensors, states, observed, found, acted)
    if steps is None:
        return None
    time_first = steps.time_first
    batch = _recorded(acted, given.tensors[observed], steps, time_first=time_first)
    as_keys[observed] = (OBSERVATION,), None
    spreads = dict[Path, Spread]()
    for path in sorted(given.tensors, key=lambda path: not _names_a_flag(path)):
        if path not in states:
            as_key, value = as_keys.get(path), given.tensors[path]
            told_as = as_key, {one.key for one in spreads.values()} & _FLAGS
            spread = _spread(path, value, given, steps, batch, told_as, time_first=time_first)
            spreads |= {path: spread} if spread is not None else {}
    for path, slot in states.items():
        stored = batch.get(slot.key).clone()
        stored[:, 0] = slot.found(given.tensors[path])
        batch.set(slot.key, stored)
    each = _gives_each_step(call, len(steps.found))
    left = [
        one
        for path, one in given.tensors.items()
        if path not in {**spreads, **states} and not (each and is_unread(call, path))
    ]
    if any(_of_the_batch(value, steps.rows, steps.span) for value in left):
        return None  # it is given more of these steps than anyone could change: a loss, no pass
    lengths = tuple(_lengths(call.arguments, steps))
    nones = tuple((OWNER, *path) for path, one in leaves_in(held) if one is None)
    return SeenPass(call, spreads, states, time_first, batch, lengths, nones)


def _gives_each_step(call: PlainCall, count: int) -> bool:
    """Whether it gives something of each of the steps: a loss gives numbers of all of them."""
    tensors = (one for _, one in leaves_in(call.result) if isinstance(one, Tensor))
    return any(one.numel() >= count for one in tensors)


def _lengths(arguments: Any, steps: LaidSteps) -> Iterator[Path]:
    """Ways to plain numbers that are as many as there are steps in a row."""
    for path, leaf in leaves_in(arguments):
        if type(leaf) is int and leaf == steps.span != steps.rows:
            yield path


def _recorded(
    acted: TensorDictBase, observed: Tensor, steps: LaidSteps, *, time_first: bool
) -> TensorDictBase:
    """What was collected at the steps, nothing at zeros behind the ends of rows."""
    width = acted.get(OBSERVATION)[0, 0].numel()
    seen = steps.laid(observed.reshape(-1, width), (width,), time_first=time_first)
    found = steps.laid(steps.found, (2,), time_first=time_first)
    found = beside_known(found, seen, in_bits_of(seen, acted.get(OBSERVATION)).detach().cpu())
    return recorded_steps(acted, found, behind_ends((seen != 0).any(-1) | (found[..., 0] >= 0)))


def _observed(
    tensors: Mapping[Path, Tensor], acted: TensorDictBase, drawn: Drawn | None
) -> tuple[Path | None, Tensor | None]:
    """The argument that holds observations of acted steps, and where each was acted on."""
    width = acted.get(OBSERVATION)[0, 0].numel()
    observed = ObservedSteps(acted)
    fitting = {k: v for k, v in tensors.items() if v.numel() % width == 0 and v.numel() > width}
    for path, value in fitting.items():
        seen, places = observed.like(value)
        like = value.reshape(-1, width).to(seen.dtype)
        at = torch.tensor([places.get(one, (-1, -1)) for one in prints(like)])
        told = (like != 0).any(1) | (at[:, 0] >= 0)  # zeros may be behind the end of a row
        if bool(told.any()) and float((at[told, 0] >= 0).double().mean()) >= MOSTLY:
            return path, at
        if (among := next(iter(() if drawn is None else _among(value, drawn)), None)) is not None:
            return path, among
    return None, None


def _among(value: Tensor, drawn: Drawn) -> Iterator[Tensor]:
    """The same where the argument holds some of the steps in a row of what was drawn."""
    shown, found = drawn
    lead = leading(value, shown.shape[2:])
    for time_first in (False, True) if len(lead) == 2 else ():
        laid = value.reshape(*lead, -1).to(shown.dtype)
        laid = laid.transpose(0, 1) if time_first else laid
        steps = laid.shape[1]
        for begin in range(shown.shape[1] - steps + 1 if len(laid) == len(shown) else 0):
            if torch.equal(laid, shown[:, begin : begin + steps]):
                rows = found[:, begin : begin + steps]
                yield (rows.transpose(0, 1) if time_first else rows).flatten(0, 1)


def _steps(
    tensors: Mapping[Path, Tensor],
    states: Mapping[Path, Slot],
    observed: Path,
    found: Tensor,
    acted: TensorDictBase,
) -> LaidSteps | None:
    """None where rows are not equally long, or of one step: a loop over steps, no function."""
    lead = leading(tensors[observed], acted.get(OBSERVATION).shape[2:])
    if states:
        path, slot = next(iter(states.items()))
        rows = tensors[path].shape[slot.axis] if slot.axis is not None else 1
    else:
        rows = acted.shape[0] if len(lead) == 1 else lead[_other(found, lead)]
    if len(found) % rows or len(found) // rows < 2:
        return None
    return LaidSteps(found, lead, rows, len(found) // rows)


def _spread(
    path: Path,
    value: Tensor,
    given: GivenTensors,
    steps: LaidSteps,
    batch: TensorDictBase,
    told_as: tuple[AsKey | None, set[Key]],
    *,
    time_first: bool,
) -> Spread | None:
    """The entry of ``batch`` that an argument holds, which is set there as it was given: one that
    was told, or one of those of which no other argument has been."""
    grid = (steps.span, steps.rows) if time_first else (steps.rows, steps.span)
    flat = value.shape[:2] != (grid if steps.flat else steps.lead[:2])
    if flat and value.shape[:1] != (len(steps.found),):
        return None
    rest = tuple(value.shape[1 if flat else 2 :])
    laid = steps.laid(value, rest, time_first=time_first)
    key, scale = told_as[0] or _key_of(path, laid, batch, told_as[1])
    if key is None:
        return None
    like = batch.get(key)
    held = laid if scale is None else (laid.double() - scale[1]) / scale[0]
    batch.set(key, held.reshape(like.shape).to(like.dtype))
    of_what = given.gathered.get(path, TENSORS)
    return Spread(key, flat, rest, value.dtype, of_what, path in given.listed, scale)


def _of_the_batch(value: Tensor, rows: int, steps: int) -> bool:
    """Whether it has the form of something of each step, or of each of several rows."""
    sizes = {steps, steps + 1, rows * steps, *([rows] if rows > 1 else [])}
    return value.ndim > 0 and value.numel() > 1 and bool(sizes & set(value.shape[:2]))


def _other(found: Tensor, lead: tuple[int, ...]) -> int:
    """Of two dimensions the one that is no time."""
    grid = found.reshape(*lead[:2], -1, 2)[:, :, 0]
    return 1 if in_a_row(grid, 0) > in_a_row(grid, 1) else 0


def _key_of(
    path: Path, laid: Tensor, batch: TensorDictBase, taken: set[Key]
) -> tuple[Key | None, Scale | None]:
    """The entry of the batch that the argument holds, is the opposite of or a multiple of: the one
    most like it. One that is always alike tells nothing, unless it is the same,
    nor does a flag that is ``taken``, of which another argument was."""
    mine = laid.reshape(*batch.shape, -1)
    best = False, False, False, MOSTLY, False, False
    flat = float((mine == mine.flatten().mode().values).double().mean()) > MOSTLY
    found: tuple[Key | None, Scale | None] = (None, None)
    for key, value in tensor_items(batch):
        theirs = value.reshape(*batch.shape, -1)
        if mine.shape != theirs.shape:
            continue
        alike = bool((theirs == theirs.flatten()[0]).all())
        for scale in _scales(key, mine, theirs):
            wanted = theirs if scale is None else theirs.double() * scale[0] + scale[1]
            near = (mine.double() - wanted.double()).abs() <= SCALE_CLOSE * wanted.double().abs()
            share = float(near.double().mean())
            # Where rewards are all alike, what acting was shown of the step before comes first.
            shown, named = key in OF_STEP_BEFORE, _is_named(path, key)
            first = flat and key == REWARD_BEFORE and share > MOSTLY
            one = share == 1, named, first, share, shown, scale is None
            if (share == 1 or not (alike or key in taken)) and one > best:
                best, found = one, (key, scale)
    return found


def _names_a_flag(path: Path) -> bool:
    """Such are told first: a reward that is 1, or 0, may be like a flag as well."""
    return names_a_start(path) or names_an_end(path)


def _is_named(path: Path, key: Key) -> bool:
    """Tells a flag of first steps from one of last steps, which may be as much alike: a log may
    have a frame behind each."""
    if names_a_start(path):
        return key == (FLAG,)
    if names_a_reward(path):
        return key in (REWARD_BEFORE, ("next", "reward"))
    return names_an_end(path) and key in _ENDED


def _scales(key: Key, mine: Tensor, theirs: Tensor) -> list[Scale | None]:
    """What it may be multiplied with: a reward with anything, a flag with -1."""
    if theirs.dtype == torch.bool:
        return [None, (-1.0, 1.0)]
    number = not theirs.is_floating_point()
    if key not in (("next", "reward"), REWARD_BEFORE) and not (key == ACTION_BEFORE and number):
        return [None]
    scale = scale_of(mine, theirs)
    return [None] if is_shifted_mask(mine, scale) else [None, scale]


def _alike(given: Mapping[Key, Tensor] | None, other: Mapping[Key, Tensor] | None) -> bool:
    if given is None or other is None or given.keys() != other.keys():
        return False
    return all(torch.allclose(value, other[key], 1e-4, 1e-5) for key, value in given.items())


class CallPass:
    """Calls the function on a batch: the pass is what parts of the policy give meanwhile."""

    of_the_loss = True  # it is what the loss calls

    def __init__(self, seen: SeenPass, parts: Mapping[str, nn.Module]) -> None:
        self.seen, self.parts = seen, dict(parts)
        self._inside = list[SeenPass]()
        self._own: dict[str, slice] | None = None  # of each part's calls those on the steps

    def calls(self, inner: SeenPass) -> None:
        """The function calls another one on the same steps, which may be the pass by itself."""
        if inner.batch.shape == self.seen.batch.shape and torch.equal(
            inner.batch.get(OBSERVATION), self.seen.batch.get(OBSERVATION)
        ):
            self._inside.append(inner)

    def settled(self) -> CallPass:
        """The same as the innermost call in which all parts give what they do here: what stands
        around it, such as returns, may be written for as many steps as the script has."""
        inside, self._inside = self._inside, []
        with measuring(recurrent=None):
            given = self._tried() if inside else None
            for inner in inside if given is not None else ():
                other = CallPass(inner, self.parts)
                if _alike(given, other._tried()):
                    self.seen = inner
                    break
        return self

    def _tried(self) -> dict[Key, Tensor] | None:
        try:
            return self(self.seen.batch)
        except Exception:  # the user's function may raise anything
            return None

    def __call__(self, batch: TensorDictBase) -> dict[Key, Tensor]:
        """By key, what each part gives at every step of ``batch`` ``[rows, steps]``. A call that
        was seen on one row alone gets one row after the other: it may be made for one env."""
        if self._own is None:
            self._own = self._calls_on_steps()
        if len(self.seen.batch) > 1 or len(batch) == 1:
            return self._at_once(batch)
        rows = [self._at_once(batch[n : n + 1]) for n in range(len(batch))]
        return {key: torch.cat([one[key] for one in rows]) for key in rows[0]}

    def _at_once(self, batch: TensorDictBase) -> dict[Key, Tensor]:
        rows, steps = batch.shape
        found, own, time_first = {}, self._own or {}, self.seen.time_first
        for part, every in self._noted(batch).items():
            outputs = every[own.get(part, slice(None))]
            laid = over_steps(outputs, rows, steps, time_first=time_first)
            if laid is None:  # over what was observed behind the steps as well
                laid = over_steps(outputs, rows, steps + 1, time_first=time_first)
            if laid is not None:
                found[part_key(part)] = placed(laid[:, :steps], place_of(batch))
        if not found:
            raise RuntimeError("no part of the policy gave anything for each step of the batch")
        return found

    def _noted(self, batch: TensorDictBase) -> dict[str, list[Tensor]]:
        """What each part gives, call by call."""
        seen, given = self.seen, dict(tensor_items(batch))
        values = {
            path: one.given(self._entry(one.key, given, batch), time_first=seen.time_first)
            for path, one in seen.steps.items()
        }
        for path, slot in seen.states.items():
            values[path] = slot.given(self._entry(slot.key, given, batch)[:, 0])
        values |= dict.fromkeys(seen.lengths, batch.shape[1]) | dict.fromkeys(seen.nones)
        held = ((one.key, one.of_what) for one in seen.steps.values())
        with PartOutputs(self.parts) as noted, graph_at_arrays(batch, held):
            run_call(seen.call, values)
        return noted.given

    def _calls_on_steps(self) -> dict[str, slice]:
        """Of each part's calls those on the steps, told by what was recorded at them."""
        batch, first = self.seen.batch, self.seen.time_first
        with torch.no_grad():
            noted = self._noted(batch)
        return {
            part: own_calls(calls, batch.get(part_key(part), None), *batch.shape, time_first=first)
            for part, calls in noted.items()
        }

    def held_parts(self) -> list[tuple[str, Any]]:
        """What it can reach."""
        return [("function", self.seen.call.function), *self.parts.items()]

    def _entry(self, key: Key, given: Mapping[Key, Tensor], batch: TensorDictBase) -> Tensor:
        """The entry of the batch; one that it lacks, such as actions, is lent by the script's."""
        if key in given:
            return given[key]
        lent: Tensor = self.seen.batch.get(key).flatten(0, 1)
        if key == MASK_OF_ROWS:  # all of these steps are data
            lent = torch.ones_like(lent)
        index = torch.arange(batch.numel()) % len(lent)
        return lent[index.to(lent.device)].reshape(*batch.shape, *lent.shape[1:])
