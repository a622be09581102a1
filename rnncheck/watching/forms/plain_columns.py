"""What the steps of a loop over a plain env held, laid side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.held_as import ARRAYS, MANY, NUMBERS, TENSORS
from rnncheck.watching.forms.plain_calls import (
    ENDS,
    OBSERVATION,
    OWNER,
    PlainStep,
    leaf_tensor,
)
from rnncheck.watching.forms.shown_entries import ShownAs, shown_as, some_of
from rnncheck.watching.forms.structures import LEAVES, Path, leaves_in

_NUMBERS = (bool, int, float)
_WIDEST = 256  # numbers of an observation that a part of is looked for in: no picture


@dataclass(frozen=True)
class Column:
    """One leaf of the calls, ``[steps, ...]``: None where its form changes. ``of_what`` it is made;
    ``none`` is the way to what was None at some of the steps, which are zero here; ``lacking``: at
    some of them what it is an entry of had no such entry. What is ``listed`` has one such for each
    env, side by side here."""

    values: Tensor | None
    of_what: str = TENSORS
    none: Path | None = None
    lacking: bool = False
    listed: bool = False  # one for each env

    @property
    def goes_one_way(self) -> bool:
        """Whether it is a plain number that only grows or falls: a counter, a rate."""
        if self.of_what != NUMBERS or self.values is None:
            return False
        steps = self.values.double().diff()
        return bool((steps >= 0).all() or (steps <= 0).all())


@dataclass(frozen=True)
class Columns:
    """What all steps held, ``[steps, ...]`` each; None for what no tensor holds. ``given`` and
    ``gave`` are leaves of the acting calls."""

    rows: int
    name: str  # of the function that acts
    seen: Tensor | None
    action: Tensor | None
    reward: Tensor | None
    done: Tensor  # [steps, rows]: an episode ended, or a new one was begun in the place of the step
    ended: Tensor  # the same without what was begun: what the env tells
    given: dict[Path, Column]
    gave: dict[Path, Column]
    shown: ShownAs | None = None  # where that is a dict: ``seen`` is one part of it
    beside: Mapping[Key, Tensor] = field(default_factory=dict)  # the others
    goes_on: bool = False  # from steps before these
    forgets: bool = False  # every call ran its recurrent layers from zeros

    @property
    def width(self) -> int:
        """Numbers that one env shows."""
        return 0 if self.seen is None else self.seen[0].numel() // self.rows


def columns_of(
    steps: Sequence[PlainStep], goes_on: bool = False, shown: ShownAs | None = None
) -> Columns:
    """Of steps that calls of one function acted in; whether they ``go on`` from others, and as what
    they show several things, where that is known."""
    rows = steps[0].rows
    ends = [stacked([getattr(step, name) for step in steps]) for name in ENDS]
    flags = [one.reshape(len(steps), -1).bool() for one in ends if one is not None]
    flags = [one.expand(len(steps), rows) for one in flags]
    calls = [step.call for step in steps]
    given = columns_in([{**call.arguments, OWNER: call.before} for call in calls])
    shown, entries = _shown(steps, given, shown)
    inside = not bool(torch.stack(flags).any(0)[:-1].all())  # more than one step of an episode
    given = with_lists(given, entries.get((OBSERVATION,)), rows)
    return Columns(
        rows,
        steps[0].call.code.co_name,
        entries.pop((OBSERVATION,), None),
        stacked([step.action for step in steps]),
        stacked([step.reward for step in steps]),
        torch.stack(flags).any(0),
        torch.stack(flags[:2]).any(0),
        given,
        columns_in([call.result for call in calls]) | columns_in([{OWNER: c.after} for c in calls]),
        shown,
        entries,
        goes_on,
        len(calls) >= MANY and inside and all(call.forgets for call in calls),
    )


def _shown(
    steps: Sequence[PlainStep], given: Mapping[Path, Column], known: ShownAs | None
) -> tuple[ShownAs | None, dict[Key, Tensor]]:
    """What the env showed, by key, and how that is told where it is several things."""
    seen = [step.seen for step in steps]
    if not all(isinstance(one, Mapping) for one in seen):
        whole = stacked(seen)
        return None, {} if whole is None else {(OBSERVATION,): whole}
    values = (one.values for one in given.values())
    told = known or shown_as(seen, steps[0].lead, [one for one in values if one is not None])
    return told, told.columns(seen, steps[0].lead)


def with_lists(given: dict[Path, Column], seen: Tensor | None, rows: int) -> dict[Path, Column]:
    """The same with tuples and lists of what each env showed as one column."""
    lists = {path[:-1] for path in given if len(path) > 1 and path[-1] == "0"} if rows > 1 else ()
    found = dict(given)
    for path in lists:
        inside = [(*path, str(number)) for number in range(rows)]
        parts = [given[one].values for one in inside if one in given]
        told = [one for one in parts if one is not None]
        if seen is None or len(told) < rows or (*path, str(rows)) in given:
            continue
        whole = torch.stack(told, 1) if len({one.shape for one in told}) == 1 else None
        if whole is not None and whole.shape == seen.shape and torch.equal(whole, seen.to(whole)):
            kind = given[inside[0]].of_what
            found = {key: one for key, one in found.items() if key not in inside}
            found[path] = Column(whole, kind, listed=True)
    return found


def stacked(values: Sequence[Any]) -> Tensor | None:
    """``[steps, ...]`` of what an env takes or gives."""
    try:
        return torch.as_tensor(np.array([np.asarray(value) for value in values]))
    except (TypeError, ValueError):  # an env may show anything
        return None


def columns_in(values: Sequence[Any]) -> dict[Path, Column]:
    """The tensors, arrays and numbers in them, by the way there."""
    alike = side_by_side(values)
    if alike is not None:
        whole = {path: _column_of(found, {path}) for path, found in alike.items()}
        return {path: one for path, one in whole.items() if one is not None}
    held = _with_arrays([dict(leaves_in(value)) for value in values])
    paths = dict.fromkeys(path for one in held for path in one)
    inner = [path for path in paths if not any(_inside(other, path) for other in paths)]
    return {path: found for path in inner if (found := _column(held, path)) is not None}


def _with_arrays(held: list[dict[Path, Any]]) -> list[dict[Path, Any]]:
    """The same with lists of plain numbers as what others have in their place, arrays or tensors of
    as many: a script may begin with a list of flags, and goes on with what its env gives."""
    rows = {
        path: leaf
        for one in held
        for path, leaf in one.items()
        if isinstance(leaf, (Tensor, np.ndarray)) and leaf.ndim == 1
    }
    for path, like in rows.items():
        inside = [(*path, str(number)) for number in range(len(like) + 1)]
        for at, one in enumerate(held):
            numbers = [one[name] for name in inside if name in one]
            if len(numbers) == len(like) and all(type(number) in _NUMBERS for number in numbers):
                made = torch.tensor(numbers) if isinstance(like, Tensor) else np.array(numbers)
                left = {name: leaf for name, leaf in one.items() if name not in inside}
                held[at] = {path: made, **left}
    return held


def side_by_side(values: Sequence[Any]) -> dict[Path, list[Any]] | None:
    """By the way there, what has no parts, of all of them: what ``leaves_in`` says of each, where
    they are made alike of dicts, tuples and lists; None where they are not."""
    found = dict[Path, list[Any]]()
    return found if _are_alike(values, (), found) else None


def _are_alike(values: Sequence[Any], path: Path, into: dict[Path, list[Any]]) -> bool:
    kinds = set(map(type, values))
    if kinds <= LEAVES:
        into[path] = list(values)
        return True
    kind = kinds.pop()
    if kinds or kind not in (dict, tuple, list) or len(set(map(len, values))) > 1:
        return False
    names = range(len(values[0])) if kind is not dict else values[0].keys()
    if kind is dict and any(one.keys() != names for one in values):
        return False
    return all(
        _are_alike([one[name] for one in values], (*path, str(name)), into) for name in names
    )


def _inside(other: Path, path: Path) -> bool:
    return len(other) > len(path) and other[: len(path)] == path


def _column(held: list[dict[Path, Any]], path: Path) -> Column | None:
    """None for what is never a number or a tensor."""
    found, nones = list[Any](), set[Path]()
    for one in held:
        there = next((part for part in _ways(path) if part in one), None)
        value = None if there is None else one[there]
        if there is not None and value is None:
            nones.add(there)
        found.append(value if there == path else None)
    column = _column_of(found, nones)
    named = bool(path) and not path[-1].isdigit()
    lacks = named and any(path not in one and path[:-1] not in one for one in held)
    return replace(column, lacking=True) if column and column.values is None and lacks else column


def _column_of(found: list[Any], nones: set[Path]) -> Column | None:
    """The same of its values; ``nones`` are the ways to what is None among them."""
    tensors = list(map(leaf_tensor, found))
    present = [one for one in tensors if one is not None]
    absent = len(found) - len(present)
    if not present:
        return None
    if (absent and len(nones) != 1) or absent > sum(value is None for value in found):
        return Column(None)
    zero = torch.zeros_like(present[0])
    try:
        whole = torch.stack([zero if one is None else one for one in tensors]).detach().cpu()
    except RuntimeError:  # they are of several shapes
        return Column(None)
    first = next(one for one in found if one is not None)
    return Column(whole, kind_of(first), next(iter(nones), None) if absent else None)


def _ways(path: Path) -> Iterator[Path]:
    """The way itself, then to what it is in, from the inside out."""
    return (path[:end] for end in range(len(path), -1, -1))


def kind_of(value: Any) -> str:
    """What a leaf is made of."""
    if isinstance(value, (bool, int, float)):
        return NUMBERS
    return ARRAYS if isinstance(value, (np.ndarray, np.generic)) else TENSORS


def shown_of(steps: Columns) -> tuple[int, ...] | None:
    """Which numbers of what the env shows the function gets, where it gets some of them."""
    if steps.seen is None or steps.shown is not None or not steps.seen.is_floating_point():
        return None
    seen = steps.seen.reshape(-1, steps.width)
    for column in steps.given.values():
        values = column.values
        floats = values is not None and values.is_floating_point()
        numbers = some_of(values, seen) if values is not None and floats else None
        if numbers is not None:
            return numbers
    return None


def fullest(values: Sequence[Mapping[str, Any]]) -> int:
    """Of which of them the most leaves are there: others hold None in their place."""
    alike = side_by_side(values)
    if alike is not None:
        sizes = [sum(one is not None for one in row) for row in zip(*alike.values(), strict=True)]
        return sizes.index(max(sizes, default=0)) if sizes else 0
    sizes = [sum(one is not None for _, one in leaves_in(value)) for value in values]
    return sizes.index(max(sizes))
