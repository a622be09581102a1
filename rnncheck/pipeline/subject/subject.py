"""A policy or critic as the thing under test: what it carries, reads and writes, and how it is run."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from rnncheck.numerics.emulate import Computing
from rnncheck.pipeline.keys import Key, declared, root_keys, tensor_items, tensor_keys
from rnncheck.pipeline.subject.modes import SEED, measuring
from rnncheck.pipeline.subject.stock import scans
from rnncheck.results.model import Stage

FIRST_STEPS = 2  # one that begins a trajectory, one that does not


@dataclass(frozen=True)
class Carrier:
    """An innermost module that reads and writes carry keys; ``path`` is its name inside the policy."""

    path: str
    module: nn.Module
    keys: tuple[Key, ...]


def innermost(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Modules that declare keys and contain no other module that does, in order."""
    parts = [(path, m) for path, m in module.named_modules() if declared(m, "in_keys")]
    return [
        (path, part)
        for path, part in parts
        if not any(declared(m, "in_keys") for m in part.modules() if m is not part)
    ]


def all_reads(module: nn.Module) -> set[Key]:
    """Every key that the module or a part of it declares to read."""
    return {key for part in module.modules() for key in declared(part, "in_keys")}


def next_key(key: Key) -> Key:
    """Where the new state of carry ``key`` belongs."""
    return ("next", *key)


def carriers(module: nn.Module) -> list[Carrier]:
    """Every innermost module of ``module`` that declares to read ``k`` and to write ``("next", k)``."""
    found = list(_candidates(module))
    return [
        carrier
        for carrier in found
        if not any(_inside(other, carrier) and other.keys for other in found)
    ]


def _candidates(module: nn.Module) -> Iterator[Carrier]:
    for path, part in module.named_modules():
        reads, writes = declared(part, "in_keys"), declared(part, "out_keys")
        keys = tuple(dict.fromkeys(key for key in reads if next_key(key) in writes))
        if keys:
            yield Carrier(path, part, keys)


def _inside(inner: Carrier, outer: Carrier) -> bool:
    prefix = f"{outer.path}." if outer.path else ""
    return (
        inner is not outer and inner.path.startswith(prefix) and set(inner.keys) <= set(outer.keys)
    )


@dataclass
class Subject:
    """A module with its carry. ``module`` is pristine: every run takes a copy of it.

    ``fresh`` is the state that a trajectory starts from, ``[rows, *state]`` per carry key, one row per env.
    ``flags`` are the start-flag keys with the trailing shape of each. ``rank`` counts the env's batch dimensions.
    """

    stage: Stage
    module: nn.Module
    carry: tuple[Key, ...]
    flags: dict[Key, torch.Size]
    fresh: dict[Key, Tensor]
    rank: int
    batch_shape: tuple[int, ...]
    primed: frozenset[Key] = frozenset()  # carry keys that the env's own reset provides
    copyable: bool = True
    tile: int = 1  # copies of a row that are run together where the module refuses a single row
    _random: dict[bool, frozenset[Key]] = field(default_factory=dict)

    @cached_property
    def carriers(self) -> list[Carrier]:
        """The innermost modules that carry state."""
        return carriers(self.module)

    @cached_property
    def reads(self) -> tuple[Key, ...]:
        """Declared inputs; empty when the module declares none."""
        return declared(self.module, "in_keys")

    @cached_property
    def writes(self) -> tuple[Key, ...]:
        """Declared outputs."""
        return declared(self.module, "out_keys")

    def inputs_of(self, td: TensorDictBase) -> TensorDictBase:
        """What the module may read of recorded steps, without carry, start flags and its own outputs."""
        mine = set(self.carry) | set(self.flags)
        outputs = set(self.writes) - set(self.reads)
        keys = [key for key in root_keys(td) if key not in mine and key not in outputs]
        return td.select(*keys)

    def changeable_inputs(self, inputs: TensorDictBase) -> tuple[Key, ...]:
        """The inputs that a perturbation may touch: what is observed, floats before counters."""
        keys = tensor_keys(inputs)
        observed = [key for key in keys if key in self.reads] or list(keys)
        dense = [key for key in observed if _dense(inputs.get(key))]
        whole = [key for key in observed if not inputs.get(key).dtype.is_floating_point]
        return tuple(dense or [key for key in whole if inputs.get(key).dtype is not torch.bool])

    def copy(self, dtype: torch.dtype | None = None) -> nn.Module:
        """A fresh copy of the pristine module, in another float dtype if asked."""
        module = copy.deepcopy(self.module) if self.copyable else self.module
        return module if dtype is None else module.to(dtype)

    def lead(self, rows: int) -> tuple[int, ...]:
        """The batch shape of one step of ``rows`` rows, of the rank that the env has."""
        if self.rank == 0:
            return () if rows == 1 else (rows,)
        whole = torch.Size(self.batch_shape).numel() == rows
        return self.batch_shape if whole else (*([1] * (self.rank - 1)), rows)

    def flag_values(self, starts: Tensor) -> dict[Key, Tensor]:
        """Start flags for ``starts`` of any shape, expanded to each flag's trailing shape."""
        return {
            key: starts.reshape(*starts.shape, *([1] * len(tail))).expand(*starts.shape, *tail)
            for key, tail in self.flags.items()
        }


def _dense(values: Tensor) -> bool:
    return values.is_floating_point() or values.dtype is torch.uint8


def call(module: nn.Module, td: TensorDictBase) -> TensorDictBase:
    """Run ``module`` on ``td`` and return what it wrote (keys whose tensor is new or declared as output)."""
    written, shape = _written(module, td)
    return TensorDict(written, batch_size=shape)


def _written(module: nn.Module, td: TensorDictBase) -> tuple[dict[Key, Tensor], torch.Size]:
    """What ``call`` returns, with its batch size."""
    before = dict(tensor_items(td))
    result = module(td)
    out = result if isinstance(result, TensorDictBase) else td
    promised = set(declared(module, "out_keys"))
    found = {
        key: value
        for key, value in tensor_items(out)
        if key in promised or key not in before or value is not before[key]
    }
    return found, out.batch_size


def cast(td: TensorDictBase, dtype: torch.dtype | None) -> TensorDictBase:
    """Floating entries of ``td`` in ``dtype``."""
    if dtype is None:
        return td
    return td.apply(lambda value: value.to(dtype) if value.is_floating_point() else value)


def unroll(
    subject: Subject,
    inputs: TensorDictBase,
    starts: Tensor,
    state: dict[Key, Tensor] | None = None,
    fresh: dict[Key, Tensor] | None = None,
    *,
    module: nn.Module | None = None,
    dtype: torch.dtype | None = None,
    keep: Iterable[Key] = (),
    flagged: bool = True,
    explore: bool = False,
    grad: bool = False,
    memory: bool = True,
    seed: int = SEED,
) -> TensorDict:
    """Step ``inputs`` ``[rows, steps]`` through the module in sequential mode; outputs are ``[rows, steps]``.

    At ``starts`` the state becomes ``fresh`` (default: the subject's), except for the keys in ``keep``, which run on;
    ``flagged`` says whether the start flags are shown to the module. Without ``memory`` every step starts fresh.
    """
    if inputs.shape[0] < subject.tile:
        wide = _tiled(subject, inputs, starts, state, fresh)
        return unroll(
            subject, *wide, module=module, dtype=dtype, keep=keep, flagged=flagged,
            explore=explore, grad=grad, memory=memory, seed=seed,
        )[: inputs.shape[0]]  # fmt: skip
    rows, steps = inputs.shape[0], inputs.shape[1]
    own = subject.fresh if fresh is None else fresh
    begin = {key: _as(_per_row(value, rows), dtype) for key, value in own.items()}
    current = {key: _as(value, dtype) for key, value in (state or begin).items()}
    network = module if module is not None else subject.copy(dtype)
    renewed, outputs = current.keys() - set(keep), list[dict[Key, Tensor]]()
    restarts = starts if memory else torch.ones_like(starts)
    any_starts = restarts.any(0).tolist()
    columns = {key: value.unbind(1) for key, value in tensor_items(cast(inputs, dtype))}
    modes = measuring(recurrent=False, explore=explore, grad=grad, seed=seed)
    oracle = Wide(dtype)
    with modes, default_dtype(dtype):
        for t in range(steps):
            for key in renewed if any_starts[t] else ():
                current[key] = _where(restarts[:, t], begin[key], current[key])
            step = {key: column[t] for key, column in columns.items()}
            with oracle.at(t):
                out = _one_step(subject, network, step, current, starts[:, t] & flagged)
            current = {key: out.get(next_key(key), current[key]) for key in current}
            outputs.append(out)
    shared = set.intersection(*(set(out) for out in outputs))
    stacked = {key: torch.stack([out[key] for out in outputs], 1) for key in shared}
    return TensorDict(stacked, batch_size=[rows, steps])


def _tiled(
    subject: Subject,
    inputs: TensorDictBase,
    starts: Tensor,
    state: dict[Key, Tensor] | None,
    fresh: dict[Key, Tensor] | None,
) -> tuple[TensorDictBase, Tensor, dict[Key, Tensor], dict[Key, Tensor]]:
    """The rows over and over until there are as many as the module wants; the first ones are the asked."""
    index = torch.arange(subject.tile) % inputs.shape[0]
    begin = {k: _per_row(v, subject.tile) for k, v in (fresh or subject.fresh).items()}
    current = {k: _per_row(v, subject.tile) for k, v in (state or begin).items()}
    return inputs[index], starts[index], current, begin


def _one_step(
    subject: Subject,
    network: nn.Module,
    step: dict[Key, Tensor],
    state: dict[Key, Tensor],
    starts: Tensor,
) -> dict[Key, Tensor]:
    """One step of all rows; values are ``[rows, ...]``."""
    rows = starts.shape[0]
    lead = subject.lead(rows)
    given = {**step, **subject.flag_values(starts), **state}
    if lead != (rows,):
        given = {key: value.reshape((*lead, *value.shape[1:])) for key, value in given.items()}
    out, shape = _written(network, TensorDict(given, batch_size=lead))
    if tuple(shape) == (rows,):
        return out
    return {key: value.reshape((rows, *value.shape[len(shape) :])) for key, value in out.items()}


def run_recurrent(
    subject: Subject,
    batch: TensorDictBase,
    *,
    module: nn.Module | None = None,
    dtype: torch.dtype | None = None,
    grad: bool = False,
    seed: int = SEED,
) -> TensorDictBase:
    """Run ``batch`` (time is its last batch dimension) in recurrent mode; returns what was written."""
    network = module if module is not None else subject.copy(dtype)

    def run(wide: AbstractContextManager[object]) -> TensorDictBase:
        modes = measuring(recurrent=True, grad=grad, seed=seed)
        with modes, default_dtype(dtype), wide:
            return call(network, cast(batch, dtype).copy())

    if dtype is not None and not scans(network):
        with suppress(Exception):  # a scan of the user's own, which runs without
            return run(_throughout(dtype))
    return run(nullcontext())


class default_dtype:  # noqa: N801  a context manager named like a function
    """Tensors that the module makes itself follow the oracle's dtype."""

    def __init__(self, dtype: torch.dtype | None) -> None:
        self.dtype = dtype

    def __enter__(self) -> None:
        self.previous = torch.get_default_dtype()
        if self.dtype is not None:
            torch.set_default_dtype(self.dtype)

    def __exit__(self, *_: object) -> None:
        torch.set_default_dtype(self.previous)


def _throughout(dtype: torch.dtype | None) -> AbstractContextManager[object]:
    """The oracle is not rounded by the casts to narrower floats that a module makes inside."""
    return nullcontext() if dtype is None else Computing(dtype)


class Wide:
    """``_throughout`` for one step after another: a module that casts nothing in its first steps never does."""

    def __init__(self, dtype: torch.dtype | None) -> None:
        self.mode = None if dtype is None else Computing(dtype)

    def at(self, t: int) -> AbstractContextManager[object]:
        """The context of step ``t``."""
        watching = self.mode is not None and (t < FIRST_STEPS or self.mode.acted)
        return self.mode if watching and self.mode is not None else nullcontext()


def _per_row(value: Tensor, rows: int) -> Tensor:
    """One value per row; row ``r`` belongs to env ``r mod envs``."""
    return value[torch.arange(rows) % value.shape[0]]


def _as(value: Tensor, dtype: torch.dtype | None) -> Tensor:
    return value.to(dtype) if dtype is not None and value.is_floating_point() else value


def _where(mask: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """``left`` where ``mask`` ``[rows]``; the state keeps its own dtype."""
    wide = mask.reshape(-1, *([1] * (right.ndim - 1)))
    return torch.where(wide, left.to(right.dtype), right)
