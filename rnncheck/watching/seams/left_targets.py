"""Networks that targets are made with, and copies that act, whose weights nothing has written since
the first update: whether any line of the script still may."""

from __future__ import annotations

import ast
import functools
import gc
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torchrl.objectives import TargetNetUpdater

from rnncheck.pipeline.copying.networks import HeldNetwork, networks_in
from rnncheck.pipeline.guard.user_frames import display_path, is_user_file
from rnncheck.watching.forms.held_names import held_names
from rnncheck.watching.forms.later_writes import LaterWrites
from rnncheck.watching.forms.plain_policy import PlainPolicy
from rnncheck.watching.forms.source_scopes import ScriptSources
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.frames import their_frames
from rnncheck.watching.seen import Called, Sightings
from rnncheck.watching.weights import Weights, is_equal, taken

UNREAD = "lines that cannot be read"


def target_seams(watching: Watching) -> None:
    """Open them; they close with the watch."""
    LeftTargets(watching)


class LeftTargets:
    """Compares them with what they were at the first update, while the script is alive."""

    def __init__(self, watching: Watching) -> None:
        self._seen = watching.seen
        self._before: Weights = {}
        self._copies = set[int]()  # weights of networks that were as those of another one
        self._known, self._told = 0, False
        self._left: str | None = None  # of copies that act
        watching.at_an_update.append(self._note)
        watching.at_an_update.append(self._look)
        watching.at_comparing.append(self._compare)

    def _note(self) -> None:
        """Of losses that were told since the last update."""
        seen = self._seen.judged_losses()
        if len(seen) == self._known:
            return
        self._known = len(seen)
        with suppress(Exception):  # what a script holds may be anything
            networks = [one for called in seen for one in _networks(called)]
            networks += _of_who_acts(self._seen)
            now = taken((), (weight for one in networks for weight in one.weights))
            self._before = now | self._before
            self._copies |= _copies(networks, self._seen.weights)

    def _compare(self) -> None:
        if self._told:
            return
        self._told = True  # while its frames are on the stack, if they ever are
        writes = functools.cache(_later_writes)
        with suppress(Exception):  # what a script holds may be anything
            for called in self._seen.judged_losses():
                self._tell(called, writes)
        with suppress(Exception):
            acting, weights = self._seen.actor(), self._copied_that_act()
            if acting is not None and all(is_equal(o, self._before[id(o)][1]) for o in weights):
                acting.left = self._left if weights else None

    def _tell(self, called: Called, writes: Callable[[], LaterWrites | str]) -> None:
        for name, weights in targets_of(self._seen, called).items():
            known = self._before.keys() & self._copies
            if any(id(one) not in known for one in weights):
                continue
            if any(not is_equal(one, self._before[id(one)][1]) for one in weights):
                called.targets[name] = None
                continue
            called.targets[name] = UNREAD  # until it is told, which may raise
            called.targets[name] = _said(writes(), weights)

    def _look(self) -> None:
        """At the second update: a script that trains on to its end may have left its frames by the
        time at which weights are compared."""
        if self._left is not None or not self._seen.updates:
            return
        with suppress(Exception):  # what a script holds may be anything
            acting, weights = self._seen.actor(), self._copied_that_act()
            if acting is not None and weights:
                self._left = UNREAD  # until it is told, which may raise
                self._left = _said(_later_writes(), weights, acting.collector)

    def _copied_that_act(self) -> list[Tensor]:
        """The weights of who acts, where that is no part of what is trained, and began as a copy of
        it."""
        held = (weight for one in _of_who_acts(self._seen) for weight in one.weights)
        weights = {id(weight): weight for weight in held}
        known = self._before.keys() & self._copies
        apart = not weights.keys() & self._seen.stepped and weights.keys() <= known
        return list(weights.values()) if apart else []


def _said(writes: LaterWrites | str, weights: list[Tensor], collector: Any = None) -> str:
    """Where the weights, maybe those that a ``collector`` acts by, may still be written; empty
    where nothing shows that they are."""
    if isinstance(writes, str):
        return writes
    told = {at for one in weights for at in (id(one), one.data_ptr())}
    found = writes.first(told, collector)
    if found is None:
        return ""
    path, line = found
    return f"{display_path(path)}:{line}" if line else UNREAD


def targets_of(seen: Sightings, called: Called) -> dict[str, list[Tensor]]:
    """By name in the loss the weights of networks that no optimiser has and who acts has not, of
    the same kind and form as one that is trained."""
    modules = [module for one in seen.acting for module in _that_act(one.policy)]
    acting = {id(one) for p in modules for one in (*p.parameters(), *p.buffers())}
    apart, trained = list[HeldNetwork](), list[Any]()
    for one in _networks(called):
        ids = {id(weight) for weight in one.weights}
        if ids & seen.stepped:
            trained += [one.form] if ids & seen.learning else []
        elif not ids & acting:
            apart.append(one)
    found = dict[str, list[Tensor]]()
    for one in apart:
        inside = any(one.name.startswith(f"{outer}.") for outer in found)
        if one.form in trained and not inside:
            found[one.name] = one.weights
    return found


def _of_who_acts(seen: Sightings) -> list[HeldNetwork]:
    """The networks that acted, or those in whose place others are judged."""
    acting = seen.actor()
    if acting is None:
        return []
    holders = acting.copies or list(_that_act(acting.policy))
    return [one for holder in holders for one in networks_in(holder)]


def _that_act(policy: Any) -> Iterator[nn.Module]:
    """Of an agent that holds its targets beside them, the networks that ran while it acted."""
    if isinstance(policy, PlainPolicy) and policy.call.parts:
        yield from (module for module, _ in policy.call.parts)
    elif isinstance(policy, nn.Module):
        yield policy


def _copies(networks: Sequence[HeldNetwork], first: Weights) -> set[int]:
    """Weights, by id, of those that begin as another one of their form is, or was at the ``first``
    update: no network that was trained elsewhere does, such as a teacher."""
    found = set[int]()
    for one, other in itertools.permutations(networks, 2):
        mine, theirs = ({id(weight) for weight in both.weights} for both in (one, other))
        if one.form != other.form or mine & theirs:
            continue
        pairs = zip(one.weights, other.weights, strict=True)
        if all(is_equal(a, b) or is_equal(a, first.get(id(b), (b, b))[1]) for a, b in pairs):
            found |= mine | theirs
    return found


def _networks(called: Called) -> Iterator[HeldNetwork]:
    """Those of the loss, and of the lines around it."""
    for holder in (called, *called.around, *called.rounds):
        yield from networks_in(holder.module)


def _later_writes() -> LaterWrites | str:
    """What the script's own lines may write; why they cannot be read."""
    frames = list(their_frames(sys._getframe(1)))
    there = {str(one.__file__): vars(one) for one in list(sys.modules.values()) if _is_theirs(one)}
    running = [(one.f_code, dict(one.f_locals)) for one in frames]
    trees = dict[str, ast.Module]()
    for path in {*there, *(code.co_filename for code, _ in running)}:
        try:
            trees[path] = ast.parse(Path(path).read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):  # as in a notebook
            return UNREAD
    # By their types: to ask a proxy for its class may run or import something.
    updaters = [one for one in gc.get_objects() if issubclass(type(one), TargetNetUpdater)]
    return LaterWrites(ScriptSources(trees), held_names(running, there), updaters)


def _is_theirs(module: Any) -> bool:
    path = getattr(module, "__file__", None)
    return isinstance(path, str) and is_user_file(path) and Path(path).is_file()
