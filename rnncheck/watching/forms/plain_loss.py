"""The lines of a user's loop behind its steps of a plain env, as a loss of what was collected:
variables that hold collected entries get those of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from tensordict import TensorDictBase

from rnncheck.watching.forms.acted_again import ActedAgain
from rnncheck.watching.forms.beside_calls import BesideCalls
from rnncheck.watching.forms.by_numbers import bare
from rnncheck.watching.forms.graphed_arrays import graph_at_arrays
from rnncheck.watching.forms.last_calls import LastCall
from rnncheck.watching.forms.plain_calls import OBSERVATION
from rnncheck.watching.forms.returns_made import ReturnsMade
from rnncheck.watching.forms.storages import HeldPart, OfEpisode, PieceStates, Storage
from rnncheck.watching.forms.structures import Path, filled, holdings, rebuilt

MadeBeside = BesideCalls | LastCall | ReturnsMade  # made of a batch, which holds it then
NamesHeld = list[tuple[str, Any, dict[Path, HeldPart]]]


def rollout_loss(
    lines: FunctionType,
    names: Mapping[str, Any],
    parts: Mapping[Path, HeldPart],
    acts: ActedAgain | None = None,
    beside: Sequence[MadeBeside] = (),
) -> Callable[[TensorDictBase], Any]:
    """The lines as a function of a batch: ``parts`` by the way there, from the variable's name;
    where some of these have a graph, it comes of what ``acts``; calls ``beside`` the steps are made
    again as well."""
    held: NamesHeld = [
        (name, _kept(value), {path[1:]: one for path, one in parts.items() if path[0] == name})
        for name, value in names.items()
    ]
    made = partial(run_lines, lines, [one for one in held if one[2]], acts, tuple(beside))
    made.in_place = any(isinstance(one, OfEpisode) for one in parts.values())  # type: ignore[attr-defined]
    return made


def acts_in(loss: Any) -> ActedAgain | None:
    """What acts again inside such a loss."""
    loss = bare(loss)
    found = loss.args[2] if isinstance(loss, partial) and loss.func is run_lines else None
    return found if isinstance(found, ActedAgain) else None


def reads_a_state(loss: Any) -> bool:
    """Whether such a loss reads a state that acting had."""
    loss = bare(loss)
    if not (isinstance(loss, partial) and loss.func is run_lines):
        return True
    parts = (one for _, _, held in loss.args[1] for one in held.values())
    return any(isinstance(one, (Storage, PieceStates)) and one.slot is not None for one in parts)


def lays_rows_first(loss: Any) -> bool:
    """Whether what such a loss reads of the observations is ``[rows, steps, ...]``."""
    loss = bare(loss)
    if not (isinstance(loss, partial) and loss.func is run_lines):
        return False
    parts = [one for _, _, held in loss.args[1] for one in held.values()]
    seen = [one for one in parts if isinstance(one, Storage) and one.key == (OBSERVATION,)]
    return any(one.rows_first for one in seen)


def _kept(value: Any) -> Any:
    """A dict as it is now: the script may clear it."""
    return dict(value) if isinstance(value, dict) else value


def run_lines(
    lines: FunctionType,
    held: NamesHeld,
    acts: ActedAgain | None,
    beside: tuple[MadeBeside, ...],
    batch: TensorDictBase,
    *,
    copies: int = 1,
) -> Any:
    """What the lines give where their variables hold the batch, of the same ``copies`` if it is of
    several."""
    for one in beside:
        batch = batch.clone(recurse=False).update(one(batch))
    graphed = batch if acts is None else batch.clone(recurse=False).update(acts(batch))
    given = {name: _holding(value, parts, batch, graphed) for name, value, parts in held}
    entries = (entry for _, _, parts in held for one in parts.values() for entry in one.held)
    with graph_at_arrays(batch, entries, copies):
        return rebuilt(lines, given)(None)


def _holding(
    value: Any, parts: Mapping[Path, HeldPart], batch: TensorDictBase, graphed: TensorDictBase
) -> Any:
    made = {path: one.of(graphed if one.graphed else batch) for path, one in parts.items()}
    return filled(value, made, holdings)
