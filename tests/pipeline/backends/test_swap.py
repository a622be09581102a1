"""A policy rebuilt with another backend: every recurrent module, the same weights, the original as
it was."""

from __future__ import annotations

import copy

import pytest
import torch
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
)
from torch import nn
from torchrl.modules import GRUModule, LSTMModule

from rnncheck.pipeline.backends.facts import is_python_based, rnn_facts_of, variant_of
from rnncheck.pipeline.backends.swap import CannotSwap, own_variant, policy_as, recurrent_modules
from rnncheck.results.variant import Variant, parse_variant


class Own(nn.Module):
    """An RNN of the user's that happens to hold an nn.LSTM."""

    in_keys = ("x", "s")
    out_keys = ("y", ("next", "s"))

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 3)


class Wrapped(nn.Module):
    """A recurrent module deep inside."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.ModuleDict({"inner": inner})])


def lstm(**more: object) -> LSTMModule:
    return LSTMModule(input_size=3, hidden_size=4, in_key="x", out_key="y", **more)


def gru() -> GRUModule:
    return GRUModule(
        input_size=4, hidden_size=4, in_keys=["y", "h"], out_keys=["z", ("next", "h")],
        python_based=True,
    )  # fmt: skip


def policy() -> nn.Module:
    head = TensorDictModule(nn.Linear(4, 2), in_keys=["z"], out_keys=["logits"])
    draw = ProbabilisticTensorDictModule(
        in_keys=["logits"], out_keys=["action"], distribution_class=torch.distributions.Categorical
    )
    return ProbabilisticTensorDictSequential(TensorDictSequential(lstm(), gru()), head, draw)


@pytest.mark.parametrize("text", ["scan", "scan-recompute", "auto", "pad-python", "pad-float64"])
def test_every_module_runs_the_variant_with_its_weights(text: str) -> None:
    original = policy()
    before = copy.deepcopy(original.state_dict())
    made = policy_as(original, parse_variant(text))
    assert [variant_of(m).label for m in recurrent_modules(made).values()] == [text, text]
    assert type(made) is type(original)
    assert made.state_dict().keys() == before.keys()
    for name, value in made.state_dict().items():
        assert torch.equal(value.to(before[name].dtype), before[name])
    assert {p.dtype for p in made.parameters()} == {
        torch.float64 if "float64" in text else torch.float32
    }
    assert [variant_of(m).label for m in recurrent_modules(original).values()] == [
        "pad",
        "pad-python",
    ]
    assert not {id(p) for p in made.parameters()} & {id(p) for p in original.parameters()}


def test_nested_containers_are_entered_and_own_rnns_are_left_alone() -> None:
    original = nn.ModuleList([Wrapped(lstm()), Own()])
    made = policy_as(original, Variant("scan", python_based=True))
    assert list(recurrent_modules(made)) == ["0.parts.0.inner"]
    assert is_python_based(made.get_submodule("0.parts.0.inner"))
    assert type(made[1].lstm) is nn.LSTM


def test_weights_that_two_modules_share_stay_shared() -> None:
    both = nn.ModuleList([lstm(), lstm()])
    both[1].lstm = both[0].lstm
    made = policy_as(both, Variant("scan"))
    assert made[0].lstm is made[1].lstm


def test_a_subclass_stays_one_and_keeps_its_training_flag() -> None:
    class Mine(LSTMModule):
        pass

    module = Mine(input_size=3, hidden_size=4, in_key="x", out_key="y").eval()
    made = policy_as(module, Variant("scan", python_based=True))
    assert type(made) is Mine
    assert not made.training


def test_what_cannot_be_copied_is_said() -> None:
    module = lstm()
    module.handle = (step for step in ())
    with pytest.raises(CannotSwap, match="cannot be copied"):
        policy_as(module, Variant())


def test_the_modules_own_settings_are_read() -> None:
    module = lstm(recurrent_backend="scan", recurrent_recompute="full", num_layers=2).double()
    assert variant_of(module) == Variant("scan", recompute="full", dtype="float64")
    assert own_variant(module, "pad") == Variant(dtype="float64")
    assert str(rnn_facts_of(module)) == "LSTMModule(3 to 4, 2 layers)"
