"""What the variables of a sampled batch hold, once it is known which steps they are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.at_arrival import at_arrival, put_late
from rnncheck.watching.forms.carried_along import carried_along
from rnncheck.watching.forms.drawn_rows import drawn_rows
from rnncheck.watching.forms.fewer_bits import with_all_bits
from rnncheck.watching.forms.held_as import ARRAYS, TENSORS, Scale
from rnncheck.watching.forms.laid_rows import LaidRows
from rnncheck.watching.forms.one_hots import set_numbers
from rnncheck.watching.forms.plain_calls import (
    ACTION,
    FLAG,
    MASK_OF_ROWS,
    OBSERVATION,
    OF_STEP_BEFORE,
    ToldCall,
)
from rnncheck.watching.forms.plain_pass import Drawn
from rnncheck.watching.forms.recorded_rows import recorded_steps
from rnncheck.watching.forms.sampled_beside import shown_and_behind, shown_beside
from rnncheck.watching.forms.sampled_entries import (
    END_FLAGS,
    FLAGS,
    REWARD,
    entry_of,
    shows_the_next,
)
from rnncheck.watching.forms.sampled_states import left_behind, state_of_rows, state_of_steps
from rnncheck.watching.forms.storages import (
    HeldPart,
    OfSteps,
    PerRow,
    Reach,
    RowLengths,
    Spoilt,
    Storage,
    ZeroState,
)
from rnncheck.watching.forms.structures import Path

_FEWEST = 2  # steps of a part of a row
_TELLING = {(ACTION,), REWARD, (OBSERVATION,)}  # what is seldom the same somewhere else


@dataclass
class SampledBatch:
    """``batch`` ``[rows, steps]``: what is trained on, begun anew where no state is given with it.
    ``doubts`` are parts with something of each of its steps or rows that nobody knows."""

    batch: TensorDictBase
    parts: dict[Path, HeldPart] = field(default_factory=dict)
    doubts: dict[Path, HeldPart] = field(default_factory=dict)
    from_starts: bool = True
    flagged: bool = False  # start flags are among the parts
    drawn: Drawn | None = None
    observed: Path = ()  # what holds the observations

    @property
    def likeness(self) -> tuple[int, int, int, int]:
        """How much of a step is among the parts, where of flags, which are alike, one counts; how
        few of them are of some steps alone; of how many steps; and with how many flags."""
        few, keys = -sum(isinstance(one, OfSteps) for one in self.parts.values()), self.keys
        kinds = {(FLAG,) if key in (*FLAGS, MASK_OF_ROWS) else key for key in keys}
        return len(kinds), few, self.batch.numel(), len(keys)

    @property
    def keys(self) -> set[Key]:
        """The entries that are among the parts, of all of the steps or of some."""
        parts = (one.part if isinstance(one, OfSteps) else one for one in self.parts.values())
        return {one.key for one in parts if isinstance(one, Storage)}

    @property
    def names(self) -> frozenset[str]:
        """The variables that hold something of every step."""
        parts = self.parts.items()
        held = ((path[0], one) for path, one in parts if not isinstance(one, (ZeroState, OfSteps)))
        return frozenset(name for name, one in held if getattr(one, "at", None) is None)

    @property
    def cut(self) -> frozenset[str]:
        """The variables that hold something of some steps of each row."""
        return frozenset(path[0] for path, one in self.parts.items() if isinstance(one, OfSteps))

    @property
    def openings(self) -> frozenset[str]:
        """The variables that hold what each row begins with."""
        held = ((path[0], one) for path, one in self.parts.items() if isinstance(one, Storage))
        return frozenset(name for name, one in held if one.at == 0 and one.slot is not None)


def begun_anew(batch: TensorDictBase, told: ToldCall) -> TensorDictBase:
    """The batch with every row begun there, with the state that acting begins with."""
    made = batch.clone()
    made.get(FLAG)[:, 0] = True
    for key in told.carry:
        made.get(key)[:, 0] = 0
    return made


@dataclass(frozen=True)
class _Span:
    """So many steps of each row from one on; ``longer``: what the last one led to may follow."""

    begin: int
    count: int
    longer: bool

    def reach(self, steps: int) -> Reach:
        """Of rows of so many ``steps``."""
        return Reach(self.begin, self.count, self.begin + self.count == steps)


@dataclass(frozen=True)
class _Telling:
    """Tells the parts of a batch one after another, out of all that is ``held``."""

    laid: LaidRows
    held: Mapping[Path, Tensor]
    told: ToldCall
    observed: Path
    made: SampledBatch

    def tell(self, path: Path, of_what: str) -> None:
        """What this one holds, if it is something that is known."""
        value, laid = self.held[path], self.laid
        own = self._is_observed(path)
        plain = value.detach().cpu()
        steps = laid.of(laid.without_last(plain) if own else plain)
        if steps is not None and self._of_each_step(path, steps, of_what, own=own):
            return
        part = self._ahead(path, of_what, own=own) if steps is None else None
        part = part or self._of_rows(path, stored=self._stands_with_steps(path))
        part = part or _lengths(value, laid, of_what)
        if part is not None:
            self.made.parts[path] = part
        elif _weighs_rows(value, laid):
            self.made.parts[path] = weights = PerRow(value.detach(), of_what)
            weights.put(self.made.batch)
        elif _of_the_batch(value, laid):
            self.made.doubts[path] = Spoilt(value)

    def _is_observed(self, path: Path) -> bool:
        value, seen = self.held[path], self.held[self.observed]
        same = value.shape == seen.shape and torch.equal(value, seen)
        return same and (path == self.observed or not shows_the_next(path))

    def _stands_with_steps(self, path: Path) -> bool:
        return len(path) > 1 and path[0] == self.observed[0]

    def _entry(self, path: Path, steps: Tensor, own: bool) -> tuple[Key, Scale | None] | None:
        batch = self.made.batch
        if own:
            return (OBSERVATION,), None
        if shows_the_next(path) and steps.shape == batch.get(OBSERVATION).shape:
            return ("next", OBSERVATION), None  # whatever it shows: that is asked
        told = (*self.told.arguments.values(), *self.told.results.values())
        shown = [one.key for one in told if one.key[0] != "next"]
        keys = [(ACTION,), REWARD, *FLAGS, ("next", OBSERVATION), (OBSERVATION,), *shown]
        beside = [key for key in shown_beside(batch) if key not in keys]
        keys += [*beside, *(("next", *key) for key in beside)]
        return entry_of(path, steps, batch, [*keys, MASK_OF_ROWS], self._before)

    @property
    def _before(self) -> dict[Key, Scale | None]:
        slots = {one.key: one.scale for one in self.told.arguments.values()}
        return {key: slots[key] for key in self.told.before if key in slots}

    def _of_each_step(self, path: Path, steps: Tensor, of_what: str, *, own: bool) -> bool:
        """Whether it holds an entry of each step, which the batch has from it then."""
        made, batch, laid = self.made, self.made.batch, self.laid
        if not own and (key := at_arrival(path, steps, laid, batch)) is not None:
            one = _of_steps(self.held[path], (key, None), laid, of_what)
            made.parts[path] = replace(one, late=True, edge=put_late(batch, key, steps))
            return True
        entry = self._entry(path, steps, own)
        if entry is None and self._stands_with_steps(path):
            taken = {one.key for one in made.parts.values() if isinstance(one, Storage)}
            state = state_of_steps(steps, batch, self.told, taken)
            entry = None if state is None else (state, None)
        hot = 0
        if entry is None and not own and (numbers := self._numbers_set(steps)) is not None:
            entry = entry_of(path, numbers, batch, [(ACTION,)], {})
            steps, hot = numbers, int(steps[0, 0].numel())
        if entry is None:
            return False
        key, scale = entry
        if scale is None:
            like = batch.get(key)
            batch.set(key, with_all_bits(steps.reshape(like.shape), like))
        elif key in self.told.before:
            like = batch.get(key)
            as_is = (steps.double() - scale[1]) / scale[0]
            whole = as_is if like.is_floating_point() else as_is.round()
            batch.set(key, whole.reshape(like.shape).to(like.dtype))
        made.flagged = made.flagged or key == (FLAG,)
        made.from_starts = made.from_starts and key not in self.told.carry
        one = _of_steps(self.held[path], entry, laid, of_what)
        made.parts[path] = replace(one, longer=own and laid.longer, hot=hot)
        return True

    def _numbers_set(self, steps: Tensor) -> Tensor | None:
        """Of vectors in which one number is set which one, where actions are numbers."""
        acted, mask = self.made.batch.get((ACTION,), None), self.made.batch.get(MASK_OF_ROWS, None)
        data = None if mask is None else mask.reshape(mask.shape[:2])
        return None if acted is None else set_numbers(steps, acted, data)

    def _ahead(self, path: Path, of_what: str, *, own: bool) -> HeldPart | None:
        """What holds one thing more than there are steps."""
        value, laid, batch = self.held[path], self.laid, self.made.batch
        if along := carried_along(laid.ahead_of_last(value), batch, self.told):
            return replace(_of_steps(value, (along, None), laid, of_what), longer=True)
        shown = laid.ahead_of_last(value)
        entry = None if own or shown is None else self._of_step_before(path, shown)
        if entry is None and not own and shown is not None:
            entry = shown_and_behind(path, value.detach().cpu(), shown, laid, batch)
        if entry is not None:
            return replace(_of_steps(value, entry, laid, of_what), longer=True)
        late = None if own else laid.from_second(value.detach().cpu())
        before = None if late is None else self._entry(path, late, False)
        if before is not None and before[0] in (REWARD, (ACTION,), *END_FLAGS):
            return _one_late(value, before, laid, of_what)
        return None

    def _of_step_before(self, path: Path, steps: Tensor) -> tuple[Key, Scale | None] | None:
        before = self._before
        keys = [key for key in OF_STEP_BEFORE if key in before]
        return entry_of(path, steps, self.made.batch, keys, before)

    def _of_rows(self, path: Path, *, stored: bool) -> HeldPart | None:
        """What holds the state that each row begins with, or that its first step left."""
        value, batch, made = self.held[path], self.made.batch, self.made
        taken = {one.key for one in made.parts.values() if isinstance(one, Storage)}
        slot = state_of_rows(value, batch, self.told, taken, stored=stored)
        if slot is None:
            return _zeros(value, self.laid, self.told)
        left = left_behind(path, self.held, self.told, batch)
        if left is not None:
            return left
        like = batch.get(slot.key)
        like[:, 0] = slot.found(value.detach().cpu()).reshape(like[:, 0].shape).to(like)
        made.from_starts = False
        return Storage(slot.key, tuple(value.shape), value.dtype, at=0, slot=slot)


def told_parts(
    observed: Path,
    laid: LaidRows,
    held: Mapping[Path, Tensor],
    arrays: set[Path],
    whole: TensorDictBase,
    told: ToldCall,
) -> SampledBatch:
    """What all that is ``held`` has of the steps that ``observed`` shows, out of ``whole``;
    ``arrays`` are numpy's."""
    rows = drawn_rows(
        held[observed], laid.found, whole, time_first=laid.time_first or len(laid.lead) == 1
    )
    made = SampledBatch(
        recorded_steps(whole, laid.found, laid.empty), drawn=rows, observed=observed
    )
    telling = _Telling(laid, held, told, observed, made)
    for path in held:
        telling.tell(path, ARRAYS if path in arrays else TENSORS)
    _tell_of_some(telling, arrays)
    for path in _constant_opposites(made, held):
        del made.parts[path]
    if made.from_starts and not made.flagged:
        made.batch = begun_anew(made.batch, told)
    return made


def _tell_of_some(whole: _Telling, arrays: set[Path]) -> None:
    """Variables that hold the same steps of each row alone, such as those behind a burn-in: of the
    ways in which they may lie, that in which most is what was collected."""
    made, laid = whole.made, whole.laid
    for _ in whole.held if len(laid.lead) > 1 else ():
        left = {path: one for path, one in whole.held.items() if path not in made.parts}
        spans = [(span, _of_some(whole, span, left, arrays)) for span in _spans(left, laid)]
        told = [(span, one) for span, one in spans if _TELLING & {p.key for p in one[0].values()}]
        if not told:
            return
        span, (parts, batch) = max(told, key=lambda one: len(one[1][0]))
        reach = span.reach(laid.found.shape[1])
        for path, part in parts.items():
            made.parts[path] = OfSteps(reach, part)
            made.doubts.pop(path, None)
            reach.of(made.batch).get(part.key).copy_(batch.get(part.key))


def _spans(left: Mapping[Path, Tensor], laid: LaidRows) -> set[_Span]:
    """At which steps they may begin and end: at the first, or with the last one of each row."""
    steps, found = laid.found.shape[1], set[_Span]()
    for size in {one.shape[laid.time] for one in left.values() if one.ndim > 1}:
        found |= {_Span(steps - size, size, laid.longer), _Span(0, size, longer=False)}
        found |= {_Span(steps - size + 1, size - 1, longer=True)} if laid.longer else set()
    return {one for one in found if _FEWEST <= one.count < steps}


def _of_some(
    whole: _Telling, span: _Span, left: Mapping[Path, Tensor], arrays: set[Path]
) -> tuple[dict[Path, Storage], TensorDictBase]:
    """What is left that holds an entry of each of these steps, which the batch has from it."""
    laid, sizes = whole.laid, (span.count, span.count + span.longer)
    inside = {
        path: one
        for path, one in left.items()
        if one.ndim > 1 and one.shape[laid.time] in sizes and len(laid.found) in one.shape[:2]
    }
    shown = whole.held[whole.observed].narrow(laid.time, span.begin, sizes[1])
    made = SampledBatch(whole.made.batch[:, span.begin : span.begin + span.count].clone())
    own = laid.part(span.begin, span.count, longer=span.longer)
    telling = _Telling(own, {**inside, whole.observed: shown}, whole.told, whole.observed, made)
    for path in inside:
        telling.tell(path, ARRAYS if path in arrays else TENSORS)
    parts = made.parts.items()
    found = {path: one for path, one in parts if isinstance(one, Storage) and one.at is None}
    return found, made.batch


def _constant_opposites(made: SampledBatch, held: Mapping[Path, Tensor]) -> list[Path]:
    """What is one throughout, and no opposite of a flag that another part holds as it is: a mask of
    rows that are all as long says nothing of their ends."""
    flags = {
        path: one
        for path, one in made.parts.items()
        if isinstance(one, Storage) and one.key in FLAGS and one.at is None
    }
    plain = {one.key for one in flags.values() if one.scale is None}
    turned = (path for path, one in flags.items() if one.scale is not None and one.key in plain)
    return [path for path in turned if bool((held[path] == held[path].flatten()[0]).all())]


def _one_late(
    value: Tensor, entry: tuple[Key, Scale | None], laid: LaidRows, of_what: str
) -> Storage:
    """What holds at each step what the one before it had; what stands at the first is alike in all
    rows."""
    first = value.detach().cpu().select(0 if laid.time_first or len(laid.lead) == 1 else 1, 0)
    edge = tuple((first if len(laid.lead) == 1 else first[0]).double().flatten().tolist())
    return replace(_of_steps(value, entry, laid, of_what), longer=True, late=True, edge=edge)


def _of_steps(
    value: Tensor, entry: tuple[Key, Scale | None], laid: LaidRows, of_what: str
) -> Storage:
    """What holds an entry of each step."""
    return Storage(
        entry[0],
        tuple(value.shape),
        value.dtype,
        of_what=of_what,
        rows_first=len(laid.lead) == 2 and not laid.time_first,
        scale=entry[1],
        rows=len(laid.found),
    )


def _zeros(value: Tensor, laid: LaidRows, told: ToldCall) -> ZeroState | None:
    """What holds zeros for the states that rows begin with."""
    for slot in told.carry.values() if not bool(value.any()) else ():
        if slot.axis is not None and value.ndim == len(slot.rest) + 1:
            shape = (*slot.rest[: slot.axis], len(laid.found), *slot.rest[slot.axis :])
            if tuple(value.shape) == shape:
                return ZeroState(slot)
    return None


def _lengths(value: Tensor, laid: LaidRows, of_what: str) -> RowLengths | None:
    """What holds how many steps of each row are data, or how many observations."""
    rows = len(laid.found)
    if rows < 2 or value.numel() != rows or value.is_floating_point() or value.dtype == torch.bool:
        return None
    more = (value.detach().cpu().flatten() - (~laid.empty).sum(1)).unique().tolist()
    if len(more) != 1 or more[0] not in (0, 1):
        return None
    return RowLengths(tuple(value.shape), value.dtype, int(more[0]), of_what)


def _weighs_rows(value: Tensor, laid: LaidRows) -> bool:
    """Whether it is one number for each row, of which the largest is one, as the weights of a
    prioritised memory are."""
    rows = len(laid.found)
    if rows < 2 or value.numel() != rows or not value.is_floating_point() or value.requires_grad:
        return False
    return bool((value > 0).all()) and float(value.max()) == 1


def _of_the_batch(value: Tensor, laid: LaidRows) -> bool:
    """Whether it has something of each step or row."""
    rows, steps = laid.found.shape[:2]
    sizes = {rows * steps, *([rows] if rows > 1 else []), *([steps] if rows == 1 else [])}
    own = isinstance(value, torch.nn.Parameter)
    return not own and value.ndim > 0 and value.shape[0] in sizes
