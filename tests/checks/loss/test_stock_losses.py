"""TorchRL's own losses on recurrent networks, each held to a verdict that was worked out by hand.

A loss that runs a recurrent network on the next state reads it through ``step_mdp``, with every
start flag false: it leaks (LS701). One whose next value comes from a network without memory, or
from an estimator, is clean. What cannot run is LS706 with a way out.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.collect import RunCollector
from rnncheck.results.model import Outcome, Run, Severity
from rnncheck.spec.load import load_spec

NETWORKS = Path(__file__).parents[3] / "fixtures" / "training" / "stock.py"

CARTPOLE = "use: GymEnv, env_name: CartPole-v1, categorical_action_encoding: true"
ONE_HOT = "use: GymEnv, env_name: CartPole-v1, categorical_action_encoding: false"
PENDULUM = "use: GymEnv, env_name: Pendulum-v1"
SLICES = """\
collect: {use: Collector, frames_per_batch: 96, batches: 2}
replay:
  storage: {use: LazyTensorStorage, max_size: 400}
  sampler: {use: SliceSampler, slice_len: 8, traj_key: [collector, traj_ids], strict_length: false}
  batch_size: 64
"""
ROWS = "collect: {use: Collector, frames_per_batch: 128, batches: 2}\n"
GAE = "advantage: {use: GAE, gamma: 0.97, lmbda: 0.9, shifted: true}\n"

Q = 'qvalue_network: {factory: "stock:state_action_value"}'
Q_MEMORY = 'qvalue_network: {factory: "stock:state_action_value", remembers: true}'
V = 'value_network: {factory: "stock:state_value", size: 3}'
V_MEMORY = 'value_network: {factory: "stock:state_value", size: 3, remembers: true}'
VALUES = 'qvalue_network: {factory: "stock:action_values"}'
VALUES_MEMORY = 'qvalue_network: {factory: "stock:action_values", remembers: true}'
IQ = 'qvalue_network: {factory: "stock:action_values", out: state_action_value}'
V4 = 'value_network: {factory: "stock:state_value", size: 4}'
V4_MEMORY = 'value_network: {factory: "stock:state_value", size: 4, remembers: true}'
SOME = "num_qvalue_nets: 4, sub_sample_len: 2"
ALONE = "deactivate_vmap: true"

LEAKS, CLEAN, CANNOT, LATE = {"LS701"}, set[str](), {"LS706"}, {"VL604"}

# env, policy, loss, what fails on slices
OFF_POLICY: dict[str, tuple[str, str, str, set[str]]] = {
    "dqn": (CARTPOLE, "q_policy", "DQNLoss, delay_value: true", LEAKS),
    "dqn_no_delay": (CARTPOLE, "q_policy", "DQNLoss, delay_value: false", LEAKS),
    "dqn_double": (CARTPOLE, "q_policy", "DQNLoss, delay_value: true, double_dqn: true", LEAKS),
    "distributional": (ONE_HOT, "distributional", "DistributionalDQNLoss, gamma: 0.97", LEAKS),
    "discrete_cql": (CARTPOLE, "q_policy", "DiscreteCQLLoss", LEAKS),
    "discrete_sac": (CARTPOLE, "categorical", f"DiscreteSACLoss, {VALUES}", LEAKS),
    "discrete_sac_q": (CARTPOLE, "categorical", f"DiscreteSACLoss, {VALUES_MEMORY}", CANNOT),
    "discrete_sac_q_alone": (
        CARTPOLE, "categorical", f"DiscreteSACLoss, {VALUES_MEMORY}, {ALONE}", LEAKS,
    ),
    "discrete_iql": (CARTPOLE, "categorical", f"DiscreteIQLLoss, {IQ}, {V4}", CLEAN),
    "discrete_iql_v": (CARTPOLE, "categorical", f"DiscreteIQLLoss, {IQ}, {V4_MEMORY}", LEAKS),
    "sac": (PENDULUM, "gaussian", f"SACLoss, {Q}", LEAKS),
    "sac_v1": (PENDULUM, "gaussian", f"SACLoss, {Q}, {V}", CANNOT),
    "sac_v1_v": (PENDULUM, "gaussian", f"SACLoss, {Q}, {V_MEMORY}", LEAKS),
    "sac_q": (PENDULUM, "gaussian", f"SACLoss, {Q_MEMORY}", CANNOT),
    "sac_q_alone": (PENDULUM, "gaussian", f"SACLoss, {Q_MEMORY}, {ALONE}", LEAKS),
    "cql": (PENDULUM, "gaussian", f"CQLLoss, {Q}", LEAKS),
    "crossq": (PENDULUM, "gaussian", f"CrossQLoss, {Q}", LEAKS),
    "iql": (PENDULUM, "gaussian", f"IQLLoss, {Q}, {V}", CLEAN),
    "iql_v": (PENDULUM, "gaussian", f"IQLLoss, {Q}, {V_MEMORY}", LEAKS),
    "redq": (PENDULUM, "gaussian", f"REDQLoss, {Q}, {SOME}", CANNOT),
    "redq_q_alone": (PENDULUM, "gaussian", f"REDQLoss, {Q_MEMORY}, {SOME}, {ALONE}", CANNOT),
    "td3": (PENDULUM, "deterministic", f"TD3Loss, {Q}", LEAKS),
    "td3_bc": (PENDULUM, "deterministic", f"TD3BCLoss, {Q}", LEAKS),
    "ddpg": (PENDULUM, "deterministic", f"DDPGLoss, {Q.replace('qvalue', 'value')}", LEAKS),
    "ddpg_q": (
        PENDULUM,
        "deterministic",
        f"DDPGLoss, {Q_MEMORY.replace('qvalue', 'value')}",
        LEAKS,
    ),
}  # fmt: skip
QUICK = ("sac_v1", "redq_q_alone", "iql", "distributional")  # the rest is slow, or a fixture
# The next state's flags copied from the root: no leak; what is left is a target from zero states,
# if the loss's own root pass has overwritten the collected next states.
WITH_FLAGS = {"dqn": LATE, "dqn_double": LATE, "distributional": CLEAN, "sac": CLEAN, "ddpg": CLEAN}
ON_POLICY = {
    "a2c": "A2CLoss",
    "ppo": "PPOLoss",
    "clip": "ClipPPOLoss",
    "kl": "KLPENPPOLoss",
    "reinforce": "ReinforceLoss",
}
WAYS_OUT = {
    "discrete_sac_q": "deactivate_vmap=True",
    "sac_v1": "leave out the network",
    "sac_q": "deactivate_vmap=True",
    "redq": "deactivate_vmap=True",
    "redq_q_alone": "TensorDictPrimer",
}


def marked(names: dict[str, object], quick: tuple[str, ...] = ()) -> list[object]:
    return [pytest.param(n, marks=() if n in quick else pytest.mark.slow) for n in names]


def verified(folder: Path, env: str, policy: str, loss: str, stages: str, workers: int = 1) -> Run:
    """The run of the value and loss checks on a spec made of these parts."""
    shutil.copy(NETWORKS, folder)
    transforms = "[InitTracker, {use: StepCounter, max_steps: 14}]"
    (folder / "rnncheck.yaml").write_text(
        f"schema: 1\nname: stock\nseed: 0\n"
        f"env: {{{env}, workers: {workers}, transforms: {transforms}}}\n"
        f'policy: {{factory: "stock:{policy}"}}\n{stages}loss: {{use: {loss}}}\n'
    )
    spec, collector = load_spec(folder / "rnncheck.yaml"), RunCollector()
    for event in verify_events(spec, select_rules(spec, ("VL", "LS"))):
        collector(event)
    return collector.finish(interrupted=False, seconds=0.0)


def errors(run: Run) -> set[str]:
    assert not [check for check in run.checks if check.outcome is Outcome.ERROR]
    failed = [check for check in run.checks if check.outcome is Outcome.FAILED]
    return {check.code for check in failed if check.severity is Severity.ERROR}


@pytest.mark.first(2)
@pytest.mark.parametrize("name", marked(OFF_POLICY, QUICK))
def test_a_stock_loss_on_slices(name: str, tmp_path: Path) -> None:
    env, policy, loss, expected = OFF_POLICY[name]
    run = verified(tmp_path, env, policy, loss, SLICES)
    assert errors(run) == expected
    if expected == CANNOT:
        (finding,) = [f for f in run.findings if f.code == "LS706"]
        assert WAYS_OUT[name] in finding.fix


@pytest.mark.slow
@pytest.mark.parametrize("name", OFF_POLICY)
def test_a_stock_loss_on_rows(name: str, tmp_path: Path) -> None:
    env, policy, loss, expected = OFF_POLICY[name]
    flat_only = name == "distributional"
    run = verified(tmp_path, env, policy, loss, ROWS, workers=4)
    assert errors(run) == (CANNOT if flat_only else expected)


@pytest.mark.parametrize("name", marked(WITH_FLAGS, ("dqn_double",)))
def test_with_the_flags_of_the_root_the_leak_is_gone(name: str, tmp_path: Path) -> None:
    env, policy, loss, _ = OFF_POLICY[name]
    stages = SLICES + 'batch: {factory: "stock:next_flags"}\n'
    assert errors(verified(tmp_path, env, policy, loss, stages)) == WITH_FLAGS[name]


@pytest.mark.slow
@pytest.mark.parametrize("stages", [SLICES, ROWS], ids=["slices", "rows"])
@pytest.mark.parametrize("remembers", [False, True], ids=["plain", "memory"])
@pytest.mark.parametrize("name", ON_POLICY)
def test_an_on_policy_loss_is_clean(
    name: str, remembers: bool, stages: str, tmp_path: Path
) -> None:
    critic = f'critic: {{factory: "stock:state_value", size: 4, remembers: {remembers}}}\n'.lower()
    parts = critic + stages + GAE
    run = verified(
        tmp_path, CARTPOLE, "categorical", ON_POLICY[name], parts, 4 if stages == ROWS else 1
    )
    assert errors(run) == CLEAN
