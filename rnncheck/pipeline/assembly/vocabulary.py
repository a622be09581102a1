"""The classes of the installed TorchRL that a spec may name, and their arguments, for editors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.assembly.named import class_arguments
from rnncheck.spec.editor import KnownClass
from rnncheck.spec.model import Component

KINDS = {
    "env": c.ENV,
    "env.transforms": c.TRANSFORM,
    "modules": c.NN_MODULE,
    "collect": c.COLLECTOR,
    "replay": c.REPLAY,
    "replay.storage": c.STORAGE,
    "replay.sampler": c.SAMPLER,
    "replay.writer": c.WRITER,
    "replay.transforms": c.TRANSFORM,
    "advantage": c.ESTIMATOR,
    "loss": c.LOSS,
    "loss.target_update": c.UPDATER,
}


def installed_classes() -> dict[str, dict[str, KnownClass]]:
    """For each place of a spec, the classes that it may name."""
    return {place: dict(_classes(kind)) for place, kind in KINDS.items()}


def _classes(kind: c.ComponentKind) -> Iterator[tuple[str, KnownClass]]:
    for name in dict.fromkeys(c.class_names(kind)):
        found = c.public_class(name, kind)
        if found is not None:
            mine, free = class_arguments(Component(use=name), found, kind)
            told = {argument: _told(found, argument) for argument in mine}
            yield name, KnownClass(_first_sentence(found), told, free("an argument of no class"))


def _first_sentence(target: type) -> str:
    lines = (inspect.getdoc(target) or "").split("\n\n")[0].split()
    return " ".join(lines)


def _told(target: Any, argument: str) -> str:
    """The argument as the signature has it, with its default."""
    try:
        parameter = inspect.signature(target).parameters.get(argument)
    except (TypeError, ValueError):
        parameter = None
    return str(parameter) if parameter is not None else argument
