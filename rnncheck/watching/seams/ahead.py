"""What a script's lines make of a batch before a loss, or a replay buffer, gets it: which of its
variables hold a batch then."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import CodeType, FrameType
from typing import Any

from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.objectives import LossModule

from rnncheck.errors import Place
from rnncheck.pipeline.guard.user_frames import display_path, is_user_file
from rnncheck.pipeline.keys import Key, as_key, tensor_keys
from rnncheck.watching.observer import Watching, modes_now
from rnncheck.watching.seams.ahead_lines import STORED, Scene
from rnncheck.watching.seams.beside import BesideBatches
from rnncheck.watching.seams.frames import batches_in, their_frames
from rnncheck.watching.seams.patching import replace
from rnncheck.watching.seams.stored import buffers
from rnncheck.watching.seen import KEPT, MadeAhead, copy_now

_MOST_LOOKS = 32  # at one line: chosen, what is put into batches there shows in the first of them


def ahead_seams(watching: Watching, scope: ExitStack) -> None:
    """Open the seams until ``scope`` ends."""
    noting = _Ahead(watching)
    replace(scope, LossModule, "__call__", noting.through)
    for kind in buffers():
        if "extend" in kind.__dict__:
            replace(scope, kind, "extend", noting.stored)
        if "sample" in kind.__dict__:
            replace(scope, kind, "sample", noting.sampled)
    watching.at_a_batch.append(noting.look)
    for kind in (TensorDictBase, TensorDict, LazyStackedTensorDict):
        for name in ("__setitem__", "set"):
            if name in kind.__dict__:
                replace(scope, kind, name, noting.put)


class _Ahead:
    """Looks at what the user's frames hold, once for each batch and a few times at each place."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._sites = dict[tuple[CodeType, int], MadeAhead]()
        self._beside = BesideBatches(watching)
        self._stored = set[Key]()
        self._latest = dict[tuple[CodeType, int], set[int]]()
        self._looks = dict[tuple[CodeType, int], int]()  # where entries are put into batches

    def through(self, original: Callable[..., Any], owner: Any, *args: Any, **kwargs: Any) -> Any:
        """A call that gets a batch."""
        if self._watching.looks:
            self.look(sys._getframe(2))
        return original(owner, *args, **kwargs)

    def stored(self, original: Callable[..., Any], buffer: Any, *args: Any, **kwargs: Any) -> Any:
        """``buffer.extend(batch)``."""
        if self._watching.looks:
            given = [one for one in (*args, *kwargs.values()) if isinstance(one, TensorDictBase)]
            self._stored |= {key for one in given for key in tensor_keys(one)}
            self._watching.stored = given[0] if given else None
            self.look(sys._getframe(2), given[0] if len(given) == 1 else None)
        with self._watching.inside():
            return original(buffer, *args, **kwargs)

    def sampled(self, original: Callable[..., Any], buffer: Any, *args: Any, **kwargs: Any) -> Any:
        """``buffer.sample()``."""
        looks = self._watching.looks
        with self._watching.inside(), self._watching.drawing(looks):
            drawn = original(buffer, *args, **kwargs)
        if looks and self._stored and isinstance(drawn, TensorDictBase):
            self._watching.seen.by_buffer |= set(tensor_keys(drawn)) - self._stored
            anew = isinstance(getattr(buffer, "sampler", None), SamplerWithoutReplacement)
            self._watching.drawn = None if anew else drawn  # those are parts of what was stored
        return drawn

    def put(self, original: Callable[..., Any], td: Any, key: Any, *more: Any, **named: Any) -> Any:
        """``batch[key] = …`` or ``batch.set(key, …)``: the lines may have returned when a loss is
        called, as those that make the returns of one episode after the other."""
        found = original(td, key, *more, **named)
        if self._watching.looks and not self._watching.seen.frozen:
            frame = sys._getframe(2)
            if is_user_file(frame.f_code.co_filename) and _is_named(key):
                with suppress(Exception):  # what a script holds may be anything
                    self._put(frame, td, as_key(key))
        return found

    def _put(self, frame: FrameType, td: TensorDictBase, key: Key) -> None:
        at = (frame.f_code, frame.f_lineno)
        site, looks = self._sites.get(at), self._looks.get(at, 0)
        if not td.batch_dims or td.numel() < 2 or looks >= _MOST_LOOKS:
            return
        self._looks[at] = looks + 1
        again = {id(td)} == self._latest.get(at)  # one line puts in several
        if site is not None and len(site.batches) >= KEPT and not again:
            return
        collected = self._collected()
        held = {name: one for name, one in batches_in(frame).items() if one is td}
        if not held or key in collected or not collected & set(tensor_keys(td)):
            return
        if again and site is not None:
            del site.batches[-1], self._latest[at]
        self._note(frame, site, held, collected, done=True)

    def look(self, here: FrameType, stored: TensorDictBase | None = None) -> None:
        """Something that gets a batch is about to run in the frame; what is ``stored`` in a replay
        buffer may have no name there."""
        if self._watching.seen.moved_on:
            return
        collected = self._collected()
        for number, frame in enumerate(their_frames(here)):
            site = self._sites.get((frame.f_code, frame.f_lineno))
            if site is None or len(site.batches) < KEPT:
                held = batches_in(frame)
                held |= {} if number or stored is None else {STORED: stored}
                self._note(frame, site, held, collected)
                if stored is None and held:
                    self._beside.note(frame, held)

    def _note(
        self,
        frame: FrameType,
        site: MadeAhead | None,
        held: dict[str, TensorDictBase],
        collected: set[Key],
        *,
        done: bool = False,
    ) -> None:
        at = (frame.f_code, frame.f_lineno)
        found = {name: td for name, td in held.items() if made_of(td, collected)}
        ids = {id(td) for td in found.values()}
        if not found or ids <= self._latest.get(at, set()):
            return
        self._latest[at] = ids
        if site is None:
            place = Place(display_path(frame.f_code.co_filename), frame.f_lineno)
            every = frozenset(held)
            site = MadeAhead(place, modes_now(), Scene.of(frame, done=done), every)
            self._sites[at] = site
            self._watching.seen.ahead.append(site)
        site.batches.append({name: copy_now(td) for name, td in found.items()})

    def _collected(self) -> set[Key]:
        """The entries of what was collected; none where that is not told yet."""
        acting = self._watching.seen.actor()
        noted = acting.batches if acting is not None else []
        return set(tensor_keys(noted[0])) if noted else set()


def _is_named(key: Any) -> bool:
    """Whether it names an entry, and is no index."""
    return isinstance(key, str) or (type(key) is tuple and all(isinstance(k, str) for k in key))


def made_of(batch: TensorDictBase, collected: set[Key]) -> list[Key]:
    """Numbers of each step in it that were not collected."""
    return [
        key
        for key in tensor_keys(batch)
        if key not in collected
        and key[0] != "next"
        and (value := batch.get(key)).is_floating_point()
        and not value.requires_grad
        and value.shape[: batch.batch_dims] == batch.shape
    ]
