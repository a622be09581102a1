"""Stands for what a script writes its records to, where its lines are called again: nothing is
written twice; and for envs that cannot be copied."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

# Of loggers that write a step's numbers away, by the module of their class.
_LOGGERS = ("torch.utils.tensorboard", "tensorboardX", "tensorboard", "wandb", "torchrl.record")
# Methods by which files, writers and loggers take records, and end.
_TAKES = ("write", "flush", "close", "log", "add_", "record", "finish", "tell", "seek")
_LOOKS = (
    "single_observation_space",
    "single_action_space",
    "observation_space",
    "action_space",
    "num_envs",
    "metadata",
    "spec",
)
_CSV = (type(csv.writer(io.StringIO())), csv.DictWriter)


class Nowhere:
    """Takes every call, and keeps nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(_TAKES):
            return _taken
        raise AttributeError(name)

    def __enter__(self) -> Nowhere:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class SpacesOf:
    """Stands for envs in processes of their own, which cannot be copied: what they look like."""

    def __init__(self, envs: Any) -> None:
        for name in _LOOKS:
            setattr(self, name, getattr(envs, name, None))


def _taken(*_args: Any, **_kwargs: Any) -> None:
    """A call that does nothing."""


def writes_records(value: Any) -> bool:
    """Whether it is an open file, a writer of rows or a logger's."""
    if isinstance(value, (io.IOBase, *_CSV)):
        return True
    return type(value).__module__.startswith(_LOGGERS)
