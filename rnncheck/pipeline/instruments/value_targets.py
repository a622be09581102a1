"""What a TorchRL loss computes on its way: next values, targets, terms before reduction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor


class Targets:
    """Notes the targets and next values that a TorchRL loss asks of its value estimator, inside the
    context."""

    def __init__(self, loss: Any) -> None:
        self.seen: dict[str, Tensor] = {}
        self._estimator = _estimator_of(loss)

    def __enter__(self) -> Targets:
        for name, label in (("value_estimate", "target"), ("_next_value", "next value")):
            original = getattr(self._estimator, name, None)
            if callable(original):
                self._estimator.__dict__[name] = self._noting(original, label)
        return self

    def _noting(self, original: Callable[..., Any], label: str) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            value = original(*args, **kwargs)
            if isinstance(value, Tensor):
                self.seen.setdefault(label, value.detach().clone())
            given = kwargs.get("next_value")
            if isinstance(given, Tensor):
                self.seen.setdefault("next value", given.detach().clone())
            return value

        return noted

    def __exit__(self, *_: object) -> None:
        for name in ("value_estimate", "_next_value"):
            if self._estimator is not None:
                self._estimator.__dict__.pop(name, None)


def _estimator_of(loss: Any) -> Any:
    try:
        return getattr(loss, "value_estimator", None)
    except Exception:  # a property that builds the estimator may refuse to
        return None


@contextmanager
def unreduced(loss: Any, wanted: bool = True) -> Iterator[Callable[[], bool]]:
    """Ask a TorchRL loss for its terms before reduction; yields whether it can give them."""
    kind = getattr(loss, "reduction", None)
    can = wanted and isinstance(kind, str)
    if can:
        loss.reduction = "none"
    try:
        yield lambda: can
    finally:
        if can:
            loss.reduction = kind


def same_targets(loss: Any) -> bool:
    """Whether every target network of a TorchRL loss has the weights of the trained one (as it has
    when built)."""
    for name in getattr(loss, "_target_names", None) or _target_names(loss):
        trained = getattr(loss, name.removeprefix("target_"), None)
        target = getattr(loss, name, None)
        if trained is None or target is None:
            continue
        pairs = zip(trained.flatten_keys().values(), target.flatten_keys().values(), strict=False)
        if any(not bool((a == b).all()) for a, b in pairs if isinstance(a, Tensor)):
            return False
    return True


def _target_names(loss: Any) -> list[str]:
    names = [name for name in dir(type(loss)) if name.startswith("target_")]
    return [name for name in names if name.endswith("_params")]
