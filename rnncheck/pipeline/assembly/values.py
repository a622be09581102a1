"""YAML values as the Python values that TorchRL's classes take: classes, dtypes, keys,
components."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rnncheck.pipeline.assembly import components as c
from rnncheck.spec.model import Component, KeyPath, Spec

Build = Callable[[Component], Any]  # builds a component that is nested in another's arguments
TENSORS = {"support"}  # of a distributional Q-value
EXPLORATION = {"exploration_type", "default_interaction_type"}


def convert_arguments(spec: Spec, component: Component, build: Build) -> dict[str, Any]:
    """All arguments of a component, converted by their names."""
    return {
        name: convert_argument(spec, name, value, (*component.at, name), build)
        for name, value in component.args.items()
    }


def convert_argument(spec: Spec, name: str, value: Any, at: KeyPath, build: Build) -> Any:
    """One argument. Its name says what a string or a list in it stands for."""
    inner = c.nested(value, at)
    if inner is not None:
        return build(inner)
    if isinstance(value, dict) and name in c.KEY_LISTS:  # by parameter of a distribution
        return {k: c.one_key(key) for k, key in value.items()}
    if isinstance(value, dict):
        return {k: convert_argument(spec, str(k), v, (*at, k), build) for k, v in value.items()}
    if isinstance(value, list):
        return _convert_list(spec, name, value, at, build)
    if isinstance(value, str):
        return _convert_name(spec, name, value, at)
    return value


def _convert_list(spec: Spec, name: str, value: list[Any], at: KeyPath, build: Build) -> Any:
    if name in c.KEY_LISTS:
        return c.as_keys(value)
    if c.is_key_argument(name) or name in ("in_key", "out_key"):
        return c.one_key(value)
    if name in TENSORS:
        return _tensor(spec, value, at)
    return [convert_argument(spec, name, item, (*at, i), build) for i, item in enumerate(value)]


def _convert_name(spec: Spec, name: str, value: str, at: KeyPath) -> Any:
    if name in c.KEY_LISTS:
        return c.as_keys(value)
    if name == "distribution_class":
        return c.find_class(spec, value, c.DISTRIBUTION, at)
    if name.endswith("_class"):
        return c.find_class(spec, value, c.NN_MODULE, at)
    if "dtype" in name:
        return _dtype(spec, value, at)
    if name in EXPLORATION:
        return _exploration(spec, value, at)
    return value


def _tensor(spec: Spec, value: list[Any], at: KeyPath) -> Any:
    import torch

    try:
        return torch.tensor(value)
    except (TypeError, ValueError):
        raise c.bad_value(spec, at, value, "a list of numbers") from None


def _dtype(spec: Spec, value: str, at: KeyPath) -> Any:
    import torch

    found = getattr(torch, value.removeprefix("torch."), None)
    if isinstance(found, torch.dtype):
        return found
    names = sorted(n for n in dir(torch) if isinstance(getattr(torch, n), torch.dtype))
    raise c.bad_value(spec, at, value, "a dtype of torch", names)


def _exploration(spec: Spec, value: str, at: KeyPath) -> Any:
    from torchrl.envs.utils import ExplorationType

    names = {one.name.lower(): one for one in ExplorationType}
    if value.lower() not in names:
        raise c.bad_value(spec, at, value, "an exploration type", names)
    return names[value.lower()]
