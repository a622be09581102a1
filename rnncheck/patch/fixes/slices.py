"""Slices of episodes in the place of single steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.spec_text import add_key, in_line
from rnncheck.patch.texts import Texts

_LONGEST = 16  # steps of a slice: chosen, what most recurrent baselines begin with
# By their ends; or by number, where the rows of several envs lie end to end.
_PARTED = ({"end_key": ["next", "done"]}, {"traj_key": ["collector", "traj_ids"]})


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    replay = case.section("replay")
    if isinstance(replay.get("batch_size"), int) and "factory" not in replay:
        for parted in _PARTED:
            yield from case.in_spec(lambda document, parted=parted: _sliced(document, parted))  # type: ignore[misc]


def _sliced(document: Any, parted: dict[str, list[str]]) -> bool:
    replay = document["replay"]
    size = replay["batch_size"]
    length = next(n for n in range(min(_LONGEST, size), 0, -1) if size % n == 0)
    sampler = {
        "use": "SliceSampler",
        "slice_len": length,
        **parted,
        "strict_length": False,
    }
    if "sampler" in replay:
        replay["sampler"] = in_line(sampler)
    else:
        add_key(replay, "sampler", in_line(sampler))
    return True


FIX = Fix(("RP502",), "with slices of episodes drawn by SliceSampler", _ways)
