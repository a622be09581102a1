"""Policies that the workers of a collector make by themselves, by ``policy_factory=``.

The script holds none of what acts; it sends weights. The module whose weights these are acts as the
workers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.collectors import BaseCollector

from rnncheck.watching.forms.called_policy import as_module
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.patching import kinds_of, replace
from rnncheck.watching.seen import Acting, Sightings
from rnncheck.watching.weights import is_equal

_COLLECTORS = "torchrl.collectors"
_SENDS = "update_policy_weights_"
_POLICY = "policy"  # the name that TorchRL gives the model that acts


def sending_seams(watching: Watching, scope: ExitStack) -> None:
    """Open the seams until ``scope`` ends."""
    for kind in collectors():
        if _SENDS in kind.__dict__:
            replace(scope, kind, _SENDS, _Sending(watching))
    watching.at_the_first_update.append(lambda: _recognise(watching.seen))


def collectors() -> list[type]:
    """TorchRL's collectors, the base first."""
    return [one for one in kinds_of(BaseCollector) if one.__module__.startswith(_COLLECTORS)]


class _Sending:
    """``collector.update_policy_weights_(...)``."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    def __call__(
        self, original: Callable[..., None], collector: Any, *args: Any, **kwargs: Any
    ) -> None:
        seen = self._watching.seen
        if self._watching.looks and not seen.frozen:
            for one in seen.acting:
                if one.collector is collector and one.sent is not None:
                    _note(seen, one, _of_who_acts([*args, *kwargs.values()]))
        with self._watching.inside():
            original(collector, *args, **kwargs)


def _note(seen: Sightings, acting: Acting, given: Any) -> None:
    if isinstance(given, nn.Module):
        acting.policy = as_module(given)
    elif given is not None:
        acting.policy, acting.sent = None, [one.detach().clone() for one in _tensors(given)]
        _recognise(seen)


def _of_who_acts(given: list[Any]) -> Any:
    """The first module or weights among the arguments; of several models what acts, and of several
    workers the first."""
    found = next((one for one in given if isinstance(one, nn.Module | TensorDictBase | dict)), None)
    while isinstance(found, dict) and not _holds_tensors(found):
        found = found.get(_POLICY, next(iter(found.values()), None))
    return found


def _holds_tensors(given: Mapping[Any, Any]) -> bool:
    return any(isinstance(one, Tensor) for one in given.values())


def _tensors(given: Any) -> Iterator[Tensor]:
    """All that weights hold, however they are nested."""
    for one in given.values(True, True) if isinstance(given, TensorDictBase) else given.values():
        if isinstance(one, Mapping):
            yield from _tensors(one)
        elif isinstance(one, Tensor):
            yield one


def _recognise(seen: Sightings) -> None:
    """Those who acted by weights alone are the module of a loss that holds these."""
    for one in seen.acting:
        if one.policy is None and one.sent:
            known = (network for _, _, network in seen.networks)
            one.policy = next((found for found in known if _holds(found, one.sent)), None)


def _holds(module: nn.Module, sent: list[Tensor]) -> bool:
    """Whether these are its weights, and all of them."""
    own, rest = list(module.parameters()), [*module.parameters(), *module.buffers()]
    return (
        bool(own)
        and all(any(is_equal(one, other) for other in sent) for one in own)
        and all(any(is_equal(one, other) for other in rest) for one in sent)
    )
