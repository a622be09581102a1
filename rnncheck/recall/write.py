"""``--write``: put the advised slice length and burn-in into the spec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rnncheck.errors import UserError
from rnncheck.results.files import write_atomic
from rnncheck.results.memory import MemoryAdvice
from rnncheck.spec.edit import edited
from rnncheck.spec.model import Spec


def write_advice(spec: Spec, advice: Sequence[MemoryAdvice]) -> list[str]:
    """Set ``slice_len`` of the replay's sampler and ``burn_in`` of its BurnInTransform; what was
    done, in words. Raises UserError where the spec has no sampler with slices."""
    path = Path(spec.path)
    wanted = {one.setting: int(one.advised) for one in advice if one.advised.isdigit()}
    text, changed = edited(
        path.read_text(encoding="utf-8"), lambda document: list(_changes(document, wanted))
    )
    if changed:
        write_atomic(path, text)
    return [f"{path}: {line}" for line in changed or ["the spec says so already"]]


def _changes(document: Any, wanted: dict[str, int]) -> Iterator[str]:
    replay = document.get("replay")
    sampler = replay.get("sampler") if isinstance(replay, dict) else None
    if not isinstance(sampler, dict) or not {"slice_len", "num_slices"} & set(sampler):
        raise UserError(
            "the spec has no `replay.sampler` with slices: nothing can be written into it",
            hint=f"use slices of {wanted.get('slice_len')} steps where your code makes them",
        )
    assert isinstance(replay, dict)
    if (length := wanted.get("slice_len")) is not None and sampler.get("slice_len") != length:
        yield from _set_length(replay, sampler, length)
    burn_in = wanted.get("burn_in")
    for one in replay.get("transforms") or []:
        burns = isinstance(one, dict) and one.get("use") == "BurnInTransform"
        if burns and burn_in and one.get("burn_in") != burn_in:
            one["burn_in"] = burn_in
            yield f"replay.transforms: burn_in = {burn_in}"


def _set_length(replay: dict[str, Any], sampler: dict[str, Any], length: int) -> Iterator[str]:
    """The length, and a batch that holds whole slices: as many as before, where that is known."""
    size, before = replay.get("batch_size"), sampler.get("slice_len")
    count = sampler.pop("num_slices", None)
    if isinstance(size, int) and isinstance(before, int) and before > 0:
        count = max(1, size // before)
    sampler["slice_len"] = length
    yield f"replay.sampler: slice_len = {length}"
    if isinstance(size, int) and size % length:
        replay["batch_size"] = length * (count or max(1, size // length))
        yield f"replay: batch_size = {replay['batch_size']}"
