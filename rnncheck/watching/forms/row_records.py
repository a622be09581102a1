"""Lists of what each of several envs showed, as records or arrays of their own: of every step such
a list, or of the last one alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from rnncheck.watching.forms.held_as import gathered
from rnncheck.watching.forms.storages import RowRecords, Storage
from rnncheck.watching.forms.structures import (
    Path,
    leaves_in,
    records,
    sequence_like,
)

_LISTS = (list, tuple)
_DATA = (np.ndarray, Tensor)  # a record of one part


def row_records(
    items: Any, rows: int, told: Callable[[Path, Tensor], Storage | None]
) -> RowRecords | None:
    """Of ``items`` of every step, each with a record for each env; None where they hold no such, or
    nothing that is ``told`` of ``[steps, rows, ...]``."""
    if not items or not all(_is_of_rows(one, rows) for one in items):
        return None
    columns = _columns([[dict(leaves_in(one)) for one in item] for item in items], told)
    return RowRecords(columns, items[0], sequence_like(items, [])) if columns else None


def last_records(
    item: Any, rows: int, told: Callable[[Path, Tensor], Storage | None]
) -> RowRecords | None:
    """The same of one record for each env, ``told`` of ``[1, rows, ...]``."""
    if not _is_of_rows(item, rows):
        return None
    columns = _columns([[dict(leaves_in(one)) for one in item]], told)
    return RowRecords(columns, item) if columns else None


def _is_of_rows(item: Any, rows: int) -> bool:
    return (
        isinstance(item, _LISTS)
        and len(item) == rows
        and all(isinstance(one, _DATA) or _is_record(one) for one in item)
    )


def _is_record(one: Any) -> bool:
    return type(one) not in _LISTS and bool(records(one))


def _columns(
    leaves: list[list[dict[Path, Any]]], told: Callable[[Path, Tensor], Storage | None]
) -> dict[Path, Storage]:
    """Of the parts that all of them have what each holds."""
    names = [n for n in leaves[0][0] if all(n in one for step in leaves for one in step)]
    found = dict[Path, Storage]()
    for name in names:
        whole, of_what = gathered([[one[name] for one in step] for step in leaves])
        one = None if whole is None else told(name, whole)
        if one is not None and not one.longer:
            found[name] = replace(one, listed=True, of_what=of_what)
    return found
