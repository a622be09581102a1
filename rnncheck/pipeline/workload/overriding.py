"""Overrides of a sweep (hidden size, layers, kind) as changes of the spec's recurrent modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.pipeline.workload import CannotRun
from rnncheck.spec.model import NetworkSpec, Spec

_STOCK_MODULES = ("LSTMModule", "GRUModule")
_SIZES = ("hidden_size", "num_layers")


def override_texts(spec: Spec, overrides: dict[str, Any]) -> list[str]:
    """``KEY=VALUE`` texts for every recurrent module that the spec names.

    Raises CannotRun where the policy comes from a factory.
    """
    networks = {"policy": spec.policy, **({"critic": spec.critic} if spec.critic else {})}
    found = [text for name, net in networks.items() for text in _texts(name, net, overrides)]
    if not found:
        raise CannotRun(
            f"{', '.join(overrides)} can be overridden only where the spec names LSTMModule or"
            " GRUModule by `use`"
        )
    return found


def _texts(name: str, network: NetworkSpec, overrides: dict[str, Any]) -> Iterator[str]:
    for index, component in enumerate(network.modules):
        if component.use not in _STOCK_MODULES:
            continue
        at = f"{name}.modules.{index}"
        for argument in _SIZES:
            if argument in overrides:
                yield f"{at}.{argument}={overrides[argument]}"
        if "kind" in overrides:
            yield f"{at}.use={overrides['kind']}Module"
