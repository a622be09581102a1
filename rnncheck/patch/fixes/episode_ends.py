"""A slice sampler that cuts where episodes end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.spec_text import in_line
from rnncheck.patch.texts import Texts


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    sampler = case.section("replay").get("sampler")
    if isinstance(sampler, dict) and ({"end_key", "traj_key"} & set(sampler)):
        yield from case.in_spec(_by_done)


def _by_done(document: Any) -> bool:
    sampler = document["replay"]["sampler"]
    sampler.pop("traj_key", None)
    sampler["end_key"] = in_line(["next", "done"])
    return True


FIX = Fix(("RP506",), 'with end_key=("next", "done") of the sampler', _ways)
