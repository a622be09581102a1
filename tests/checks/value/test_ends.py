"""VL603: what an episode's end tells, and what it leaves open."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.results.model import Outcome
from tests.checks.verified import FIXTURES, failed, result, verified

TOKENS = FIXTURES / "pipelines" / "tokens.yaml"
PPO = FIXTURES / "causes" / "ppo.yaml"
NO_CLOCK = ("env.silent=false", "policy.modules.0.clock=false")
LATE = (
    'env.transforms=[{factory: "ppo:LateTracker"}, {use: StepCounter, max_steps: 14},'
    " {use: TensorDictPrimer, recurrent_state: {use: Unbounded, shape: [1, 16]},"
    " expand_specs: true}]"
)
# GAE of which the normalised advantages are left alone; the fault misses an end.
NORMALISED = """
def make_advantage(critic, ends="terminated"):
    inner = own(critic, ends=ends)
    def targets(data):
        found = inner(data)
        gain = found["advantage"]
        found["advantage"] = (gain - gain.mean()) / gain.std()
        return found.exclude("value_target")
    return targets
"""


def test_a_blank_at_the_end_and_at_every_start_is_no_lost_observation() -> None:
    run = verified(TOKENS, ("VL603",), *NO_CLOCK, "env.blank=true")
    assert result(run, "VL603").outcome is Outcome.PASSED


def test_an_episode_that_ends_with_the_next_ones_first_observation_lost_its_own() -> None:
    run = verified(TOKENS, ("VL603",), "env.silent=false", "env.lost=true")
    assert failed(run) == {"VL603"}


def test_where_episodes_begin_and_end_alike_nothing_tells() -> None:
    run = verified(TOKENS, ("VL603",), *NO_CLOCK, "env.lost=true")
    found = result(run, "VL603")
    assert found.outcome is Outcome.NOT_LOOKED
    assert "8 episodes ended with what the next one began with" in found.reason


@pytest.fixture
def normalised(tmp_path: Path) -> Path:
    for file in PPO.parent.glob("ppo.*"):
        (tmp_path / file.name).write_text(file.read_text())
    written = (tmp_path / "ppo.py").read_text().replace("def make_advantage(", "def own(")
    (tmp_path / "ppo.py").write_text(written + NORMALISED)
    return tmp_path / "ppo.yaml"


def changed(ends: str) -> tuple[str, ...]:
    return (f'advantage={{factory: "ppo:make_advantage", ends: {ends}}}', "loss=null")


def test_advantages_that_move_with_the_batch_tell_of_an_end(normalised: Path) -> None:
    run = verified(normalised, ("VL603",), *changed("terminated"))
    assert result(run, "VL603").outcome is Outcome.PASSED
    assert failed(verified(normalised, ("VL603",), *changed("truncated"))) == {"VL603"}


def test_where_advantages_leak_the_leak_is_named_and_the_ends_stay_open(normalised: Path) -> None:
    changes = (LATE, *changed("truncated"))
    run = verified(normalised, ("VL601", "VL603"), *changes)
    assert failed(run) == {"VL601"}
    assert result(run, "VL603").deferred_to == ("VL601",)
    alone = verified(normalised, ("VL603",), *changes)
    assert result(alone, "VL603").outcome is Outcome.NOT_LOOKED


def test_a_late_flag_is_no_target_over_an_end() -> None:
    gae = "advantage={use: GAE, gamma: 0.97, lmbda: 0.9, shifted: true, average_gae: true}"
    assert failed(verified(PPO, ("VL601", "VL603"), LATE, gae)) == {"VL601"}


def test_a_sum_over_ends_is_told_as_that_and_as_no_value_after_an_end() -> None:
    gae = 'advantage={factory: "ppo:make_advantage", stops: false}'
    run = verified(PPO, ("VL601", "VL603"), gae)
    assert failed(run) == {"VL601"}
    assert result(run, "VL603").deferred_to == ("VL601",)
    (finding,) = result(run, "VL601").findings
    assert "(~done[t])" in finding.fix
