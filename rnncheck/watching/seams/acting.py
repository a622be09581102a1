"""The seams at which a script acts: collectors, and ``env.rollout``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

from tensordict import TensorDictBase
from torch import nn
from torchrl.collectors import BaseCollector
from torchrl.envs import EnvBase
from torchrl.envs.utils import set_exploration_type
from torchrl.modules import set_recurrent_mode

from rnncheck.pipeline.guard.user_frames import calling_place, is_user_file
from rnncheck.watching import weights
from rnncheck.watching.envs import kept, one_of
from rnncheck.watching.forms.called_policy import as_module, is_of
from rnncheck.watching.forms.named_switches import as_acted, modes_of
from rnncheck.watching.forms.switches import switches_of
from rnncheck.watching.observer import Watching, modes_now
from rnncheck.watching.seams.patching import replace
from rnncheck.watching.seams.sent_weights import collectors
from rnncheck.watching.seams.stored import read_back
from rnncheck.watching.seen import Acting, copy_now

# Batches that are taken behind the last update, with the weights before the first: the fewest that
# have a join between them.
FURTHER = 2


def acting_seams(watching: Watching, scope: ExitStack) -> None:
    """Open the seams until ``scope`` ends."""
    for kind in collectors():
        if "__init__" in kind.__dict__:
            replace(scope, kind, "__init__", _Built(watching))
    replace(scope, BaseCollector, "__iter__", _Iterated(watching))
    replace(scope, EnvBase, "rollout", _RolledOut(watching))
    watching.at_the_first_update.append(lambda: _keep(watching))
    watching.at_the_end.append(lambda: take_further(watching))


def _keep(watching: Watching) -> None:
    for one in watching.seen.acting:
        one.make_env = kept(one.make_env)
        one.made = vars(one.collector).get("env") if one.collector is not None else None
        read_back(one)


class _Built:
    """``Collector(create_env_fn, policy, ...)``."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    def __call__(self, original: Callable[..., None], made: Any, *args: Any, **kwargs: Any) -> None:
        if not self._watching.looks:
            original(made, *args, **kwargs)
            return
        given = _arguments(original, made, args, kwargs)
        make = one_of(given.get("create_env_fn"))
        mine = Acting(
            "collector", as_module(given.get("policy")), make, calling_place(3), collector=made
        )
        self._watching.seen.acting.append(mine)  # it may raise: that is to be judged as well
        with self._watching.inside():
            original(made, *args, **kwargs)
        if mine.policy is None:
            mine.policy = as_module(getattr(made, "policy", None))
        if mine.policy is None and given.get("policy_factory") is not None:
            mine.sent = []


def _arguments(
    function: Callable[..., Any], made: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments by name, as far as the signature tells."""
    with suppress(TypeError, ValueError):
        bound = inspect.signature(_named(function, made)).bind_partial(made, *args, **kwargs)
        return {**bound.arguments, **bound.arguments.pop("kwargs", {}), **kwargs}
    return kwargs


def _named(function: Callable[..., Any], made: Any) -> Callable[..., Any]:
    """The function; of a constructor that hands ``*args`` on the one behind it, which names
    them."""
    behind = type(made).__mro__ if function.__name__ == "__init__" else ()
    makers = (function, *(getattr(one, function.__name__) for one in behind))
    return next((one for one in makers if not _takes_any(one)), function)


def _takes_any(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)


class _Iterated:
    """``for batch in collector``."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    def __call__(self, original: Callable[..., Iterator[Any]], collector: Any) -> Iterator[Any]:
        source = original(collector)
        seen = self._watching.seen
        mine = next((one for one in seen.acting if one.collector is collector), None)
        return source if mine is None else self._followed(source, mine)

    def _followed(self, source: Iterator[Any], mine: Acting) -> Iterator[Any]:
        mine.more = lambda: next(source, None)
        try:
            while True:
                if self._watching.looks:
                    mine.modes = modes_now()
                try:
                    with self._watching.inside():
                        batch = next(source)
                except StopIteration:
                    mine.spent = not self._watching.seen.frozen
                    return
                self._note(mine, batch)
                yield batch
        finally:
            close = getattr(source, "close", None)
            if close is not None:
                close()

    def _note(self, mine: Acting, batch: Any) -> None:
        seen = self._watching.seen
        if not self._watching.looks or not isinstance(batch, TensorDictBase):
            return
        if seen.frozen:
            self._watching.move_on(mine, batch)
        else:
            self._watching.collected()
            mine.batches.append(copy_now(batch))
            _note_switches(mine)


class _RolledOut:
    """``env.rollout(steps, policy)``, called by the script itself."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    def __call__(
        self, original: Callable[..., Any], env: EnvBase, *args: Any, **kwargs: Any
    ) -> Any:
        mine = is_user_file(sys._getframe(2).f_code.co_filename) and self._watching.looks
        for note in self._watching.at_a_rollout if mine else ():
            note(env)
        modes, place = modes_now(), calling_place(3)
        with self._watching.inside():
            data = original(env, *args, **kwargs)
        given = _arguments(original, env, args, kwargs)
        policy = given.get("policy")
        if mine and policy is not None and isinstance(data, TensorDictBase):
            again = None if _goes_on(given) else lambda: original(env, *args, **kwargs)
            self._note(env, policy, place, data, again)
            self._watching.seen.acting[-1].modes = modes
        return data

    def _note(
        self,
        env: EnvBase,
        policy: Any,
        place: Any,
        data: TensorDictBase,
        again: Callable[[], Any] | None,
    ) -> None:
        seen = self._watching.seen
        known = [one for one in seen.acting if one.env is env]
        acting = next((one for one in known if is_of(one.policy, policy)), None)
        if acting is None:
            acting = Acting("rollout", as_module(policy), env, place, env=env)
        else:
            seen.acting.remove(acting)
        seen.acting.append(acting)
        acting.anew = again is not None and (acting.anew or not acting.batches)
        acting.more = again
        if seen.frozen:
            self._watching.move_on(acting, data)
        else:
            self._watching.collected()
            acting.batches.append(copy_now(data))
            _note_switches(acting)


def _goes_on(given: dict[str, Any]) -> bool:
    """Whether it starts where the script says: the same call again would start there once more."""
    return given.get("tensordict") is not None or not given.get("auto_reset", True)


def _note_switches(acting: Acting) -> None:
    if isinstance(acting.policy, nn.Module) and not acting.switches:
        acting.switches = switches_of(acting.policy)
        acting.trains = modes_of(acting.policy)


def take_further(watching: Watching) -> None:
    """Two more batches in a row of whoever acted, with the weights before the first update: what a
    script collects between its updates has other weights from batch to batch."""
    seen = watching.seen
    acting = seen.actor()
    if acting is None or acting.more is None or acting.modes is None:
        return
    if getattr(acting.collector, "closed", False):  # its workers are gone, and answer nothing
        return
    with (
        weights.instead(seen.weights),
        as_acted(acting.policy, acting.switches, acting.trains),
        set_recurrent_mode(acting.modes.recurrent),
        set_exploration_type(acting.modes.explore),
        suppress(Exception),  # it goes without them: what was collected before is judged
    ):
        if acting.collector is not None:
            _sent(acting)
            acting.collector.reset()
        for _ in range(FURTHER):
            batch = acting.more()
            if not isinstance(batch, TensorDictBase):
                break
            acting.further.append(copy_now(batch))


def _sent(acting: Acting) -> None:
    """Workers of other processes get the weights."""
    with suppress(Exception):
        acting.collector.update_policy_weights_(*[] if acting.sent is None else [acting.policy])
