"""Which outputs are measured: those that actions follow from, and a critic's values by its own
state or by the policy's."""

from __future__ import annotations

import torch
from tensordict.nn import (
    NormalParamExtractor,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
)
from torch import nn
from torchrl.envs import Compose, GymEnv, InitTracker, TransformedEnv
from torchrl.modules import GRUModule, LSTMModule, ProbabilisticActor, TanhNormal

import rnncheck
from rnncheck.results.memory import MemoryResult

SMALL = {"recorded": 2, "episodes": 2, "steps": 8, "lags": 4}


def actors_memory() -> LSTMModule:
    torch.manual_seed(0)
    return LSTMModule(input_size=3, hidden_size=4, in_key="observation", out_key="features")


def critics_memory() -> GRUModule:
    torch.manual_seed(1)
    return GRUModule(
        input_size=3,
        hidden_size=4,
        in_keys=["observation", "critic_h", "is_init"],
        out_keys=["critic_features", ("next", "critic_h")],
    )


def make_env() -> TransformedEnv:
    primers = (one.make_tensordict_primer() for one in (actors_memory(), critics_memory()))
    return TransformedEnv(GymEnv("Pendulum-v1"), Compose(InitTracker(), *primers))


def actor(read: str, width: int) -> ProbabilisticActor:
    """A TanhNormal over what ``read`` holds."""
    head = nn.Sequential(nn.Linear(width, 2), NormalParamExtractor())
    parts = TensorDictModule(head, in_keys=[read], out_keys=["loc", "scale"])
    return ProbabilisticActor(
        TensorDictSequential(actors_memory(), parts),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
    )


def value(read: str) -> TensorDictModule:
    return TensorDictModule(nn.Linear(4, 1), in_keys=[read], out_keys=["state_value"])


def studied(policy: TensorDictModuleBase, critic: TensorDictModuleBase) -> MemoryResult:
    run = rnncheck.memory(policy=policy, env=make_env, critic=critic, **SMALL)
    assert run.memory is not None
    assert run.memory.untold == ()
    return run.memory


def horizons(found: MemoryResult, method: str) -> dict[tuple[str, str], int]:
    return {
        (one.named, one.through): one.horizon
        for one in found.curves
        if one.method == method and not one.of_state
    }


def test_features_that_no_head_reads_are_no_output() -> None:
    """An actor whose head reads the observation beside its LSTM, and a critic that remembers."""
    critic = TensorDictSequential(critics_memory(), value("critic_features"))
    found = studied(actor("observation", 3), critic)
    for method in ("replaced", "gradient"):
        whole = {k[0]: v for k, v in horizons(found, method).items() if not k[1]}
        assert whole == {"distribution of action": 0, "state_value of the critic": 4}
    assert found.main_curve is not None
    assert found.main_curve.horizon == 0
    assert {one.start for one in found.replay if one.whose == "critic"} == {"zero"}


def test_a_head_on_the_actors_features_rests_on_its_state() -> None:
    found = studied(actor("features", 4), value("features"))
    keys = ("", "recurrent_state_h", "recurrent_state_c")
    names = ("distribution of action", "state_value of the critic")
    assert horizons(found, "replaced") == {(name, key): 4 for name in names for key in keys}
    assert {one.named for one in found.states} == {"recurrent_state_h", "recurrent_state_c"}
    assert {one.unit for one in found.curves if one.output == "distribution of action"} == {
        "root of KL (nats)", "norm of the Jacobian",
    }  # fmt: skip
