"""The planted faults: what each says about itself, and that each does what it says to a live
pipeline."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import cast

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn
from torchrl.envs import EnvBase
from torchrl.modules import LSTMModule

from rnncheck.checks.catalogue import entries
from rnncheck.cli.planting import attempts, look_at_health
from rnncheck.errors import UserError
from rnncheck.faults.fault import Fault, around_estimator
from rnncheck.faults.registry import faults, select_faults
from rnncheck.pipeline.assembly.builder import Builder
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import Call, mode, wrap
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Run, Stage
from rnncheck.results.planting import Attempt, Ending
from rnncheck.spec.load import load_spec, spec_from_text
from rnncheck.spec.model import Spec
from tests.small import PIPELINE

ROOT = Path(__file__).parent.parent.parent
SPECS = ROOT / "fixtures" / "specs"
SMALL = PIPELINE + "collect: {use: Collector, frames_per_batch: 80, batches: 2}\n"
PPO = """
schema: 1
name: ppo
env:
  use: GymEnv
  env_name: CartPole-v1
  transforms: [InitTracker]
policy:
  modules:
    - {use: LSTMModule, in_key: observation, out_key: features, hidden_size: 6}
    - {use: MLP, in_keys: [features], out_keys: [logits], num_cells: [], out_features: auto}
    - {use: ProbabilisticActor, distribution_class: OneHotCategorical, return_log_prob: true}
critic:
  modules:
    - {use: LSTMModule, in_keys: [observation, vh, vc], out_keys: [vf, [next, vh], [next, vc]],
       hidden_size: 6}
    - {use: MLP, in_keys: [vf], out_keys: [state_value], num_cells: [], out_features: auto}
collect: {use: Collector, frames_per_batch: 100}
advantage: {use: GAE, gamma: 0.99, lmbda: 0.95, shifted: true}
replay:
  storage: {use: LazyTensorStorage, max_size: 4096}
  sampler: {use: SliceSampler, slice_len: 8, strict_length: false}
  batch_size: 64
loss: {use: ClipPPOLoss}
"""
WIRED = SMALL + "verify: {select: [WR]}\n"  # for what any check would show
ONE_BATCH = PIPELINE + "collect: {use: Collector, frames_per_batch: 80, batches: 1}\n"
ROWS = SMALL.replace("  transforms: [Init", "  workers: 3\n  transforms: [Init").replace(
    "frames_per_batch: 80", "frames_per_batch: 150"
)


def spec_of(text: str) -> Spec:
    return spec_from_text(text, "small.yaml")


@pytest.fixture(scope="module")
def health() -> dict[str, Run]:
    """The healthy run of each spec, made when it is first asked for."""
    return {}


def attempt(health: dict[str, Run], text: str, fault: Fault) -> Attempt:
    spec = spec_of(text)
    if text not in health:
        health[text] = look_at_health(spec)
    assert health[text].exit_code is ExitCode.VERIFIED, health[text].findings
    (done,) = attempts(spec, [fault], health[text])
    return done


def test_there_are_enough_of_them_at_every_stage() -> None:
    assert len(faults()) >= 30
    assert {fault.stage for fault in faults()} == set(Stage) - {Stage.CRITIC, Stage.TRAIN}
    assert len({fault.name for fault in faults()}) == len(faults())


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.name)
def test_each_says_what_it_is(fault: Fault) -> None:
    file = ROOT / "rnncheck" / "faults" / f"{fault.name.replace('-', '_')}.py"
    text = file.read_text()
    assert len(text.splitlines()) < 80
    assert fault.summary.endswith(".")
    known = {entry.code for entry in entries()}
    assert fault.expects
    assert set(fault.expects) <= known


def test_names_select() -> None:
    assert [fault.name for fault in select_faults(["primer-missing"])] == ["primer-missing"]
    begun = [fault for fault in faults() if fault.name.startswith("primer")]
    assert len(begun) > 1
    assert list(select_faults(["primer"])) == begun
    assert select_faults([]) == faults()
    with pytest.raises(UserError, match="did you mean 'primer-missing'"):
        select_faults(["primer-mising"])


APPLY = [
    (SMALL, "flag-dropped", {"WR109"}),
    (SMALL, "primer-wrong-key", {"WR103"}),
    (SMALL, "state-at-root", {"WR107"}),
    (SMALL, "state-crosses-reset", {"BD301"}),
    (SMALL, "gradient-crosses-reset", {"BD303"}),
    (SMALL, "end-state-wrong", {"EQ202"}),
    (SMALL, "recorded-flag-lost", {"CL405"}),
    (ROWS, "recurrent-mode-while-acting", {"BD305"}),
    (PPO, "shared-key", {"WR106"}),
    (PPO, "steps-shuffled", {"RP502"}),
    (PPO, "sequential-loss", {"GR801"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "name", "by"), APPLY, ids=[name for _, name, _ in APPLY])
def test_a_handful_is_caught_by_the_right_check(
    health: dict[str, Run], text: str, name: str, by: set[str]
) -> None:
    (fault,) = select_faults([name])
    done = attempt(health, text, fault)
    assert (done.ending, set(done.by)) == (Ending.CAUGHT, by)


REASONS = [
    (SMALL, "flag-for-one-env", "one env alone"),
    (SMALL, "one-layer-not-reset", "no state has several layers"),
    (SMALL, "shared-key", "no second recurrent module"),
    (SMALL, "sequential-loss", "no loss stage"),
    (SMALL, "advantage-over-done", "no advantage stage"),
    (SMALL, "slices-unmarked", "no replay and no batch stage"),
    (SMALL, "state-lost-in-replay", "no replay and no batch stage"),
    (SMALL, "advantage-joins-rows", "no advantage stage"),
    (SMALL, "next-state-overwritten", "no advantage stage"),
    (SMALL, "slices-over-cursor", "no replay stage"),
    (SMALL, "mask-dropped", "no loss stage"),
    (SMALL, "padding-counted", "no loss stage"),
    (ONE_BATCH, "state-lost-between-batches", "one batch is collected"),
]


@pytest.mark.parametrize(("text", "name", "reason"), REASONS, ids=[name for _, name, _ in REASONS])
def test_what_cannot_apply_says_why(text: str, name: str, reason: str) -> None:
    (fault,) = select_faults([name])
    with Builder(spec_of(text), plant=fault.plant) as builder:
        builder.run(Stage.ENV)
        builder.run(Stage.POLICY)
        with pytest.raises(CannotPlant, match=reason):
            builder.run(Stage.CRITIC)


def harmless(parts: Parts) -> Hooks:
    return Hooks(policy=lambda policy: wrap(policy, lambda module, call, td: call(td)))


def test_a_plant_without_effect_is_missed_and_the_check_says_what_it_saw(
    health: dict[str, Run],
) -> None:
    fault = Fault("nothing", Stage.POLICY, ("WR107",), harmless)
    done = attempt(health, WIRED, fault)
    assert (done.ending, done.by) == (Ending.MISSED, ())
    assert done.reason.startswith("WR107 passed")


def test_a_pipeline_that_raises_is_seen(health: dict[str, Run]) -> None:
    def broken(batch: TensorDictBase) -> TensorDictBase:
        raise ValueError("no")

    def around(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
        return broken(td)

    fault = Fault(
        "raises", Stage.POLICY, ("WR107",), lambda parts: Hooks(policy=lambda p: wrap(p, around))
    )
    done = attempt(health, WIRED, fault)
    assert (done.ending, done.by[0]) == (Ending.CAUGHT, "the collect stage raises")


def test_checks_that_are_left_out_catch_nothing() -> None:
    spec = spec_of(SMALL + "verify: {select: [WR101]}\n")
    (done,) = attempts(spec, select_faults(["flag-dropped"]), look_at_health(spec))
    assert (done.ending, done.reason) == (Ending.CANNOT_APPLY, "WR109, CL405 are left out")


def test_a_wrapped_module_is_still_itself() -> None:
    seen = []

    def around(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
        seen.append(module)
        return call(td)

    module = LSTMModule(4, 3, in_key="x", out_key="y")
    keys = list(module.in_keys), list(module.out_keys)
    td = TensorDict(
        {
            "x": torch.randn(2, 4),
            "is_init": torch.zeros(2, 1, dtype=torch.bool),
            "recurrent_state_h": torch.zeros(2, 1, 3),
            "recurrent_state_c": torch.zeros(2, 1, 3),
        },
        [2],
    )
    with mode(False):
        expected = module(td.clone())["y"]
        wrapped = wrap(module, around)
        copied = copy.deepcopy(wrapped)
        assert isinstance(copied, LSTMModule)
        assert (list(copied.in_keys), list(copied.out_keys)) == keys
        assert torch.equal(copied(td.clone())["y"], expected)
    assert seen == [copied]


def test_a_copy_of_a_planted_function_calls_copies_and_shares_what_is_noted() -> None:
    noted, network = list[nn.Module](), nn.Linear(1, 1)

    def estimate(td: TensorDictBase) -> TensorDictBase:
        return td.set("value", network(td["x"]))

    def change(call: Call, td: TensorDictBase, parts: Parts) -> TensorDictBase:
        noted.append(network)
        return call(td)

    parts = Parts(spec_of(PPO), cast("EnvBase", None), nn.Identity(), None)
    planted = around_estimator(change)(parts).estimator(estimate)
    copied = copy_of(planted, "the estimator")
    nn.init.zeros_(network.weight)
    nn.init.zeros_(network.bias)
    td = TensorDict({"x": torch.ones(2, 1)}, [2])
    assert not planted(td.clone())["value"].any()
    assert copied(td.clone())["value"].any()
    assert len(noted) == 2


HEALTHY = ["cartpole_dqn", "two_layer_lstm", "serial_env", "gru_actor_critic", "nested_own_cell"]


@pytest.mark.slow
@pytest.mark.parametrize("name", HEALTHY)
def test_every_fault_that_applies_to_a_healthy_spec_is_caught(name: str) -> None:
    spec = load_spec(SPECS / f"{name}.yaml")
    healthy = look_at_health(spec)
    assert healthy.exit_code is ExitCode.VERIFIED
    done = list(attempts(spec, faults(), healthy))
    assert not [one for one in done if one.ending is Ending.MISSED]
    assert sum(one.ending is Ending.CAUGHT for one in done) >= 30


# A stock actor and critic, an own loss on a stock memory, and everything by hand under nested
# names.
TRAINING_HEALTHY = ["ppo_two_memories", "pendulum_ddpg", "nested_rows"]


@cache
def training(name: str) -> tuple[Spec, Run]:
    """A spec of the training path and its healthy run."""
    spec = load_spec(ROOT / "fixtures" / "training" / f"{name}.yaml")
    return spec, look_at_health(spec)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINING_HEALTHY)
def test_every_fault_that_applies_to_a_training_step_is_caught(name: str) -> None:
    spec, healthy = training(name)
    assert healthy.exit_code is ExitCode.VERIFIED
    done = list(attempts(spec, faults(), healthy))
    assert not [one for one in done if one.ending is Ending.MISSED]
    assert sum(one.ending is Ending.CAUGHT for one in done) >= 45


# A fault that one pipeline gives no hold for has one in another.
ELSEWHERE = [
    ("ppo_two_memories", "one-state-crosses-reset", {"BD301"}),  # in the critic alone
    ("ppo_two_memories", "shared-key", {"WR106"}),  # an LSTM's h under a GRU's key
    ("pendulum_ddpg", "next-flag-false", {"LS701"}),  # the loss marks its next pass itself
    ("pendulum_ddpg", "loss-joins-segments", {"LS701"}),  # a loss that gives one number
    ("nested_rows", "next-flag-false", {"VL601"}),  # so does the estimator
    ("nested_rows", "sequential-estimator", {"VL604"}),  # which writes no value
    ("nested_rows", "primer-missing", {"WR103"}),  # inside the envs that stand side by side
    ("q_rows", "loss-over-done", {"VL603"}),
    ("ppo_two_memories", "advantage-joins-rows", {"VL601"}),
    ("ppo_two_memories", "slices-over-cursor", {"RP506"}),
    ("nested_rows", "next-state-overwritten", {"VL604"}),
    ("nested_rows", "observation-survives-reset", {"WR112"}),  # which no action changes
    ("nested_rows", "action-misread", {"WR111"}),  # one-hot as it is
    ("pendulum_ddpg", "noise-in-state", {"EQ206"}),
    ("ls701_tokens_joined_near_miss", "gradient-crosses-reset", {"BD303"}),  # tokens alone
    ("ls701_tokens_joined_near_miss", "terminal-observation-lost", {"VL603"}),
    ("q_padded", "mask-dropped", {"RP505"}),
    ("q_padded", "padding-counted", {"RP505"}),
    ("q_padded", "action-misread", {"WR111"}),  # an env that reads indices
]

# What a fault would change does not count there.
NOWHERE = [
    ("q_rows", "loss-joins-rows", "the same with the rows end to end"),
    ("nested_rows", "advantage-joins-rows", "the same with the rows end to end"),
    ("ppo_two_memories", "next-observation-unread", "the same with any next observation"),
    ("ppo_two_memories", "next-state-overwritten", "holds no next state of the critic"),
    ("ppo_two_memories", "mask-dropped", "no training batch has padded steps"),
    ("q_own_ring", "slices-over-cursor", "no slice sampler of TorchRL's"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "name", "by"), ELSEWHERE)
def test_a_fault_finds_its_hold(spec: str, name: str, by: set[str]) -> None:
    (fault,) = select_faults([name])
    loaded, healthy = training(spec)
    (done,) = attempts(loaded, [fault], healthy)
    assert (done.ending, set(done.by)) == (Ending.CAUGHT, by)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fault", "reason"), NOWHERE)
def test_a_fault_that_would_change_nothing_says_so(name: str, fault: str, reason: str) -> None:
    nothing_fails = replace(training("q_padded")[1], checks=())
    spec = load_spec(ROOT / "fixtures" / "training" / f"{name}.yaml")
    (done,) = attempts(spec, select_faults([fault]), nothing_fails)
    assert done.ending is Ending.CANNOT_APPLY
    assert reason in done.reason


@pytest.mark.slow
def test_every_fault_of_a_whole_training_step_is_caught(health: dict[str, Run]) -> None:
    done = [attempt(health, PPO, fault) for fault in faults()]
    assert not [one for one in done if one.ending is Ending.MISSED]
    caught = [one for one in done if one.ending is Ending.CAUGHT]
    assert {one.stage for one in caught} == {fault.stage for fault in faults()}
    assert len(caught) >= 45
