"""Tools for mending the batches of a pipeline that is built again: how they are drawn, and what was
collected put back into them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torchrl.data.replay_buffers import ReplayBuffer, SliceSampler

from rnncheck.pipeline.instruments.log_probs import log_prob_key
from rnncheck.pipeline.keys import STEP_KEY, Key, declared, present, tensor_keys
from rnncheck.pipeline.plant.hooks import CannotPlant
from rnncheck.pipeline.subject.subject import carriers, next_key

_LENGTH = 8  # steps of a slice, about; chosen: a few of them fit into most batches
_ENDS: Key = ("next", "done")


def drawing_slices(buffer: Any) -> Any:
    """``buffer`` of TorchRL's, whose samples are slices of episodes, as many steps as before."""
    size = getattr(buffer, "_batch_size", None)
    if not isinstance(buffer, ReplayBuffer) or not size:
        raise CannotPlant("no buffer of TorchRL's with a batch size draws the training batches")
    slices = next(n for n in range(max(1, size // _LENGTH), 0, -1) if size % n == 0)
    buffer._sampler = SliceSampler(num_slices=slices, end_key=_ENDS, strict_length=False)
    return buffer


def with_starts_marked(batch: TensorDictBase, keys: tuple[Key, ...]) -> TensorDictBase:
    """A collected batch whose start flags are true behind every end and at every change of
    trajectory, besides where they were."""
    if batch.ndim == 0:
        return batch
    time, starts = batch.ndim - 1, torch.zeros(batch.shape, dtype=torch.bool)
    done = batch.get(_ENDS, None)
    if done is not None:
        starts |= _behind(done.reshape(*batch.shape, -1).any(-1), time)
    ids = batch.get(("collector", "traj_ids"), None)
    if ids is not None:
        ids = ids.reshape(batch.shape)
        starts |= _behind(ids != ids.roll(-1, time), time)
    return _marked(batch, keys, starts | _jumps(batch))


def _behind(ends: Tensor, time: int) -> Tensor:
    """The steps behind these; never the first one."""
    behind = ends.roll(1, time)
    behind.narrow(time, 0, 1).fill_(False)
    return behind


def _jumps(batch: TensorDictBase) -> Tensor:
    """Steps that do not observe what the step before them has as its next observation."""
    jumps = torch.zeros(batch.shape, dtype=torch.bool)
    for key in tensor_keys(batch):
        after = batch.get(next_key(key), None)
        value = batch.get(key)
        if key[0] == "next" or after is None or after.shape != value.shape:
            continue
        if value.is_floating_point() and key[-1] != "reward":
            moved = (value != after.roll(1, batch.ndim - 1)).reshape(*batch.shape, -1).any(-1)
            jumps |= moved
    jumps.narrow(batch.ndim - 1, 0, 1).fill_(False)
    return jumps


def _marked(batch: TensorDictBase, keys: tuple[Key, ...], starts: Tensor) -> TensorDictBase:
    for key in present(batch, keys):
        flag = batch.get(key)
        wide = starts.reshape(*batch.shape, *[1] * (flag.ndim - batch.ndim))
        batch.set(key, flag | wide)
    return batch


@dataclass
class Collected:
    """What was collected of some entries, step by step in the order of their numbers."""

    policy: nn.Module
    _steps: list[TensorDictBase] = field(default_factory=list)

    def note(self, batch: TensorDictBase) -> TensorDictBase:
        """Keep the entries of a collected batch."""
        probability = log_prob_key(self.policy, None, batch)
        keys = [] if probability is None else [probability]
        for one in carriers(self.policy):
            keys += [*one.keys, *map(next_key, one.keys)]
            keys += [k for k in declared(one.module, "in_keys") if _is_flag(batch, k)]
        held = batch.select(*present(batch, keys)).reshape(-1)
        self._steps.append(held.clone())
        return batch

    def put_back(self, sample: TensorDictBase) -> TensorDictBase:
        """``sample`` with the collected entries of its steps; flags besides those that it has."""
        numbers = sample.get(STEP_KEY, None)
        if numbers is None or not self._steps:
            raise CannotPlant("the training batches do not tell which steps they hold")
        numbers = numbers.reshape(sample.shape)
        steps = TensorDict.cat(self._steps)
        if int(numbers.max()) > len(steps):
            raise CannotPlant("the training batches hold steps that were not seen collected")
        real = numbers > 0
        for key in tensor_keys(steps):
            value = steps.get(key)[(numbers.clamp_min(1) - 1).reshape(-1)]
            value = value.reshape(*sample.shape, *value.shape[1:])
            sample.set(key, _mixed(real, value, sample.get(key, None)))
        return sample


def _is_flag(td: TensorDictBase, key: Key) -> bool:
    value = td.get(key, None)
    return isinstance(value, Tensor) and value.dtype is torch.bool


def _mixed(real: Tensor, value: Tensor, old: Tensor | None) -> Tensor:
    """``value`` at real steps; a flag is true where either is."""
    if old is None or old.shape != value.shape:
        old = torch.zeros_like(value)
    if value.dtype is torch.bool:
        value = value | old
    return torch.where(real.reshape(*real.shape, *[1] * (value.ndim - real.ndim)), value, old)
