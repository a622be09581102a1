"""The stand-in for Resize: same shape and spec change as TorchRL's."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite

from rnncheck.pipeline.assembly.transforms import InterpolateResize


@pytest.mark.parametrize("shape", [(3, 40, 60), (5, 3, 40, 60), (2, 5, 1, 40, 60)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_shape_and_dtype(shape, dtype):
    image = torch.full(shape, 7, dtype=dtype)
    td = TensorDict({"pixels": image}, shape[:-3])
    resized = InterpolateResize(12, 8)(td)["pixels"]
    assert resized.shape == (*shape[:-2], 12, 8)
    assert resized.dtype == dtype
    assert (resized == 7).all()


def test_one_size_is_square_and_no_change_is_no_copy():
    image = torch.rand(1, 9, 9)
    assert InterpolateResize(4)(TensorDict({"pixels": image}))["pixels"].shape == (1, 4, 4)
    assert InterpolateResize(9)(TensorDict({"pixels": image}))["pixels"] is image


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest"])
def test_interpolations(interpolation):
    td = TensorDict({"pixels": torch.rand(3, 40, 60)})
    assert InterpolateResize(8, 8, interpolation)(td)["pixels"].shape == (3, 8, 8)


def test_the_spec_follows():
    spec = Composite(pixels=Bounded(0.0, 1.0, shape=(3, 40, 60)))
    changed = InterpolateResize(12, 8).transform_observation_spec(spec)["pixels"]
    assert changed.shape == (3, 12, 8)
    assert changed.space.low.min() == 0
    assert changed.space.high.max() == 1
