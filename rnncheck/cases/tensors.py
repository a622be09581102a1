"""The tensors of a case: one ``.safetensors`` file, which holds numbers alone.

It is written with plain writes, so that a full disk is an error and not the end of the process, as
it would be for a file that is mapped into memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load, save
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.cases.model import CaseError, StoredBatch, StoredCase, StoredEntry
from rnncheck.errors import Place, first_line
from rnncheck.numerics.bits import raw_bits

MOST_TENSORS = 64 * 2**20  # bytes of one case: chosen, a reduced case takes a few KiB


@dataclass
class Inputs:
    """What a check was asked on: collected and training batches, and the networks' weights by
    ``policy.<name>`` and ``critic.<name>``."""

    collected: list[TensorDictBase] = field(default_factory=list)
    trained: list[TensorDictBase] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)

    def same_as(self, other: Inputs) -> bool:
        """Whether both are the same to the bit."""
        mine, theirs = _flat(self), _flat(other)
        return mine.keys() == theirs.keys() and all(_same(mine[k], theirs[k]) for k in mine)


def _flat(inputs: Inputs) -> dict[tuple[str, ...], Tensor]:
    found: dict[tuple[str, ...], Tensor] = {}
    for kind in ("collected", "trained"):
        for number, batch in enumerate(getattr(inputs, kind)):
            for key, value in _leaves(batch):
                found[kind, str(number), *key] = value
    return found | {("weights", name): value for name, value in inputs.weights.items()}


def _same(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(torch.equal(raw_bits(one), raw_bits(other)))


def _leaves(batch: TensorDictBase) -> list[tuple[tuple[str, ...], Tensor]]:
    found = []
    for key, value in batch.items(include_nested=True, leaves_only=True):
        if isinstance(value, Tensor):
            found.append(((key,) if isinstance(key, str) else tuple(key), value))
    return sorted(found, key=lambda pair: pair[0])


@dataclass
class Packed:
    """Tensors by name, and what says where each belongs."""

    tensors: dict[str, Tensor] = field(default_factory=dict)

    def batches(self, given: Iterable[TensorDictBase]) -> tuple[StoredBatch, ...]:
        """The tensordicts as a case names them."""
        return tuple(
            StoredBatch(tuple(one.shape), tuple(self._entry(*leaf) for leaf in _leaves(one)))
            for one in given
        )

    def weights(self, given: Mapping[str, Tensor]) -> tuple[StoredEntry, ...]:
        """The weights as a case names them."""
        return tuple(self._entry((name,), value) for name, value in given.items())

    def _entry(self, key: tuple[str, ...], value: Tensor) -> StoredEntry:
        name = f"t{len(self.tensors)}"
        self.tensors[name] = value.detach().cpu()
        return StoredEntry(key, name, str(value.dtype).removeprefix("torch."))

    def write(self, path: Path) -> None:
        """Write the file. Raises OSError."""
        size = sum(one.numel() * one.element_size() for one in self.tensors.values())
        if size > MOST_TENSORS:
            most = MOST_TENSORS // 2**20
            raise OSError(0, f"its tensors take {size // 2**20} MiB, more than {most}")
        parts = {name: _parts(one) for name, one in self.tensors.items()}
        path.write_bytes(save(parts))


def _parts(value: Tensor) -> Tensor:
    """Memory of its own; a complex tensor as its two parts, which the format has in any size."""
    plain = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    return plain.clone(memory_format=torch.contiguous_format)


def read_inputs(case: StoredCase, path: Path) -> Inputs:
    """The stored tensors of ``case``. Raises CaseError where the file is not what the case says."""
    try:
        stored = read_tensors(path)
        weights = {".".join(one.key): _restored(one, stored) for one in case.weights}
        collected = [_batch(one, stored) for one in case.collected]
        return Inputs(collected, [_batch(one, stored) for one in case.trained], weights)
    except CaseError:
        raise
    except Exception as error:  # torch raises its own
        raise _unreadable(path, error) from error


def read_tensors(path: Path) -> Mapping[str, Tensor]:
    """The tensors by name. Raises CaseError where the file is none of a case."""
    try:
        with path.open("rb") as file:
            data = file.read(2 * MOST_TENSORS + 1)
        if len(data) > 2 * MOST_TENSORS:
            raise ValueError("it holds more than a case does")
        return load(data)
    except Exception as error:  # safetensors and torch each raise their own
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> CaseError:
    said = f"the case's tensors cannot be read ({first_line(error)})"
    return CaseError(said, place=Place(str(path)))


def _restored(entry: StoredEntry, stored: Mapping[str, Tensor]) -> Tensor:
    found = stored[entry.tensor]
    made = torch.view_as_complex(found) if entry.dtype.startswith("complex") else found
    if str(made.dtype) != f"torch.{entry.dtype}":
        raise ValueError(f"{entry.tensor} is of {made.dtype}, not of {entry.dtype!r}")
    return made


def _batch(stored: StoredBatch, tensors: Mapping[str, Tensor]) -> TensorDictBase:
    made = TensorDict({}, batch_size=stored.shape)
    for entry in stored.entries:
        made.set(entry.key, _restored(entry, tensors))
    return made
