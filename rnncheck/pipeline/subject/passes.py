"""How a subject is run: step by step in sequential mode, or all at once in recurrent mode."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from rnncheck.numerics.emulate import Computing
from rnncheck.pipeline.keys import Key, declared, tensor_items
from rnncheck.pipeline.placing import device_of, on_cpu, placed
from rnncheck.pipeline.subject.modes import MEASURING_SEED, measuring
from rnncheck.pipeline.subject.stock import scans
from rnncheck.pipeline.subject.subject import Subject, next_key

_FIRST_STEPS = 2  # one that begins a trajectory, one that does not


def call(module: nn.Module, td: TensorDictBase) -> TensorDictBase:
    """Run ``module`` on ``td`` and return what it wrote, on the CPU; it runs where its weights lie.

    That is every key whose tensor is new or that is declared as an output.
    """
    written, shape = _written(module, td)
    return TensorDict(written, batch_size=shape)


def _written(module: nn.Module, td: TensorDictBase) -> tuple[dict[Key, Tensor], torch.Size]:
    """What ``call`` returns, with its batch size."""
    given = placed(td, device_of(module))
    before = dict(tensor_items(given))
    result = module(given)
    out = result if isinstance(result, TensorDictBase) else given
    promised = set(declared(module, "out_keys"))
    found = {
        key: on_cpu(value)
        for key, value in tensor_items(out)
        if key in promised or key not in before or value is not before[key]
    }
    return found, out.batch_size


def cast(td: TensorDictBase, dtype: torch.dtype | None) -> TensorDictBase:
    """Floating entries of ``td`` in ``dtype``."""
    if dtype is None:
        return td
    return td.apply(lambda value: value.to(dtype) if value.is_floating_point() else value)


@dataclass(frozen=True)
class StartStates:
    """The states that an unroll starts from, ``[rows, *state]`` per carry key.

    ``first`` is the state before the first step (default: ``fresh``). ``fresh`` is what it becomes
    at every start (default: the subject's own), except for the keys in ``kept``, which run on.
    ``drawn`` ``[rows, steps, *state]`` are states that the module makes of random numbers, such as
    its last action: at every step what was drawn for it, in the place of what is drawn again.
    ``flags`` ``[rows, steps, *flag]`` are start flags as they were recorded, for the module to read
    where agents of one row begin one by one.
    """

    first: Mapping[Key, Tensor] | None = None
    fresh: Mapping[Key, Tensor] | None = None
    kept: Collection[Key] = ()
    drawn: Mapping[Key, Tensor] = field(default_factory=dict)
    flags: Mapping[Key, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSettings:
    """In what a module is run: its float dtype, with or without gradients and exploration."""

    dtype: torch.dtype | None = None  # None: the module's own
    grad: bool = False
    explore: bool = False
    seed: int = MEASURING_SEED


IN_DOUBLE = RunSettings(dtype=torch.float64)
_OWN_STATES, _PLAIN = StartStates(), RunSettings()


def unroll_subject(
    subject: Subject,
    inputs: TensorDictBase,
    starts: Tensor,
    states: StartStates = _OWN_STATES,
    *,
    module: nn.Module | None = None,
    settings: RunSettings = _PLAIN,
) -> TensorDict:
    """Step ``inputs`` ``[rows, steps]`` through the module in sequential mode.

    ``module`` is run instead of a copy of the subject's own. Outputs are ``[rows, steps]``.
    """
    rows = inputs.shape[0]
    if rows < subject.tile:
        wide = _tiled(subject, inputs, starts, states)
        return unroll_subject(subject, *wide, module=module, settings=settings)[:rows]
    network = module if module is not None else subject.copy(settings.dtype)
    outputs = _stepped(subject, network, inputs, starts, states, settings)
    shared = set.intersection(*(set(out) for out in outputs))
    stacked = {key: torch.stack([out[key] for out in outputs], 1) for key in shared}
    return TensorDict(stacked, batch_size=[rows, inputs.shape[1]])


def _stepped(
    subject: Subject,
    network: nn.Module,
    inputs: TensorDictBase,
    starts: Tensor,
    states: StartStates,
    settings: RunSettings,
) -> list[dict[Key, Tensor]]:
    """What each step writes."""
    dtype, outputs = settings.dtype, list[dict[Key, Tensor]]()
    fresh, current = _states(subject, states, inputs.shape[0], dtype)
    renewed, any_starts = current.keys() - set(states.kept), starts.any(0).tolist()
    columns = {key: value.unbind(1) for key, value in tensor_items(cast(inputs, dtype))}
    modes = measuring(
        recurrent=False, explore=settings.explore, grad=settings.grad, seed=settings.seed
    )
    oracle = Wide(dtype)
    with modes, default_dtype(dtype):
        for t in range(inputs.shape[1]):
            for key in renewed if any_starts[t] else ():
                current[key] = _where(starts[:, t], fresh[key], current[key])
            for key, value in states.drawn.items():
                current[key] = value[:, t].to(current[key].dtype)
            step = {key: column[t] for key, column in columns.items()}
            step |= subject.flag_values(starts[:, t])
            step |= {key: flag[:, t] for key, flag in states.flags.items()}
            with oracle.at(t):
                out = _one_step(subject, network, step, current, len(starts))
            current = {key: out.get(next_key(key), current[key]) for key in current}
            outputs.append(out)
    return outputs


def _states(
    subject: Subject, states: StartStates, rows: int, dtype: torch.dtype | None
) -> tuple[dict[Key, Tensor], dict[Key, Tensor]]:
    """The state at a start and the one before the first step."""
    own = subject.fresh if states.fresh is None else states.fresh
    fresh = {key: _as(_per_row(value, rows), dtype) for key, value in own.items()}
    return fresh, {key: _as(value, dtype) for key, value in (states.first or fresh).items()}


def _tiled(
    subject: Subject, inputs: TensorDictBase, starts: Tensor, states: StartStates
) -> tuple[TensorDictBase, Tensor, StartStates]:
    """The rows over and over until there are as many as the module wants; the first are asked."""
    index = torch.arange(subject.tile) % inputs.shape[0]
    fresh = {k: _per_row(v, subject.tile) for k, v in (states.fresh or subject.fresh).items()}
    first = {k: _per_row(v, subject.tile) for k, v in (states.first or fresh).items()}
    drawn = {key: value[index] for key, value in states.drawn.items()}
    flags = {key: value[index] for key, value in states.flags.items()}
    return inputs[index], starts[index], StartStates(first, fresh, states.kept, drawn, flags)


def _one_step(
    subject: Subject,
    network: nn.Module,
    step: dict[Key, Tensor],
    state: dict[Key, Tensor],
    rows: int,
) -> dict[Key, Tensor]:
    """One step of all rows; values are ``[rows, ...]``."""
    lead = subject.lead(rows)
    given = {**step, **state}
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
    settings: RunSettings = _PLAIN,
) -> TensorDictBase:
    """Run ``batch`` (time is its last batch dimension) in recurrent mode.

    ``module`` is run instead of a copy of the subject's own. Returns what was written.
    """
    dtype = settings.dtype
    network = module if module is not None else subject.copy(dtype)
    batch = batch.exclude(*subject.carry) if subject.by_absence else batch

    def run(wide: AbstractContextManager[object]) -> TensorDictBase:
        modes = measuring(
            recurrent=True, explore=settings.explore, grad=settings.grad, seed=settings.seed
        )
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
    """``_throughout`` for one step after another.

    A module that casts nothing in its first steps never does.
    """

    def __init__(self, dtype: torch.dtype | None) -> None:
        self.mode = None if dtype is None else Computing(dtype)

    def at(self, t: int) -> AbstractContextManager[object]:
        """The context of step ``t``."""
        watching = self.mode is not None and (t < _FIRST_STEPS or self.mode.acted)
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
