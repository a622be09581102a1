"""Collection: the spec's collector, or the user's own, and the batches that it gives."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from rnncheck.errors import ComponentError, StageError
from rnncheck.pipeline import components as c
from rnncheck.pipeline.env import build_any
from rnncheck.pipeline.factories import call_factory, load_factory, wrong_type
from rnncheck.pipeline.frames import describe, passed_through
from rnncheck.pipeline.guard import running
from rnncheck.pipeline.values import convert_arguments
from rnncheck.spec.model import Component, Spec

BATCHES = 2  # taken where the spec does not say how many
OURS = ("batches",)
ITERABLE = "an iterable of tensordicts (a Collector, a generator, a list) or one tensordict"
# files that are on the stack only while a policy or an env runs
RUNNING = ("torch/nn/modules/module.py", "tensordict/nn/", "torchrl/envs/")
MISSING_TRANSFORMS = "missing transforms required by the policy"


def open_collector(
    spec: Spec,
    component: Component,
    offered: dict[str, Callable[[], Any]],
    source: EnvBase | Callable[[], EnvBase],
    device: torch.device,
) -> Any:
    """The collector that the spec names, over ``source``, or the one that its factory returns."""
    if component.factory is None:
        args = _collector_arguments(spec, component, device)
        args = {"create_env_fn": source, "policy": offered["policy"](), **args}
        return _torchrl_collector(spec, component, args)
    plain = component.model_copy(update={"args": _without_ours(spec, component)})
    made = call_factory(spec, plain, offered)
    if isinstance(made, TensorDictBase) or _is_batches(made):
        return made
    raise wrong_type(spec, component, made, ITERABLE)


@contextmanager
def opening() -> Iterator[None]:
    """Collectors run a first step while they are built: what the policy or env raises there is no one's
    typing mistake but the stage's outcome."""
    try:
        yield
    except ComponentError as error:
        if error.__cause__ is None or not passed_through(error.__cause__, RUNNING):
            raise
        trouble = describe(error.__cause__)
        raise StageError(
            "collect", trouble.message, place=trouble.place, frames=trouble.frames
        ) from error


def _is_batches(made: Any) -> bool:
    return isinstance(made, Iterable) and not isinstance(made, (str, bytes, dict))


def _without_ours(spec: Spec, component: Component) -> dict[str, Any]:
    """``batches`` is for rnncheck, unless the factory declares it itself."""
    declared = c.accepts(load_factory(spec, component)).names
    return {k: v for k, v in component.args.items() if k not in OURS or k in declared}


def _torchrl_collector(spec: Spec, component: Component, args: dict[str, Any]) -> Any:
    plain = component.model_copy(update={"args": _without(component.args, OURS)})
    return c.construct(spec, plain, _collector_class(spec, component), args)


def _collector_class(spec: Spec, component: Component) -> type:
    at = (*component.at, "use")
    target = c.find_class(spec, component.use or "", c.COLLECTOR, at)
    if target.__name__ not in c.SINGLE_PROCESS:
        raise c.bad_value(spec, at, component.use, "a single-process collector", ["Collector"])
    return target


def _collector_arguments(spec: Spec, component: Component, device: torch.device) -> dict[str, Any]:
    target = _collector_class(spec, component)
    ready = ("create_env_fn", "policy")
    c.check_arguments(spec, component, target, component.args, provided=ready, also=OURS)
    if "frames_per_batch" not in component.args:
        raise ComponentError(
            f"{component.use} needs 'frames_per_batch'", place=spec.locate(component.at)
        )
    plain = component.model_copy(update={"args": _without(component.args, OURS)})
    args = convert_arguments(spec, plain, lambda inner: build_any(spec, inner))
    _set_total_frames(spec, component, args)
    if device.type != "cpu":
        args.setdefault("device", device)
    return args


def _set_total_frames(spec: Spec, component: Component, args: dict[str, Any]) -> None:
    frames = args["frames_per_batch"]
    if not isinstance(frames, int) or isinstance(frames, bool) or frames < 1:
        at = (*component.at, "frames_per_batch")
        raise c.bad_value(spec, at, frames, "a whole number of at least 1")
    args.setdefault("total_frames", frames * wanted_batches(spec, component))


def _without(args: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in args.items() if key not in names}


def wanted_batches(spec: Spec, component: Component) -> int:
    """How many batches to take at most."""
    count = component.args.get("batches", BATCHES)
    if isinstance(count, int) and not isinstance(count, bool) and count > 0:
        return count
    raise c.bad_value(spec, (*component.at, "batches"), count, "a whole number of at least 1")


def draw(collector: Any, limit: int) -> Iterator[TensorDictBase]:
    """At most ``limit`` batches, each a copy of its own: collectors write into the same memory again."""
    if isinstance(collector, TensorDictBase):
        yield collector.detach().clone()
        return
    count = 0
    for batch in itertools.islice(iter(collector), limit):
        yield _copied(batch)
        count += 1
    if count == 0:
        raise StageError("collect", "the collector gave no batch")


def _copied(batch: Any) -> TensorDictBase:
    if isinstance(batch, TensorDictBase):
        return batch.detach().clone()
    kind = "None" if batch is None else f"an object of type {type(batch).__name__}"
    because = "; with a replay_buffer it gives none" if batch is None else ""
    raise StageError("collect", f"the collector gave {kind} instead of a tensordict{because}")


def collect(collector: Any, limit: int, batches: list[TensorDictBase]) -> None:
    """Run the collector into ``batches``, which keeps what was there before something goes wrong."""
    with running("collect"):
        for batch in draw(collector, limit):
            batches.append(batch)


def acting_env(collector: Any) -> EnvBase | None:
    """The env that the collector really steps."""
    env = getattr(collector, "env", None)
    return env if isinstance(env, EnvBase) else None


def advice(caught: Iterable[warnings.WarningMessage]) -> list[str]:
    """The warnings that are about the pipeline; all others are TorchRL talking to itself."""
    texts = [str(one.message) for one in caught if MISSING_TRANSFORMS in str(one.message)]
    return [" ".join(text.split()) for text in dict.fromkeys(texts)]
