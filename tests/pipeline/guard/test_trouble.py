"""Pipelines that break while they run: outcomes with the user's frames, never a hang or a traceback
of ours."""

from __future__ import annotations

import multiprocessing
import threading
import time
from pathlib import Path

import pytest

from rnncheck.errors import StageError, StageTimeout
from rnncheck.pipeline.guard.timeout import time_limit
from rnncheck.pipeline.guard.user_frames import display_path
from rnncheck.results.model import Outcome, Stage

# Seconds. A busy machine makes the env and the policy well within it; a step of the slow env is 30.
LIMIT = 5
SHORT = "collect:", f"verify: {{timeout: {LIMIT}}}\ncollect:"


@pytest.mark.parametrize("env", ["slow_env", pytest.param("endless_env", marks=pytest.mark.slow)])
def test_a_stage_that_takes_too_long_is_interrupted(bench, own_text, env):
    builder = bench.run(own_text, "own:make_env", f"own:{env}", *SHORT)
    failure = builder.failures[Stage.COLLECT]
    assert isinstance(failure, StageTimeout)
    assert f"{LIMIT} s" in failure.message
    assert "verify.timeout" in failure.message
    assert failure.place.path == "own.py"
    assert builder.pipeline is not None


def test_an_env_that_raises_keeps_what_was_collected(bench, own_text):
    swap = ("own:make_env", "own:breaking_env", "batch: 40", "batch: 20")
    builder = bench.run(own_text, *swap)
    failure = builder.failures[Stage.COLLECT]
    assert failure.message == "RuntimeError: the motor broke"
    assert failure.place.path == "own.py"
    assert "site-packages" not in failure.frames
    assert "rnncheck" not in failure.frames
    assert len(builder.pipeline.batches) == 1


@pytest.mark.slow
def test_a_worker_that_raises_is_quoted_and_gone(bench, own_text):
    swap = ('"own:make_env"', '"own:breaking_env", workers: 2, vectorize: parallel')
    builder = bench.run(own_text, *swap, "batch: 40", "batch: 80")
    failure = builder.failures[Stage.COLLECT]
    assert failure.message == "RuntimeError: the motor broke"
    assert failure.place.path == "own.py"
    builder.close()
    assert multiprocessing.active_children() == []


def test_a_generator_that_raises(bench, own_text):
    collect = ("{use: Collector, frames_per_batch: 40}", "{factory: 'own:generate_then_raise'}")
    builder = bench.run(own_text, *collect)
    assert builder.failures[Stage.COLLECT].message == "ValueError: the tape is full"
    assert len(builder.pipeline.batches) == 1


@pytest.mark.parametrize(
    ("name", "said"), [("no_batches", "gave no batch"), ("numbers", "of type int")]
)
def test_a_collector_that_gives_something_else(bench, own_text, name, said):
    collect = ("{use: Collector, frames_per_batch: 40}", f"{{factory: 'own:{name}'}}")
    builder = bench.run(own_text, *collect)
    assert said in builder.failures[Stage.COLLECT].message


def test_an_env_that_cannot_reset_stops_a_named_policy(bench, dqn_text, own_text):
    env = dqn_text[dqn_text.index("env:") : dqn_text.index("policy:")]
    builder = bench.run(dqn_text, env, "env: {factory: 'own:dead_env'}\n")
    assert builder.failures[Stage.POLICY].stage == "env"
    assert builder.results[Stage.COLLECT].outcome is Outcome.NOT_LOOKED
    assert builder.pipeline is None


def test_time_limit_survives_code_that_swallows_it():
    def stubborn() -> None:
        while True:
            try:
                time.sleep(5)
            except BaseException:
                raise ValueError("cleaned up") from None

    with pytest.raises(StageTimeout), time_limit("collect", 0.1):
        try:
            stubborn()
        except ValueError as error:
            raise RuntimeError("wrapped") from error


def test_time_limit_in_another_thread():
    seen: list[StageError] = []

    def work() -> None:
        try:
            with time_limit("collect", 0.1):
                while True:
                    time.sleep(0.01)
        except StageTimeout as error:
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert len(seen) == 1


def test_time_limit_leaves_errors_alone():
    with pytest.raises(ValueError, match="mine"), time_limit("collect", 5):
        raise ValueError("mine")


def test_an_outer_limit_goes_on_after_an_inner_one():
    with pytest.raises(StageTimeout, match=r"0\.3 s"), time_limit("outer", 0.3):
        with time_limit("inner", 5):
            pass
        time.sleep(10)


def test_time_limit_counts_also_where_the_body_goes_on():
    def deaf() -> None:
        try:
            time.sleep(10)
        except BaseException:
            return

    with pytest.raises(StageTimeout), time_limit("collect", 0.1):
        deaf()


def test_a_path_is_told_as_it_is_where_the_working_directory_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert display_path("train.py") == "train.py"
