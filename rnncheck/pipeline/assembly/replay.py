"""The replay buffer: built from the spec or a factory, filled as users fill it, sampled."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Any

from tensordict import TensorDictBase
from torch import nn
from torchrl.envs.transforms import BurnInTransform, Transform

from rnncheck.errors import ComponentError, StageError
from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.assembly.factories import Offered, call_factory, wrong_type
from rnncheck.pipeline.assembly.nested import build_nested, offered_networks
from rnncheck.pipeline.assembly.values import convert_arguments
from rnncheck.pipeline.guard.calling import running
from rnncheck.pipeline.recording.buffer_order import parting_keys
from rnncheck.pipeline.subject.modes import InRecurrentMode
from rnncheck.spec.model import Component, ReplaySpec, Spec

RECURRENT = "recurrent_mode"
_BUFFER_LIKE = "a replay buffer, with `extend` and `sample`"
COMPILED = "SegmentTree"  # the classes that prioritized samplers need from TorchRL's compiled part
NO_EXTENSION = (
    "a prioritized sampler needs TorchRL's compiled extension, which does not load with this torch;"
    " install the torch version that this torchrl was built with"
)
_BUFFER_PARTS = {"storage": c.STORAGE, "sampler": c.SAMPLER, "writer": c.WRITER}


def build_replay(spec: Spec, section: ReplaySpec, offered: Offered, scratch: FilePath) -> Any:
    """The buffer. A LazyMemmapStorage of the spec's writes below ``scratch``, never where the
    training does."""
    try:
        return _build(spec, section, offered, scratch)
    except ComponentError as error:
        if COMPILED not in error.message:
            raise
        raise StageError("replay", NO_EXTENSION, place=error.place) from error


def _build(spec: Spec, section: ReplaySpec, offered: Offered, scratch: FilePath) -> Any:
    if section.factory is not None:
        buffer = _from_factory(spec, section, offered)
    else:
        buffer = _from_parts(spec, section, offered, scratch)
    for component in section.transforms:
        transform = _transform(spec, component, offered)
        with c.constructing(spec, component, type(transform)):
            buffer.append_transform(transform)
    return buffer


def _from_factory(spec: Spec, section: ReplaySpec, offered: Offered) -> Any:
    for name in _BUFFER_PARTS:
        part = getattr(section, name)
        if part is not None:
            raise ComponentError(
                f"{section.factory} makes the whole buffer, its {name} too",
                place=spec.locate(part.at),
                hint=f"leave `{name}` out, or name a buffer with `use`",
            )
    optional = {} if section.batch_size is None else {"batch_size": section.batch_size}
    made = call_factory(spec, section, offered, optional=optional)
    if all(callable(getattr(made, name, None)) for name in ("extend", "sample")):
        return made
    raise wrong_type(spec, section, made, _BUFFER_LIKE)


def _from_parts(spec: Spec, section: ReplaySpec, offered: Offered, scratch: FilePath) -> Any:
    target = c.find_class(spec, section.use or "", c.REPLAY, (*section.at, "use"))
    _refuse_ensembles(spec, section, target)
    args = convert_arguments(spec, section, lambda inner: build_nested(spec, inner, offered))
    c.check_arguments(spec, section, target, section.args)
    if section.batch_size is not None:
        args["batch_size"] = section.batch_size
    for name, part in _parts(spec, section, offered, scratch).items():
        args[name] = part
    return c.construct(spec, section, target, args)


def _refuse_ensembles(spec: Spec, component: Component, target: type) -> None:
    if target.__name__.endswith("Ensemble"):
        raise ComponentError(
            f"{target.__name__} is made of buffers or of their parts, which a spec cannot name",
            place=spec.locate((*component.at, "use")),
            hint=(
                "build the ReplayBufferEnsemble in a factory: `replay: {factory: module:function}`"
            ),
        )


def _parts(spec: Spec, section: ReplaySpec, offered: Offered, scratch: FilePath) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for name, kind in _BUFFER_PARTS.items():
        component = getattr(section, name)
        if component is not None:
            more = _provided(name, component, parts.get("storage"), scratch)
            parts[name] = _part(spec, component, kind, more, offered)
    return parts


def _provided(name: str, component: Component, storage: Any, scratch: FilePath) -> dict[str, Any]:
    """What a part is given besides its own arguments."""
    if name == "storage" and component.use == "LazyMemmapStorage":
        return {"scratch_dir": str(scratch)}
    if name == "sampler" and str(component.use).startswith("Prioritized"):
        size = getattr(storage, "max_size", None)
        return {} if size is None else {"max_capacity": size}
    return {}


def _part(
    spec: Spec, component: Component, kind: c.ComponentKind, more: dict[str, Any], offered: Offered
) -> Any:
    if component.factory is not None:
        made = call_factory(spec, component, offered)
        if not isinstance(made, kind.base_class()):
            raise wrong_type(spec, component, made, kind.what)
        return made
    target = c.find_class(spec, component.use or "", kind, (*component.at, "use"))
    _refuse_ensembles(spec, component, target)
    c.check_arguments(spec, component, target, component.args, provided=more)
    args = convert_arguments(spec, component, lambda inner: build_nested(spec, inner, offered))
    forced = {key: more[key] for key in ("scratch_dir",) if key in more}
    return c.construct(spec, component, target, {**more, **args, **forced})


def _transform(spec: Spec, component: Component, offered: Offered) -> Any:
    if component.factory is not None:
        made = call_factory(spec, component, offered)
        if isinstance(made, Transform) or (callable(made) and not isinstance(made, type)):
            return made
        raise wrong_type(spec, component, made, "a torchrl.envs.transforms.Transform or a callable")
    target = c.find_class(spec, component.use or "", c.TRANSFORM, (*component.at, "use"))
    burns = issubclass(target, BurnInTransform)
    more = {"modules": _burned_in(spec, component, offered)} if burns else {}
    also = [RECURRENT] if burns else []
    c.check_arguments(spec, component, target, component.args, provided=more, also=also)
    plain = _without(component, RECURRENT) if burns else component
    args = convert_arguments(spec, plain, lambda inner: build_nested(spec, inner, offered))
    return c.construct(spec, plain, target, {**more, **args})


def _burned_in(spec: Spec, component: Component, offered: Offered) -> list[nn.Module]:
    """The networks for a burn-in: in recurrent mode, as the reference has it, unless the spec says
    otherwise."""
    chosen = component.args.get(RECURRENT, True)
    if not isinstance(chosen, bool):
        raise c.bad_value(spec, (*component.at, RECURRENT), chosen, "true or false")
    found = offered_networks(offered)
    return [InRecurrentMode(network) for network in found] if chosen else found


def _without(component: Component, name: str) -> Component:
    args = {key: value for key, value in component.args.items() if key != name}
    return component.model_copy(update={"args": args})


def check_batch_size(spec: Spec, section: ReplaySpec, buffer: Any) -> None:
    """A TorchRL buffer that knows no batch size cannot be sampled."""
    if section.batch_size is None and getattr(buffer, "batch_size", 0) is None:
        raise ComponentError(
            "the replay buffer has no batch_size",
            place=spec.locate(section.at),
            hint="add `batch_size`: the number of steps of a sample",
        )


def fill(section: ReplaySpec, buffer: Any, batches: Iterable[TensorDictBase]) -> None:
    """Extend the buffer with each batch, as users do.

    ``flatten: rows`` is ``extend(data.reshape(-1))``, one step per item, as the tutorials do for a
    storage of one dimension; ``none`` is ``extend(data)``: as it is for a storage with ``ndim`` >
    1, or one row per item. ``auto`` chooses by the storage: rows where it has one dimension, or
    does not say, and can hold a batch of single steps.
    """
    for batch in batches:
        with running("replay"):
            buffer.extend(batch.reshape(-1) if _is_flat(section, buffer, batch) else batch)


def _is_flat(section: ReplaySpec, buffer: Any, batch: TensorDictBase) -> bool:
    if section.flatten != "auto":
        return section.flatten == "rows"
    storage = getattr(buffer, "storage", None)
    room = getattr(storage, "max_size", None)
    if isinstance(room, int) and batch.shape[0] <= room < batch.numel():
        return parting_keys(buffer) is not None  # a slice sampler wants steps even so
    return int(getattr(storage, "ndim", 1)) == 1


def stop_prefetching(buffer: Any) -> None:
    """Join the threads of a buffer that prefetches."""
    executor = getattr(buffer, "_prefetch_executor", None)
    with suppress(Exception):
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)
