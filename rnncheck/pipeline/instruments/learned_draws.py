"""What is drawn from distributions that are trained themselves, such as the latents of an RSSM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

_NAMES = ("sample", "rsample")


class LearnedDraws:
    """While the context is open, ``drawn`` are the samples of distributions whose spread depends on
    parameters that are trained: a noise of fixed size is none."""

    def __init__(self) -> None:
        self.drawn: list[Tensor] = []
        self._before: list[tuple[type[Distribution], str, Any]] = []

    def __enter__(self) -> LearnedDraws:
        for kind in set(_kinds(Distribution)):
            for name in _NAMES:
                if name in vars(kind):
                    self._before.append((kind, name, vars(kind)[name]))
                    setattr(kind, name, self._noting(vars(kind)[name]))
        return self

    def __exit__(self, *_: object) -> None:
        for kind, name, method in reversed(self._before):
            setattr(kind, name, method)
        self._before.clear()

    def _noting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def draw(of: Distribution, *args: Any, **kwargs: Any) -> Any:
            found = method(of, *args, **kwargs)
            if isinstance(found, Tensor) and _is_trained(of):
                self.drawn.append(found.detach())
            return found

        return draw


def _kinds(kind: type[Distribution]) -> Iterator[type[Distribution]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _kinds(one)


def _is_trained(of: Distribution) -> bool:
    """Whether a gradient goes into its spread."""
    with torch.enable_grad():
        for spread in (_entropy, _variance):
            with suppress(Exception):  # not every distribution has it, or of such parameters
                return bool(spread(of).requires_grad)
    return False


def _entropy(of: Distribution) -> Tensor:
    value: Tensor = of.entropy()
    return value


def _variance(of: Distribution) -> Tensor:
    return of.variance
