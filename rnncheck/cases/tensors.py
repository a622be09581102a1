"""The tensors of a case: one ``.npz`` file, which holds numbers alone.

It is written with plain writes, so that a full disk is an error and not the end of the process, as
it would be for a file that is mapped into memory.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
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
        arrays: dict[str, Any] = {
            name: (raw_bits(one) if one.is_complex() else raw_bits(one).unsqueeze(-1)).numpy()
            for name, one in self.tensors.items()
        }
        with path.open("xb") as file:
            np.savez(file, **arrays)


def read_inputs(case: StoredCase, path: Path) -> Inputs:
    """The stored tensors of ``case``. Raises CaseError where the file is not what the case says."""
    try:
        arrays = _arrays(path)
        weights = {".".join(one.key): _restored(one, arrays) for one in case.weights}
        collected = [_batch(one, arrays) for one in case.collected]
        return Inputs(collected, [_batch(one, arrays) for one in case.trained], weights)
    except Exception as error:  # torch, numpy and zlib each raise their own
        said = f"the case's tensors cannot be read ({first_line(error)})"
        raise CaseError(said, place=Place(str(path))) from error


def _arrays(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        if sum(one.file_size for one in archive.infolist()) > 2 * MOST_TENSORS:
            raise ValueError("it holds more than a case does")
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _restored(entry: StoredEntry, arrays: dict[str, Any]) -> Tensor:
    dtype = getattr(torch, entry.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"there is no dtype {entry.dtype!r}")
    raw = torch.from_numpy(arrays[entry.tensor])
    parts = raw.view(dtype.to_real() if dtype.is_complex else dtype)
    return torch.view_as_complex(parts) if dtype.is_complex else parts.squeeze(-1)


def _batch(stored: StoredBatch, arrays: dict[str, Any]) -> TensorDictBase:
    made = TensorDict({}, batch_size=stored.shape)
    for entry in stored.entries:
        made.set(entry.key, _restored(entry, arrays))
    return made
