"""What the names held that the lines of a plain loop read."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any

import numpy as np
from torch import Tensor

from rnncheck.watching.seams.containers import HeldBy
from rnncheck.watching.seams.lines import LinesBehind, around_of
from rnncheck.watching.seams.returned_names import returned_names
from rnncheck.watching.seams.stood import StoodAt


def names_read_at(
    lines: LinesBehind, frame: FrameType, inner: FrameType | None, stood: StoodAt
) -> dict[str, Any]:
    """What the lines of a frame read, by name: containers as they were at the last step, which the
    frame itself took or one ``inner`` to it, tensors and arrays as they were when a network was
    first called behind that."""
    held = lines.function.__kwdefaults__ or {}
    names = {name: held.get(name, frame.f_globals.get(name)) for name in sorted(lines.reads)}
    earlier = stood.earlier.of(frame)  # what the lines have bound anew, such as by a reset
    anew = lines.reads & lines.stores & earlier.keys()
    names |= {n: earlier[n] for n in anew if isinstance(earlier[n], (Tensor, np.ndarray))}
    around, codes = around_of(lines.function), [frame.f_code]
    if inner is not None and around is not None and around.inside is not None:
        codes = [inner.f_code, *codes]
    # One that was bound where the env is stepped was that of the rollout before, but to what is
    # done again of the function that was called there.
    before = {
        n: v
        for code in codes
        for n, v in stood.containers.get(code, {}).items()
        if n not in lines.stepped or code is not frame.f_code
    }
    kept = {n: v for n, v in before.items() if n in names}
    names |= {n: v.again(names[n]) if isinstance(v, HeldBy) else v for n, v in kept.items()}
    if len(codes) == 1 and inner is not None:  # else what it did behind its loop is done again
        returned = returned_names(frame, stood.lines[frame.f_code], inner)
        own = stood.containers.get(inner.f_code, {})
        arrays = {n: v for n, v in inner.f_locals.items() if isinstance(v, (Tensor, np.ndarray))}
        own = {**own, **arrays}  # which it may have made of a list behind its loop
        kept = {name: own[of] for name, of in returned.items() if of in own and name in names}
        names |= {n: v.again(names[n]) if isinstance(v, HeldBy) else v for n, v in kept.items()}
    return names | {name: kind() for name, kind in lines.empty.items()}


def called_from(frame: FrameType, stepped: Sequence[FrameType]) -> FrameType | None:
    """Of the frames around a step, innermost first, the one that this one called: it may have
    returned since."""
    at = next((n for n, one in enumerate(stepped) if one is frame), 0)
    return stepped[at - 1] if at else None
