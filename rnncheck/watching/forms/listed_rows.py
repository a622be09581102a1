"""Sampled batches that are lists of one record for each row, as a memory of episodes gives them, or
that hold lists of one tensor for each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from rnncheck.watching.forms.held_as import gathered
from rnncheck.watching.forms.sampled_parts import SampledBatch
from rnncheck.watching.forms.storages import HeldPart, RowRecords, Spoilt, Storage
from rnncheck.watching.forms.structures import Path, leaves_in, records

_LISTS = (list, tuple)
_TENSORS = (Tensor, np.ndarray)
_DEEPEST = 2  # a batch in a variable, and an entry in it
_MOST_ROWS = 256  # a list that has more is the memory itself; chosen

Columns = dict[Path, tuple[Tensor, str]]


def listed_columns(value: Any) -> Columns:
    """What all of the records hold, ``[rows, steps, ...]``, and as what; empty where it is no list
    of such."""
    if not isinstance(value, _LISTS) or not 1 < len(value) <= _MOST_ROWS:
        return {}
    if not all(not isinstance(one, _LISTS) and records(one) for one in value):
        return {}
    leaves = [dict(leaves_in(one)) for one in value]
    found: Columns = {}
    for name in leaves[0]:
        if all(name in one for one in leaves):
            whole, of_what = gathered([one[name] for one in leaves])
            if whole is not None and whole.ndim > 1:
                found[name] = whole, of_what
    return found


def lists_of_rows(names: Mapping[str, Any], shown: tuple[int, ...]) -> Columns:
    """By the way there, lists of one tensor ``[steps, ...]`` for each row, ``[rows, steps, ...]``,
    and of what: as many as of what was observed, of which each step ``shown`` has such numbers."""
    found = dict(_stacked(names))
    leads = {one.shape[:2] for one, _ in found.values() if tuple(one.shape[2:]) == shown}
    return {path: pair for path, pair in found.items() if pair[0].shape[:2] in leads}


def _stacked(value: Any, path: Path = ()) -> Iterator[tuple[Path, tuple[Tensor, str]]]:
    """Of containers in containers, as far as those of batches are."""
    parts = records(value) if len(path) <= _DEEPEST else {}
    for name, one in parts.items():
        listed = isinstance(one, _LISTS) and 1 < len(one) <= _MOST_ROWS
        tensors = listed and all(isinstance(each, _TENSORS) for each in one)
        whole, of_what = gathered(one) if tensors else (None, "")
        if whole is not None and whole.ndim > 1:
            yield (*path, name), (whole, of_what)
        elif not tensors and not isinstance(one, _TENSORS) and not (listed and path):
            yield from _stacked(one, (*path, name))


def with_listed(parts: Mapping[Path, HeldPart], lists: Columns) -> dict[Path, HeldPart]:
    """These as lists, where they are of such."""
    return {
        path: replace(one, listed=True) if path in lists and isinstance(one, Storage) else one
        for path, one in parts.items()
    }


def as_listed(made: SampledBatch, names: Mapping[str, Any], listed: Mapping[str, Columns]) -> None:
    """Put records for each row in the place of the columns that were told of them."""
    for name, columns in listed.items():
        if not columns:
            continue
        own = {path[1:]: one for path, one in made.parts.items() if path[0] == name}
        known = {path: one for path, one in own.items() if isinstance(one, Storage)}
        made.parts = _without(made.parts, name)
        if known:
            each = {path: replace(one, listed=False) for path, one in known.items()}
            made.parts[name,] = RowRecords(each, names[name])
        if len(_without(made.doubts, name)) < len(made.doubts):
            made.doubts = _without(made.doubts, name) | {(name,): Spoilt(names[name])}


def _without(parts: Mapping[Path, HeldPart], name: str) -> dict[Path, HeldPart]:
    return {path: one for path, one in parts.items() if path[0] != name}
