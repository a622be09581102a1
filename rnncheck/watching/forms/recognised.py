"""Which of a script's variables hold collected steps, by what is in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import REWARD_ADDED, Key, tensor_items, tensor_keys
from rnncheck.watching.forms.added_rewards import added_to_rewards, cut_alone
from rnncheck.watching.forms.episode_numbers import numbers_of_episodes
from rnncheck.watching.forms.held_as import (
    ARRAYS,
    MANY,
    NUMBERS,
    SCALE_CLOSE,
    TENSORS,
    Scale,
    gathered,
    scale_of,
)
from rnncheck.watching.forms.last_calls import is_behind_the_last, keys_behind_the_last
from rnncheck.watching.forms.left_states import begins_with_its_state, left_states
from rnncheck.watching.forms.log_probs import close, is_derived
from rnncheck.watching.forms.one_step import (
    GIVEN,
    OPPOSITE,
    OVER,
    is_equal_there,
    last_step,
    names_an_end,
    same_of_rows,
    told_of_last,
)
from rnncheck.watching.forms.plain_calls import FLAG, ToldCall, leaf_tensor
from rnncheck.watching.forms.returns_made import returns_made, returns_named
from rnncheck.watching.forms.row_records import last_records, row_records
from rnncheck.watching.forms.shown_entries import shown_keys
from rnncheck.watching.forms.storages import (
    DONE,
    HeldPart,
    OfEpisode,
    OfNumbers,
    PieceStates,
    Reach,
    Records,
    RowRecords,
    Spoilt,
    Storage,
    Tail,
    anew,
    behind,
    spoilt,
)
from rnncheck.watching.forms.stretches import episode_lists
from rnncheck.watching.forms.structures import (
    Path,
    filled,
    holdings,
    leaves_in,
    records,
    sequence_like,
    walked,
)
from rnncheck.watching.forms.weights_apart import are_weights, weight_shapes_in
from rnncheck.watching.seams.frames import is_tensordict

_EPISODE = "episode"  # by which name one is looked into
_WIDEST = 4096  # numbers of one step that are kept beside a column: a state, not a picture


@dataclass
class Storages:
    """``parts`` by the way there, from a variable's name on; ``doubts`` are other parts that hold
    something of every step, spoilt: nobody knows what they are."""

    parts: dict[Path, HeldPart] = field(default_factory=dict)
    doubts: dict[Path, HeldPart] = field(default_factory=dict)

    @property
    def graphed(self) -> bool:
        """Whether some of it has a graph that acting made."""
        return any(one.graphed for one in self.parts.values())

    @property
    def of_a_memory(self) -> bool:
        """Whether what nobody knows is one of the things in a list: of several episodes, say."""
        return any(name.isdigit() for path in self.doubts for name in path[1:])

    @property
    def episodes(self) -> set[str]:
        """The variables that have lists with one thing for each episode."""
        return {path[0] for path, one in self.parts.items() if isinstance(one, OfEpisode)}

    @property
    def keys(self) -> set[Key]:
        """The entries that are held."""
        found = set[Key]()
        for one in self.parts.values():
            one = one.part if isinstance(one, OfEpisode) else one
            held = one.columns.values() if isinstance(one, (Records, RowRecords)) else [one]
            held = [one.steps] if isinstance(one, Tail) else held
            found |= {part.key for part in held if isinstance(part, Storage)}
        return found


def storages_in(
    names: Mapping[str, Any], batch: TensorDictBase, told: ToldCall, stepped: frozenset[str]
) -> Storages:
    """The variables that hold what was collected; those ``stepped`` were bound where the env was
    stepped, so that a plain number among them may be the last step's."""
    found = Storages()
    lists, networks = episode_lists(names, batch), weight_shapes_in(names.values())
    for path, reaches in lists.items():
        for number, reach in enumerate(reaches):
            _note_stretch(found, (*path, str(number)), _at(names, path)[number], reach, batch, told)

    def looks(path: Path, value: Any) -> bool:
        if path in lists or (isinstance(value, np.ndarray) and value.dtype == object):
            return True  # or of things of any form
        if isinstance(value, (Tensor, np.ndarray)) and 0 in value.shape:
            return True
        if are_weights(value, networks):
            return True
        if _of_every_step(value, batch):
            if not _note(found, path, value, batch) and not _goes_on_evenly(value):
                one = _of_one_step(path, value, batch, told)  # a state as wide as there are steps
                if one is not None:
                    found.parts[path] = one
                else:
                    kept = list(value) if isinstance(value, list) else value  # which it may empty
                    found.doubts[path] = Spoilt(kept)
            return True
        if (of_rows := _last_of_rows(value, batch)) is not None:
            found.parts[path] = of_rows
            return True
        if isinstance(value, (list, deque)) and len(value) > batch.shape[1]:
            _note_tail(found, path, value, batch)
            return True
        numbers = isinstance(value, (bool, int, float))
        if numbers and path[0] not in stepped:
            return True
        if not numbers and not isinstance(value, (Tensor, np.ndarray)):
            return False
        one = _of_one_step(path, value, batch, told, _begins_at(names, path, batch))
        part = one or _of_pieces(value, batch, told)
        if part is not None:
            found.parts[path] = part
        elif not numbers and (_of_every_row(value, batch) or _like_a_state(value, told)):
            found.doubts[path] = Spoilt(value)
        return True

    for name, value in names.items():
        walked(value, looks, (name,))
    items = {path: [_at(names, path)[n] for n in range(len(one))] for path, one in lists.items()}
    for path, value in numbers_of_episodes(names, items):
        if path not in found.parts:
            found.doubts[path] = OfNumbers(value)
    return found


def _at(names: Mapping[str, Any], path: Path) -> Any:
    value = names[path[0]]
    for name in path[1:]:
        value = holdings(value)[name]
    return value


def _note_stretch(
    found: Storages, path: Path, item: Any, reach: Reach, batch: TensorDictBase, told: ToldCall
) -> None:
    """What is of an episode, as what is of a rollout that has no other steps."""
    own_steps = reach.of(batch)
    inner = storages_in({_EPISODE: item}, own_steps, told, frozenset())
    if (more := own_steps.get(REWARD_ADDED, None)) is not None:
        _add(batch, reach, more)
    for returns in filter(None, map(returns_named, tensor_keys(own_steps))):
        batch.set(returns.key, returns.of(batch))

    def untold(way: Path, value: Any) -> bool:
        """Of a short episode too: what is not known is not held to be always the same."""
        if way in inner.parts or not _of_every_step(value, own_steps):
            return way in inner.parts
        whole = value if isinstance(value, Tensor) else gathered(value)[0]
        if whole is not None and not _goes_on_evenly(value):
            inner.doubts.setdefault(way, Spoilt(value))
        return True

    walked(item, untold, (_EPISODE,))
    for parts, own in ((inner.parts, found.parts), (inner.doubts, found.doubts)):
        for way, part in parts.items():
            if isinstance(part, (Storage, Records, RowRecords, Spoilt)):
                own[(*path, *way[1:])] = OfEpisode(reach, part)


def _add(batch: TensorDictBase, reach: Reach, more: Tensor) -> None:
    whole = batch.get(REWARD_ADDED, None)
    whole = torch.zeros_like(batch.get(("next", "reward"))) if whole is None else whole.clone()
    whole[:, reach.begin : reach.begin + reach.length] = more
    batch.set(REWARD_ADDED, whole)


def _of_every_step(value: Any, batch: TensorDictBase) -> bool:
    """Whether it has as many things as there are steps, or one more."""
    rows, steps = batch.shape
    if isinstance(value, (list, tuple, deque)):
        return len(value) in (steps, steps + 1)
    if not isinstance(value, (Tensor, np.ndarray)) or value.ndim == 0:
        return False
    first = value.shape[0] in (steps, steps + 1)
    return first or (value.ndim > 1 and value.shape[0] == rows and value.shape[1] - steps in (0, 1))


def _of_every_row(value: Tensor | np.ndarray[Any, Any], batch: TensorDictBase) -> bool:
    """Whether it is one number for each of several envs, such as a value behind the last step."""
    rows, shape = batch.shape[0], tuple(value.shape)
    data = _floats(value) and not isinstance(value, torch.nn.Parameter)
    return rows > 1 and data and int(np.prod(shape)) == rows and rows in shape


def _like_a_state(value: Tensor | np.ndarray[Any, Any], told: ToldCall) -> bool:
    """Whether it has the form of a state of several envs, and is none that was seen."""
    forms = [
        (*one.rest[: one.axis], told.rows, *one.rest[one.axis :])
        for one in told.carry.values()
        if one.axis is not None and told.rows > 1
    ]
    changes = value.shape != () and bool((value != value.reshape(-1)[0]).any())
    return tuple(value.shape) in forms and changes and not isinstance(value, torch.nn.Parameter)


def _floats(value: Tensor | np.ndarray[Any, Any]) -> bool:
    if isinstance(value, Tensor):
        return value.is_floating_point()
    return bool(np.issubdtype(value.dtype, np.floating))


def _note(found: Storages, path: Path, value: Any, batch: TensorDictBase) -> bool:
    """Whether what it holds is known, or there are too few steps to tell."""
    listed = isinstance(value, (list, tuple, deque))
    whole, of_what = (value, TENSORS) if isinstance(value, Tensor) else gathered(value)
    if whole is None:
        return listed and _note_records(found, path, value, batch)
    one = _of_all_steps(path, whole, batch)
    if one is not None:
        found.parts[path] = replace(one, listed=listed, of_what=of_what)
        if one.edge is not None and not one.late:
            spoilt = tuple(float("nan") for _ in one.edge)
            found.doubts[path] = replace(one, listed=listed, of_what=of_what, edge=spoilt)
    return one is not None or batch.shape[1] < MANY


def _note_records(found: Storages, path: Path, items: Any, batch: TensorDictBase) -> bool:
    """The same of a list of records, column by column, or of a list of one for each env; one of
    other things is none of ours."""
    of_rows = row_records(items, batch.shape[0], lambda name, one: _of_all_steps(name, one, batch))
    if of_rows is not None:
        found.parts[path] = of_rows
        return True
    told = [dict(leaves_in(one)) if records(one) else {} for one in items]
    names = [name for name in told[0] if all(name in one for one in told)]
    loose = not all(map(is_tensordict, items))  # entries of a tensordict come in any order
    if not names or (loose and any(list(one) != names for one in told)):
        return not any(leaf_tensor(value) is not None for one in told for value in one.values())
    columns, unknown = dict[Path, Storage](), dict[Path, Any]()
    for name in names:
        whole, of_what = gathered([one[name] for one in told])
        one = None if whole is None else _of_all_steps((*path, *name), whole, batch)
        if one is not None and not one.longer:
            columns[name] = replace(one, listed=True, of_what=of_what)
        elif whole is not None and not _stays_or_goes_on(whole):
            unknown[name] = spoilt(told[0][name])
    if columns:
        found.parts[path] = Records(columns, sequence_like(items, [items[0]]))
        if unknown:
            other = filled(items[0], unknown)
            found.doubts[path] = Records(columns, sequence_like(items, [other]))
    return bool(columns) or not unknown


def _stays_or_goes_on(value: Tensor) -> bool:
    """Whether it is always the same, as nothing that steps hold, or a row of numbers."""
    return bool((value == value[:1]).all()) or _goes_on_evenly(value)


def _last_of_rows(value: Any, batch: TensorDictBase) -> RowRecords | None:
    """A record for each env of what it showed last."""
    shown = [("next", *key) for key in shown_keys(batch)]

    def told(_name: Path, whole: Tensor) -> Storage | None:
        return last_step(whole[0], batch, tuple(shown), ARRAYS)

    return last_records(value, batch.shape[0], told)


def _note_tail(found: Storages, path: Path, value: Any, batch: TensorDictBase) -> None:
    """Of a list that is longer the last steps, if these are what the env gave. One of what it
    showed, or of records, is a memory that is drawn from: that is not known."""
    steps = batch.shape[1]
    items, inner = list(value), Storages()
    _note(inner, path, items[-steps:], batch)
    one = inner.parts.get(path)
    if isinstance(one, Storage) and one.key in GIVEN and not one.late:
        before = sequence_like(value, items[:-steps])
        found.parts[path] = Tail(before, one)
    elif one is not None:
        found.doubts[path] = Spoilt(items)


def _goes_on_evenly(value: Any) -> bool:
    """Whether it is a row such as 0, 1, 2 or 1, γ, γ²: no env gives that."""
    held = leaf_tensor(value) if isinstance(value, (Tensor, np.ndarray)) else None
    if held is None and isinstance(value, (list, tuple, deque)):
        held = gathered(value)[0]
    if held is None or held.numel() < 3 or held.is_complex():
        return False
    row = held.detach().cpu().double().flatten()
    steps, ratios = row.diff(), row[1:] / row[:-1]
    alike = (
        torch.allclose(one, one[:1].expand_as(one), rtol=SCALE_CLOSE) for one in (steps, ratios)
    )
    return bool(steps.abs().max() > 0) and any(alike)


def _of_all_steps(path: Path, value: Tensor, batch: TensorDictBase) -> Storage | None:
    """The entry that is most like it by its name, of those that it may be."""
    rows, steps = batch.shape
    rows_first = value.shape[0] not in (steps, steps + 1)
    laid = value.detach().cpu().transpose(0, 1) if rows_first else value.detach().cpu()
    if laid.numel() % (rows * laid.shape[0]):
        return None
    mine = laid.reshape(laid.shape[0], rows, -1)
    longer = len(mine) == steps + 1
    made = Storage(
        (), tuple(value.shape), value.dtype, rows_first=rows_first, longer=longer, rows=rows
    )
    made = replace(made, graphed=value.grad_fn is not None)
    if (added := added_to_rewards(mine, batch)) is not None:
        batch.set(REWARD_ADDED, added[0])
        return replace(made, key=("next", "reward"), added=True, scale=added[1])
    found = _as_held(made, mine, batch)
    if not found and (cut := cut_alone(batch)) is not None:
        found = _as_held(made, mine, batch.clone(recurse=False).update(cut).select(*cut, DONE))
        found = [one for one in found if one.key in cut]
        batch.update(cut if found else {})
    if not found and not rows_first:
        found = _behind_others(made, laid, batch)
    if not found and not longer and (returns := returns_made(mine, batch)) is not None:
        batch.set(returns.key, returns.of(batch))
        return replace(made, key=returns.key)
    return max(found, key=lambda one: _likeness(path, one), default=None)


def _behind_others(made: Storage, laid: Tensor, batch: TensorDictBase) -> list[Storage]:
    """The same of what has the envs behind other dimensions, as the states of several layers."""
    found = list[Storage]()
    for dim in range(2, laid.ndim - 1):
        if laid.shape[dim] == made.rows and laid.shape[1:dim].numel() > 1:
            mine = laid.movedim(dim, 1).reshape(len(laid), made.rows, -1)
            found += _as_held(replace(made, ahead=dim - 1), mine, batch)
    return found


def _as_held(made: Storage, mine: Tensor, batch: TensorDictBase) -> list[Storage]:
    """As which entries it may hold what ``mine`` ``[steps, rows, …]`` has."""
    return [
        replace(made, key=key, scale=scale, late=late, edge=edge)
        for key, scale, late in _fitting(mine, batch)
        if (edge := _edge(mine, key, scale, batch, late=late)) is None or len(edge) <= _WIDEST
    ]


def _fitting(mine: Tensor, batch: TensorDictBase) -> Iterator[tuple[Key, Scale | None, bool]]:
    """The entries that ``mine`` ``[steps, rows, …]`` may be, as they are or scaled, at their step
    or one late."""
    steps, left = batch.shape[1], left_states(batch)
    for key, entry in tensor_items(batch):
        if is_behind_the_last(key):
            continue
        theirs = entry.transpose(0, 1).reshape(steps, mine.shape[1], -1)
        begun = int(key == (FLAG,))  # acting begins there, flagged or not
        pairs = [(False, mine[begun:steps], theirs[begun:])]
        late = key in GIVEN or key in left
        pairs += [(True, mine[1:], theirs[: len(mine) - 1])] if late else []
        for late, held, given in pairs:
            if held.shape != given.shape:
                continue
            varies = bool((held != held.reshape(-1)[0]).any())
            again = is_derived(key) or key in left or ("next", *key) in left  # computed again
            derived = again and varies and close(held, given)
            if derived or torch.equal(held, given.to(held.dtype)):
                yield key, None, late
            elif key in (*GIVEN, (FLAG,)) and (scale := scale_of(held, given)) is not None:
                yield key, scale, late


def _edge(
    mine: Tensor, key: Key, scale: Scale | None, batch: TensorDictBase, *, late: bool
) -> tuple[float, ...] | None:
    """What is at the end that no step gave; None where there is none, or it is what followed."""
    if late and not begins_with_its_state(mine[0], key, batch):
        return tuple(mine[0].double().flatten().tolist())
    if late:
        return None
    if len(mine) == batch.shape[1]:
        return None
    after = behind(key)
    if after in batch.keys(True, True) and scale is None:
        last = batch.get(after)[:, -1]
        if last.numel() == mine[-1].numel() and same_of_rows(mine[-1], last, batch):
            return None
    if after == DONE and scale is not None:
        last = batch.get(DONE)[:, -1].double() * scale[0] + scale[1]
        if torch.equal(last.flatten(), mine[-1].double().flatten()):
            return None
    return tuple(mine[-1].double().flatten().tolist())


def _likeness(path: Path, one: Storage) -> tuple[bool, bool, bool, bool, bool]:
    """Whether all of it is told, at its own step, by its name, as a flag where that names one, and
    as it is."""
    name = path[-1].lower()
    turned = one.scale is not None and one.scale[0] < 0
    opposite = any(word in name for word in OPPOSITE)
    known = str(one.key[-1])
    named = opposite if turned else known in name or name.rstrip("s") in known
    flag = names_an_end(path) and one.key in (*OVER, (FLAG,))
    return one.edge is None or one.late, not one.late, named, flag, one.scale is None


def _begins_at(names: Mapping[str, Any], path: Path, batch: TensorDictBase) -> int:
    """The step that a piece of them begins with, for one in a list with one for each piece."""
    steps = batch.shape[1]
    value: Any = names[path[0]]
    for name in path[1:]:
        count = len(value) if isinstance(value, list) else 0
        if 1 < count < steps and steps % count == 0:
            return int(name) * (int(steps) // count)
        value = holdings(value)[name]
    return 0


def _of_one_step(
    path: Path, value: Any, batch: TensorDictBase, told: ToldCall, begins: int = 0
) -> Storage | None:
    """What acting, or a piece of its steps, began with, or what was observed last."""
    held = leaf_tensor(value)
    if held is None:
        return None
    array = isinstance(value, np.ndarray)
    if not isinstance(value, (Tensor, np.ndarray)):
        return last_step(held, batch, GIVEN, NUMBERS)
    found = list[Storage]()
    for key, slot in told.carry.items():
        for at, entry in ((begins, key), (-1, ("next", *key))):
            like = replace(slot, of_what=TENSORS)
            wanted = like.given(batch.get(entry)[:, at])
            if wanted.shape != held.shape:
                continue
            own = replace(slot, of_what=ARRAYS if array else TENSORS)
            one = Storage(entry, tuple(held.shape), held.dtype, at=at, slot=own)
            if at == -1 and not is_equal_there(held, wanted):  # begun anew where the episode ended
                one = replace(one, fresh=True)
                wanted = like.given(anew(batch.get(entry)[:, at], batch))
            if is_equal_there(held, wanted):
                if key[0].endswith("_".join(path)) or key[0].endswith(path[-1]):
                    return one  # of states that are alike, such as zeros
                found.append(one)
    of_what = ARRAYS if array else TENSORS
    if found:
        return found[0]
    if (before := told_of_last(held, batch, told, of_what)) is not None:
        return before
    shown = [("next", *key) for key in shown_keys(batch)]
    keys = (*shown, *keys_behind_the_last(batch), DONE)
    return last_step(held, batch, keys, of_what, names_an_end(path))


def _of_pieces(value: Any, batch: TensorDictBase, told: ToldCall) -> PieceStates | None:
    """The states at the beginning of pieces that the steps are cut into."""
    held = leaf_tensor(value)
    if held is None or held.ndim == 0 or not held.shape[0] or batch.shape[1] % held.shape[0]:
        return None
    of_what = ARRAYS if isinstance(value, np.ndarray) else TENSORS
    for slot in told.carry.values():
        one = PieceStates(replace(slot, of_what=TENSORS), held.shape[0])
        wanted = one.of(batch)
        if wanted.shape == held.shape and is_equal_there(held, wanted):
            return PieceStates(replace(slot, of_what=of_what), held.shape[0])
    return None
