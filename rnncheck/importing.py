"""Imports that take seconds, in a process that does nothing else meanwhile."""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module

# What every command imports that runs a pipeline.
PIPELINES = ("torchrl.envs", "torchrl.collectors", "torchrl.objectives.value", "torchrl.modules")


def import_ahead(*modules: str) -> None:
    """Import them, as far as that can be, without collections of garbage: these walk all that was
    imported before, again and again, and take a third of the time. What is there then is never
    walked again, as far as it lives as long as the process. What cannot be imported is told where
    it is needed."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        for name in modules:
            with suppress(Exception):
                import_module(name)
    finally:
        if collecting:
            gc.enable()
    gc.freeze()
