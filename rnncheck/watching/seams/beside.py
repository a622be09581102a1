"""Numbers of each step that a script's lines keep beside a batch, such as advantages that a
function of theirs returned."""

from __future__ import annotations

from types import CodeType, FrameType

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.errors import Place
from rnncheck.pipeline.guard.user_frames import display_path
from rnncheck.watching.observer import Watching, modes_now
from rnncheck.watching.seams.ahead_lines import Scene
from rnncheck.watching.seen import KEPT, HeldBeside, copy_now

_FEWEST = 8  # steps: fewer numbers may be of anything. Chosen, not measured
_KINDS = 3  # different numbers: a mask or a flag has fewer


class BesideBatches:
    """Notes them a few times at each place."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._sites = dict[tuple[CodeType, int], HeldBeside]()
        self._latest = dict[tuple[CodeType, int], set[int]]()

    def note(self, frame: FrameType, held: dict[str, TensorDictBase]) -> None:
        """The frame holds these batches, and is about to train."""
        at = (frame.f_code, frame.f_lineno)
        site = self._sites.get(at)
        if site is not None and len(site.batches) >= KEPT:
            return
        values = numbers_of_steps(frame, held)
        if not values:
            return
        if site is None:
            place = Place(display_path(frame.f_code.co_filename), frame.f_lineno)
            site = HeldBeside(place, modes_now(), Scene.of(frame), frozenset(held))
            self._sites[at] = site
            self._watching.seen.beside.append(site)
        shapes = {value.shape[: td.batch_dims] for value in values.values() for td in held.values()}
        fitting = {name: td for name, td in held.items() if td.batch_size in shapes}
        ids = {id(td) for td in fitting.values()}
        if ids <= self._latest.get(at, set()):
            return
        self._latest[at] = ids
        site.batches.append({name: copy_now(td) for name, td in fitting.items()})
        site.values.append({name: value.clone() for name, value in values.items()})


def numbers_of_steps(frame: FrameType, held: dict[str, TensorDictBase]) -> dict[str, Tensor]:
    """Its variables that hold one number for each step of one of the batches, and no few different
    ones."""
    sizes = {(td.batch_size, td.numel()) for td in held.values() if td.numel() >= _FEWEST}
    return {
        name: value
        for name, value in frame.f_locals.items()
        if type(value) is Tensor
        and value.is_floating_point()
        and not value.requires_grad
        and any(value.shape[: len(s)] == s and value.numel() == n for s, n in sizes)
        and len(torch.unique(value)) >= _KINDS
    }
