"""Recurrent cells for the checks of precision: what looks like a rounding that nobody asked for,
and what is one."""

from __future__ import annotations

import torch
from plain_cell import PlainCell
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
from torchrl.envs.transforms import Transform


class CastInside(PlainCell):
    """One product in bfloat16; everything that can be seen from outside is float32."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        mixed = linear(h.bfloat16(), self.mix.weight.bfloat16())
        return torch.tanh(self.read(x) + mixed.float())


class CastElementwise(PlainCell):
    """A recurrence without a product, in bfloat16."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        return (0.9 * h.bfloat16()).float() + 0.1 * self.read(x)


class AutocastInside(PlainCell):
    """Mixed precision as torch has it."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            new = self.read(x) + self.mix(h)
        return torch.tanh(new.float())


class NarrowThroughout(PlainCell):
    """Products and state in bfloat16, with float32 weights: the state says so."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        seen = linear(x.bfloat16(), self.read.weight.bfloat16())
        return torch.tanh(seen + linear(h, self.mix.weight.bfloat16()))

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        td = super().forward(td)
        return td.set("embed", td["embed"].float())


class Integrator(PlainCell):
    """Forgets nothing, and grows."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        return h + 10 * self.read(x)


class Counter(PlainCell):
    """Whole numbers, which bfloat16 would hold as well."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        return h + 1

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        td = super().forward(td)
        return td.set("embed", self.mix(td["embed"]))


class Normalised(PlainCell):
    """Divides by a spread that may be small."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        new = self.read(x) + self.mix(h)
        return (new - new.mean(-1, keepdim=True)) / (new.std(-1, keepdim=True) + 1e-6)


class Quantised(PlainCell):
    """Weights and state on a grid, as for a small device."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        weight = (self.mix.weight * 127).round() / 127
        return (torch.tanh(self.read(x) + linear(h, weight)) * 127).round() / 127


class Discrete(PlainCell):
    """The state is a choice."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        values = self.read(x) + self.mix(h)
        return one_hot(values.argmax(-1), 16).to(values.dtype) + 0 * values


class Cancelling(PlainCell):
    """Loses bits of float32 itself."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh((self.read(x) + self.mix(h) + 1e4) - 1e4)


class SpectralNorm(PlainCell):
    """Buffers that change with every call."""

    def __init__(self) -> None:
        super().__init__()
        nn.utils.parametrizations.spectral_norm(self.mix)


class Huge(PlainCell):
    """Values of size 1e3."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        return 1e3 * torch.tanh(self.read(x) + self.mix(h / 1e3))


class RoundingWrapper(PlainCell):
    """The state is rounded on its way out, in its own dtype."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        return super().step(x, h).half().float()


class HalfStored(Transform):
    """Saves memory in the buffer."""

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        return td

    def _inv_call(self, td: TensorDictBase) -> TensorDictBase:
        return td.set("h", td["h"].half())


def make_buffer() -> TensorDictReplayBuffer:
    """A buffer that keeps states in float16."""
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(200),
        sampler=SliceSampler(slice_len=8, strict_length=False),
        batch_size=32,
        transform=HalfStored(),
    )
