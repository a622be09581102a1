"""Policies of which is known what they remember: it comes out, whatever it is."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import rnncheck
from rnncheck.results.memory import MemoryResult, ReturnEffect

SPEC = Path(__file__).parents[2] / "fixtures" / "memory" / "delay_line.yaml"
QUICK = ("memory.recorded=4", "memory.episodes=8")
MANY = ("memory.episodes=64", "env.steps=5")  # what equal returns take to be as good


def studied(*overrides: str) -> MemoryResult:
    run = rnncheck.memory(SPEC, overrides=[*QUICK, *overrides])
    assert run.memory is not None
    assert run.memory.untold == ()
    return run.memory


def found(result: MemoryResult) -> dict[str, str]:
    return {one.name: one.explained for one in result.findings}


@pytest.mark.parametrize(
    "delay", [1, pytest.param(4, marks=pytest.mark.slow), pytest.param(16, marks=pytest.mark.slow)]
)
def test_a_delay_line_has_its_length_as_horizon(delay: int) -> None:
    result = studied(f"env.delay={delay}", f"env.size={delay}", f"policy.size={delay}")
    for method in ("replaced", "gradient"):
        (curve,) = [c for c in result.curves if c.method == method and not c.of_state]
        assert curve.horizon == delay
        assert curve.reach is not None
        assert (curve.reach.low, curve.reach.value, curve.reach.high) == (delay,) * 3
    # What it has forgotten after so many steps needs as many of burn-in; what was stored none.
    needs = {one.start: one.burn_in.value for one in result.replay if one.burn_in is not None}
    assert needs == {"zero": delay, "stored": 0}
    effects = {one.treatment: one.effect for one in result.returns}
    assert effects["reset every step"] is ReturnEffect.WORSE
    assert result.findings == ()
    assert {one.setting: one.advised for one in result.advice} == {
        "slice_len": str(delay + 1), "burn_in": "0", "start": "stored",
    }  # fmt: skip


def test_what_the_steps_end_before_is_at_least_that() -> None:
    """Episodes of 24 steps of which 8 are played: a reach of 7 may be more."""
    leaky = ("policy.kind=leaky", "policy.rate=0.9", "env.size=1", "env.delay=0")
    curve = studied(*leaky, "memory.steps=8").main_curve
    assert curve is not None
    assert curve.reach is not None
    assert (curve.reach.value, curve.reach.beyond) == (7, True)


@pytest.mark.parametrize("rate", [pytest.param(0.5, marks=pytest.mark.slow), 0.8])
def test_a_leaky_integrator_has_its_half_life(rate: float) -> None:
    result = studied("policy.kind=leaky", f"policy.rate={rate}", "env.size=1", "env.delay=0")
    truth = math.log(0.5) / math.log(rate)
    curves = [one for one in result.curves if not one.of_state]
    assert {one.method for one in curves} == {"replaced", "gradient"}
    for curve in curves:
        assert curve.half_life is not None
        assert curve.half_life.value == pytest.approx(truth, rel=0.05)


def test_a_state_that_never_moves_is_told() -> None:
    result = studied("policy.kind=shell", "env.size=1", *MANY)
    assert result.main_curve is not None
    assert result.main_curve.horizon == 0
    assert "memory is dead" in found(result)["memory-unused"]
    assert "state-dead" in found(result)


@pytest.mark.slow
def test_a_head_that_ignores_the_state_is_told() -> None:
    result = studied("policy.kind=deaf", "env.size=1", "env.delay=0", *MANY)
    assert result.main_curve is not None
    assert result.main_curve.horizon == 0
    assert found(result).keys() == {"memory-unused"}
    assert "the head ignores it" in found(result)["memory-unused"]


@pytest.mark.slow
def test_a_state_that_starts_anew_at_every_step_is_told() -> None:
    result = studied("policy.kind=anew", "env.size=1", "env.delay=0", *MANY)
    assert "the state starts anew at every step" in found(result)["memory-unused"]
    assert result.advice == ()  # of what remembers nothing


def test_a_graph_that_is_cut_in_training_is_told() -> None:
    """A line of 4 steps whose pass over time detaches its state every 3."""
    result = studied("policy.truncate=3")
    (cut,) = result.findings
    assert cut.name == "gradient-cut"
    assert "action depends on observations 4 [4, 4] steps back" in cut.message
    assert "reaches further back than 0 steps" in cut.message
    assert cut.fix.startswith("cut it every 5 steps")
    assert studied("policy.truncate=6").findings == ()


def test_a_critic_has_its_own_memory() -> None:
    """It decides over slices and burn-in, and not over whether the policy remembers."""
    result = studied('critic={factory: "planted:Values"}', "memory.lags=20")
    assert result.main_curve is not None
    assert result.main_curve.output == "action"
    values = [c for c in result.curves if c.whose == "critic" and not c.of_state]
    assert {c.method for c in values} == {"replaced", "gradient"}
    for curve in values:
        assert curve.half_life is not None
        assert curve.half_life.value == pytest.approx(math.log(0.5) / math.log(0.8), rel=0.05)
    advised = {one.setting: one for one in result.advice}
    assert advised["start"].advised == "stored"
    assert "state_value of the critic" in advised["slice_len"].because
    decayed = math.log(0.05) / math.log(0.8)  # steps until a twentieth of the error is left
    assert int(advised["burn_in"].advised) == pytest.approx(decayed, abs=1)
    assert {one.named for one in result.states} == {"h", "value_h of the critic"}


@pytest.mark.parametrize(("rate", "drifts"), [(0.9, False), (1.05, True)])
def test_a_state_that_comes_up_from_its_start_does_not_drift(rate: float, drifts: bool) -> None:
    """Batches of 12 steps, episodes of 24: one state has come up within 12, one grows for ever."""
    leaky = ("policy.kind=leaky", f"policy.rate={rate}", "env.size=1", "memory.recorded=16")
    collect = "collect={use: Collector, frames_per_batch: 12, batches: 2}"
    told = {one.name for one in studied(*leaky, collect).findings}
    assert ("state-drifts" in told) is drifts


def test_nothing_crosses_the_end_of_an_episode() -> None:
    matrix = studied().matrix
    assert matrix is not None
    second = matrix.second
    assert 0 < second < len(matrix.values)
    assert all(value == 0 for row in matrix.values[:second] for value in row[second:])
    assert all(value == 0 for row in matrix.values[second:] for value in row[:second])
    moved = [t - s for s, row in enumerate(matrix.values) for t, v in enumerate(row) if v > 0]
    assert set(moved) == {4}


def test_each_agent_has_its_own_half_life() -> None:
    run = rnncheck.memory(SPEC.with_name("two_agents.yaml"))
    assert run.memory is not None
    curves = [c for c in run.memory.curves if c.method == "replaced" and not c.of_state]
    half_lives = {c.agent: c.half_life.value for c in curves if c.half_life is not None}
    truth = {agent: math.log(0.5) / math.log(rate) for agent, rate in enumerate((0.5, 0.8))}
    assert half_lives == pytest.approx(truth, rel=0.05)
    assert run.memory.main_curve is not None
    assert run.memory.main_curve.agent == 1  # who remembers longest decides
