"""Whether what is collected behind the first update goes on where the steps before it ended: the
state, and the env, which nothing else may have played meanwhile."""

from __future__ import annotations

import linecache
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.guard.user_frames import calling_place, is_user_file
from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.watching.forms.plain_policy import PlainEnv
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.patching import replace
from rnncheck.watching.seams.stored import buffers
from rnncheck.watching.seen import Acting

# That are waited for the second batch: behind an evaluation, and where there may be one yet.
_AFTER_ONE, _FOR_ONE = (2000, 60.0), (2000, 10.0)  # updates and seconds; chosen
_TRIES = 4  # batches behind the first update, of which one goes on with an episode: chosen
_PLAYED_BY = 4  # the same of which one may come behind an evaluation: chosen
_START = "is_init"


def join_seams(watching: Watching, scope: ExitStack) -> None:
    """Open them until ``scope`` ends."""
    noting = LaterJoins(watching)
    replace(scope, EnvBase, "reset", noting.reset)
    for kind in buffers():
        if "extend" in kind.__dict__:
            replace(scope, kind, "extend", noting.written)


class LaterJoins:
    """Looks at the first batch behind the first update that goes on with an episode, and at those
    behind which the script played their env."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._played: tuple[str, Acting] | None = None  # where the script itself played the env
        self._joined, self._tried = False, 0
        self._over = False  # there is no more to be told
        self._last: TensorDictBase | None = None  # of the latest later batch
        self._since: float | None = None
        watching.at_a_later_batch.append(self._collected)
        watching.at_a_rollout.append(self.played)
        watching.waits.append(self._waits)

    def reset(self, original: Callable[..., Any], env: EnvBase, *args: Any, **kwargs: Any) -> Any:
        """``env.reset()``."""
        if self._watching.looks:
            self.played(env)
        return original(env, *args, **kwargs)

    def written(self, original: Callable[..., Any], buffer: Any, *args: Any, **kwargs: Any) -> Any:
        """``buffer.extend(batch)``, which a collector may call: it gives the script no batch."""
        seen = self._watching.seen
        if seen.frozen and not self._over and not self._watching.looks and args:
            acting = seen.actor()
            theirs = None if acting is None else getattr(acting.collector, "replay_buffer", None)
            if acting is not None and theirs is buffer and isinstance(args[0], TensorDictBase):
                self._collected(acting, args[0])
        return original(buffer, *args, **kwargs)

    def played(self, env: EnvBase) -> None:
        """The script itself is about to play it."""
        if not self._over:
            collecting = [one for one in self._watching.seen.acting if _collects_in(one, env)]
            if collecting and collecting[0].batches:
                self._played = str(calling_place(3)), collecting[0]

    def _collected(self, acting: Acting, batch: TensorDictBase) -> None:
        if self._over or acting is not self._watching.seen.actor() or not acting.batches:
            return
        by_step = acting.kind == "steps"
        self._tried += 1
        self._joined = self._joined or self._tried >= _TRIES
        self._over = self._joined and by_step
        with suppress(Exception):  # a batch of another form than those before
            last = acting.batches[-1][..., -1]["next"] if self._last is None else self._last
            self._note(acting, last, batch if by_step else batch[..., 0])
            self._last = (batch if by_step else batch[..., -1])["next"].detach().clone()

    def _note(self, acting: Acting, last: TensorDictBase, first: TensorDictBase) -> None:
        goes_on, played = _goes_on(acting, last, first), self._played
        self._played = None
        if not bool(goes_on.any()):  # all rows began anew: the next batch may tell
            return
        told, self._joined = self._joined, True
        if played is not None and played[1] is acting:
            acting.disturbed, self._over = played[0], True
        if told:
            return
        keys = [key for key in _states(acting) if key in tensor_keys(last)]
        pairs = {"collected": last, "given": first}
        rows = {
            name: td.reshape(-1).select(*keys)[goes_on].detach().clone()
            for name, td in pairs.items()
        }
        if keys:
            acting.joins.append(TensorDict(rows, [int(goes_on.sum())]))

    def _waits(self) -> bool:
        if self._over or not (self._played or self._may_be_played() or self._is_carried()):
            return False
        if self._joined and self._played is None and not self._may_be_played_later():
            return False
        updates, seconds = _FOR_ONE if self._played is None else _AFTER_ONE
        now = time.monotonic()
        self._since = self._since or now
        return now - self._since <= seconds and self._watching.seen.updates <= updates

    def _may_be_played(self) -> bool:
        """The script holds the env that its collector plays."""
        acting = self._watching.seen.actor()
        if acting is None or acting.collector is None or not acting.batches:
            return False
        return isinstance(acting.make_env, EnvBase)

    def _may_be_played_later(self) -> bool:
        return self._tried < _PLAYED_BY and self._may_be_played() and _plays_itself()

    def _is_carried(self) -> bool:
        """It steps an env of TorchRL's itself, or its rollouts may start where it says: one of them
        alone has come so far, and the next one tells."""
        acting = self._watching.seen.actor()
        if acting is None or isinstance(acting.make_env, PlainEnv):
            return False
        if acting.kind == "rollout" and len(acting.batches) == 1:
            return acting.more is None or not self._tried
        return acting.kind == "steps" and bool(acting.batches) and not self._tried


@cache
def _plays_itself() -> bool:
    """Whether a file of the script's names TorchRL's rollouts, as evaluations do."""
    files = {getattr(one, "__file__", None) or "" for one in [*sys.modules.values()]}
    return any("rollout(" in "".join(linecache.getlines(one)) for one in files if is_user_file(one))


def _states(acting: Acting) -> set[Key]:
    writes = {*declared(acting.policy, "out_keys"), *acting.writes}
    return {key[1:] for key in writes if key[0] == "next"}


def _goes_on(acting: Acting, last: TensorDictBase, first: TensorDictBase) -> Tensor:
    """``[rows]``: it begins with what was observed last, and no flag marks a beginning."""
    goes_on, compared = torch.ones(last.numel(), dtype=torch.bool), False
    shown, states = set(tensor_keys(last)), _states(acting)
    for key in tensor_keys(first):
        value = first.get(key)
        if key[-1] == _START and key[0] != "next":
            goes_on &= ~value.reshape(last.numel(), -1).any(1)
        if key not in shown or key in states or not value.is_floating_point():
            continue
        same = ~bits_differ(last.get(key), value)
        goes_on &= same.reshape(last.numel(), -1).all(1)
        compared = compared or bool(value.any())
    return goes_on if compared else torch.zeros_like(goes_on)


def _collects_in(acting: Acting, env: EnvBase) -> bool:
    """Whether its collector plays the same env, whatever is around it."""
    if acting.collector is None:
        return False
    theirs = (acting.make_env, getattr(acting.collector, "env", None))
    return any(isinstance(one, EnvBase) and _innermost(one) is _innermost(env) for one in theirs)


def _innermost(env: EnvBase) -> EnvBase:
    inner = env.__dict__.get("base_env", getattr(env, "_modules", {}).get("base_env"))
    return _innermost(inner) if isinstance(inner, EnvBase) else env
