"""Which parameters of a loss are recurrent, by the names under which the loss holds them.

The losses hold copies of the policy: as objects, their parameters are not the pipeline's.
"""

from __future__ import annotations

import copy
from typing import Any

from torch import nn
from torchrl.objectives import DQNLoss

from rnncheck.pipeline.instruments.trained_parameters import recurrent_parameters

LSTM = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


def test_torchrl_keeps_the_path_of_a_functional_parameter(bench: Any, dqn_text: str) -> None:
    pipeline = bench.build(dqn_text)
    loss = DQNLoss(copy.deepcopy(pipeline.policy), action_space="categorical")
    recurrent, rest = recurrent_parameters(loss, pipeline)
    assert set(recurrent) == {f"value_network_params.module.1.lstm.{name}" for name in LSTM}
    assert len(recurrent) + len(rest) == len(list(pipeline.policy.parameters()))


def test_a_path_matches_from_a_dot_on(bench: Any, dqn_text: str) -> None:
    pipeline = bench.build(dqn_text)
    loss = nn.Module()
    loss.add_module("policy", copy.deepcopy(pipeline.policy))
    loss.add_module("own_module", copy.deepcopy(pipeline.policy.module))
    recurrent, rest = recurrent_parameters(loss, pipeline)
    assert set(recurrent) == {f"policy.module.1.lstm.{name}" for name in LSTM}
    assert any(loss.get_parameter(f"own_module.1.lstm.{LSTM[0]}") is one for one in rest)
