"""A policy or critic as the thing under test: what it carries, reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.keys import Key, declared, root_keys, tensor_keys
from rnncheck.pipeline.subject.training_pass import TwoPasses
from rnncheck.results.model import Stage


@dataclass(frozen=True)
class Carrier:
    """An innermost module that reads and writes carry keys; ``path`` is its name inside the
    policy."""

    path: str
    module: nn.Module
    keys: tuple[Key, ...]


def innermost(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Modules that declare keys and contain no other module that does, in order."""
    parts = [(path, m) for path, m in module.named_modules() if declared(m, "in_keys")]
    return [
        (path, part)
        for path, part in parts
        if not any(declared(m, "in_keys") for m in all_modules(part) if m is not part)
    ]


def all_reads(module: nn.Module) -> set[Key]:
    """Every key that the module or a part of it declares to read."""
    return {key for part in all_modules(module) for key in declared(part, "in_keys")}


def next_key(key: Key) -> Key:
    """Where the new state of carry ``key`` belongs."""
    return ("next", *key)


def carriers(module: nn.Module) -> list[Carrier]:
    """Every innermost module of ``module`` that declares to read ``k`` and to write
    ``("next", k)``."""
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

    ``fresh`` is the state that a trajectory starts from, ``[rows, *state]`` per carry key, one row
    per env. ``flags`` are the start-flag keys with the trailing shape of each. ``rank`` counts the
    env's batch dimensions.
    """

    stage: Stage
    module: nn.Module
    carry: tuple[Key, ...]
    flags: dict[Key, torch.Size]
    fresh: dict[Key, Tensor]
    rank: int
    batch_shape: tuple[int, ...]
    primed: frozenset[Key] = frozenset()  # carry keys that the env's own reset provides
    tile: int = 1  # copies of a row that are run together where the module refuses a single row
    undeclared: tuple[Carrier, ...] = ()  # of carry that a module writes without declaring it
    by_absence: bool = False  # sequences are told from steps by a batch that holds no state

    @property
    def longest(self) -> int | None:
        """How many steps a row of its recurrent mode may have at most, where that is known."""
        found: int | None = getattr(self.module, "longest", None)
        return found if isinstance(self.module, TwoPasses) else None

    @property
    def slices(self) -> int | None:
        """How many steps the slices have that longer rows are trained on in; None where they are
        not."""
        return self.longest if getattr(self.module, "in_slices", False) is True else None

    @property
    def burnt(self) -> int:
        """How many first steps of a row its recurrent mode runs without a graph."""
        return self.module.burnt if isinstance(self.module, TwoPasses) else 0

    @property
    def burnt_alone(self) -> int:
        """The same of every trajectory, where each is run alone."""
        return self.module.burnt_alone if isinstance(self.module, TwoPasses) else 0

    @cached_property
    def carriers(self) -> list[Carrier]:
        """The innermost modules that carry state."""
        return [*carriers(self.module), *self.undeclared]

    @cached_property
    def reads(self) -> tuple[Key, ...]:
        """Declared inputs; empty when the module declares none."""
        return declared(self.module, "in_keys")

    @cached_property
    def writes(self) -> tuple[Key, ...]:
        """Declared outputs."""
        return declared(self.module, "out_keys")

    def inputs_of(self, td: TensorDictBase) -> TensorDictBase:
        """What the module may read of recorded steps, without carry, start flags and its own
        outputs."""
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
        """A fresh copy of the pristine module, in another float dtype if asked. Raises
        CannotCopy."""
        module = copy_of(self.module, f"the {self.stage}")
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
