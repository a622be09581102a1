"""Whose default device it is. The device here is torch's ``meta``."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.utils._device import DeviceContext

import rnncheck
from rnncheck.pipeline.guard.default_device import own_tensors_on_cpu
from rnncheck.pipeline.guard.indices import RangesKept

OURS = compile("torch.zeros(2)", str(Path(rnncheck.__file__).with_name("lines.py")), "eval")


def made_by_us() -> Tensor:
    found: Tensor = eval(OURS)
    return found


def test_the_default_device_is_the_users_alone() -> None:
    before = DeviceContext.__torch_function__
    with torch.device("meta"):
        assert made_by_us().device.type == "meta"
        with own_tensors_on_cpu(), own_tensors_on_cpu():
            assert made_by_us().device.type == "cpu"
            assert torch.zeros(2).device.type == "meta"
            assert torch.nn.Linear(2, 2).weight.device.type == "meta"
        assert made_by_us().device.type == "meta"
    assert DeviceContext.__torch_function__ is before


def test_a_mode_of_ours_between_does_not_make_their_tensors_ours() -> None:
    with torch.device("meta"), own_tensors_on_cpu(), RangesKept():
        assert torch.zeros(2).device.type == "meta"
        assert made_by_us().device.type == "cpu"
