"""A limit of time holds inside code that swallows what interrupts it."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from tensordict import TensorDict
from torch import nn

from rnncheck.errors import StageTimeout
from rnncheck.pipeline.guard.timeout import Expired, pass_on_expired, time_limit
from rnncheck.pipeline.subject.modes import measuring


def test_weights_that_a_tensordict_lends_do_not_hold_a_limit_up() -> None:
    """A tensordict swallows what is no Exception where its weights are taken back: whatever is
    measured next ends."""
    network = nn.Linear(1, 1)
    weights, calls = TensorDict.from_module(network), 0
    with pytest.raises(StageTimeout), time_limit("loss", 0.2):
        while calls < 1000:
            with measuring(recurrent=None), weights.to_module(network):
                time.sleep(0.05)
            calls += 1
    assert calls < 1000


def test_a_limit_that_holds_is_none() -> None:
    """Behind it nothing is passed on."""
    with pytest.raises(StageTimeout), time_limit("loss", 0.01):
        time.sleep(0.5)
    pass_on_expired()
    with pytest.raises(StageTimeout), time_limit("loss", 0.01):
        with suppress(Expired):
            time.sleep(0.5)
        pass_on_expired()
