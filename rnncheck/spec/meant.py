"""Which key was meant by one that the spec does not know."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from rnncheck.errors import nearest
from rnncheck.spec.model import Component, KeyPath, Spec

# What TorchRL and its users call what the spec's own sections hold; the letters alone do not tell.
_OTHER_WORDS = {
    "actor": "policy",
    "agent": "policy",
    "buffer": "replay",
    "environment": "env",
    "estimator": "advantage",
    "gae": "advantage",
    "model": "policy",
    "network": "policy",
    "objective": "loss",
    "replay_buffer": "replay",
    "value": "critic",
    "value_network": "critic",
}


def key_meant(at: KeyPath, known: Iterable[str]) -> str | None:
    """The known key beside which the last one of ``at`` is a slip or another word."""
    name = str(at[-1])
    if len(at) > 1:
        return nearest(name, known)
    if name in _inside():
        return None
    return nearest(name, known) or _OTHER_WORDS.get(name.lower())


def key_hint(at: KeyPath, known: Iterable[str]) -> str:
    """What to write instead of an unknown key, where that can be told."""
    sections = _inside().get(str(at[-1]), ()) if len(at) == 1 else ()
    if sections:
        return f"it is a key of {' and of '.join(repr(one) for one in sections)}"
    meant = key_meant(at, known)
    return f"did you mean {meant!r}?" if meant else ""


@cache
def _inside() -> dict[str, tuple[str, ...]]:
    """The keys that sections have, with these sections."""
    found: dict[str, tuple[str, ...]] = {}
    for section, field in Spec.model_fields.items():
        model = _model(field.annotation)
        hidden = set(Component.model_fields) if model is not None else set[str]()
        for key in [] if model is None else model.model_fields:
            if key not in hidden and key not in Spec.model_fields:
                found[key] = (*found.get(key, ()), section)
    return found


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model of a section, which may be absent; a tuple of models is a list's."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    several = [one for one in get_args(annotation) if isinstance(one, type)]
    return next(filter(None, map(_model, several)), None)
