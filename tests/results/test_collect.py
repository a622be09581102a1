"""From events to a Run, whole or interrupted, and the environment that it names."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from rnncheck.results.collect import RunCollector, unstarted
from rnncheck.results.environment import current_environment, gpu_models
from rnncheck.results.events import (
    CausesFound,
    CheckFinished,
    CheckStarted,
    Event,
    GuaranteeJudged,
    MemoryMeasured,
    Notice,
    RunStarted,
    StageFinished,
    StageStarted,
)
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.memory import MemoryResult, Question
from rnncheck.results.model import Run, Verdict
from rnncheck.results.store import dumps
from tests.report.canned import BROKEN, HEALTHY, RUNS, STRICT


def events(run: Run) -> list[Event]:
    codes = tuple(check.code for check in run.checks)
    start = RunStarted(
        run.tool, run.command, run.spec, run.environment, run.seed, run.started, codes,
        run.strict, run.rules,
    )  # fmt: skip
    stages = [event for s in run.stages for event in (StageStarted(s.stage), StageFinished(s))]
    checks = [
        event
        for c in run.checks
        for event in (CheckStarted(c.code, c.name, c.stage), CheckFinished(c))
    ]
    judged = map(GuaranteeJudged, run.guarantees)
    causes = [CausesFound(run.causes)] if run.causes else []
    return [start, *stages, *checks, *judged, *causes, *(Notice(text) for text in run.notices)]


def collected(heard: list[Event], interrupted: bool = False) -> Run:
    collector = RunCollector()
    for event in heard:
        collector(event)
    return collector.finish(interrupted, seconds=4.21)


@pytest.mark.parametrize("name", [name for name in RUNS if name not in ("interrupted", "hostile")])
def test_a_whole_run(name: str) -> None:
    assert collected(events(RUNS[name])) == RUNS[name]


def test_strict_is_kept() -> None:
    assert collected(events(STRICT)).exit_code is ExitCode.FAILED


@pytest.mark.parametrize("count", range(len(events(BROKEN)) + 1))
def test_an_interruption_at_any_moment_leaves_a_run(count: int) -> None:
    run = collected(events(BROKEN)[:count], interrupted=True)
    assert (run.verdict, run.exit_code) == (Verdict.INTERRUPTED, ExitCode.INTERRUPTED)
    assert run.checks == BROKEN.checks[: len(run.checks)]
    assert run.notices[-1].startswith("interrupted")
    dumps(run)


def test_an_interruption_says_what_it_hit_and_what_was_not_run() -> None:
    heard = events(HEALTHY)
    during_stage, during_check = heard[:6], heard[: 1 + 2 * len(HEALTHY.stages) + 3]
    assert isinstance(during_stage[-1], StageStarted)
    assert "interrupted during stage collect; not run: WR101, WR102" in _last_notice(during_stage)
    assert "interrupted during WR102 missing-init-tracker; not run: WR102" in _last_notice(
        during_check
    )
    assert _last_notice(heard) == "interrupted"


def test_a_study_that_kept_nothing_is_not_said_to_resume() -> None:
    begun: list[Event] = [unstarted("memory")]
    assert _last_notice(begun) == "interrupted; not run: horizon, state, replay, returns"
    told = MemoryMeasured(MemoryResult(answered=(Question.HORIZON,)))
    assert _last_notice([*begun, told]).endswith(
        "state, replay, returns (go on with `rnncheck memory --resume`)"
    )


def _last_notice(heard: list[Event]) -> str:
    return collected(heard, interrupted=True).notices[-1]


def test_the_environment_names_what_is_installed() -> None:
    env = current_environment("cuda:1")
    assert env.device == "cuda:1"
    assert env.python == platform.python_version()
    assert env.packages["torch"] == version("torch")
    assert env.threads >= 1


def test_the_models_of_gpus_are_those_that_the_driver_lists(tmp_path: Path) -> None:
    for bus, model in (("0", "NVIDIA H200"), ("1", "NVIDIA H200"), ("2", "NVIDIA A100")):
        (tmp_path / bus).mkdir()
        text = f"Model: \t\t {model}\nIRQ:   \t 0\n"
        (tmp_path / bus / "information").write_text(text)
    assert gpu_models(tmp_path) == "NVIDIA H200, NVIDIA A100"
    assert gpu_models(tmp_path / "none") == ""
    assert current_environment("cpu").gpu == ""


def test_the_environment_imports_no_torch() -> None:
    code = (
        "import sys; from rnncheck.results.environment import current_environment;"
        "current_environment(); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_threads_are_those_of_a_loaded_torch() -> None:
    import torch

    assert current_environment().threads == torch.get_num_threads()
