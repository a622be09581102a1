"""Every way in which code can end the process that it runs in, and what is told of it."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rnncheck.errors import Place, SpecError, UserError
from rnncheck.results.collect import RunCollector, unstarted
from rnncheck.results.events import (
    CheckFinished,
    CheckStarted,
    Event,
    GuaranteeJudged,
    RunBroken,
    StageFinished,
    StageStarted,
)
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import (
    CheckResult,
    Outcome,
    RuleInfo,
    Run,
    Severity,
    Stage,
    StageResult,
    Verdict,
)
from rnncheck.supervisor import process
from rnncheck.supervisor.deadlines import until
from rnncheck.supervisor.keeper import descendants
from rnncheck.supervisor.supervise import Broken, supervised, supervised_events

RULES = tuple(
    RuleInfo(code, "some-check", Severity.ERROR, Stage.POLICY, "family", "summary")
    for code in ("BD301", "EQ201", "GR801")
)


class Own(BaseException):
    """No Exception."""


def fork_and_return() -> None:
    os.fork()


def segfault() -> None:
    ctypes.string_at(0)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def raising(error: BaseException) -> Callable[[], None]:
    def way() -> None:
        raise error

    return way


WAYS: dict[str, tuple[Callable[[], Any], str]] = {
    "SystemExit": (raising(SystemExit(0)), "raised SystemExit: 0"),
    "GeneratorExit": (raising(GeneratorExit()), "raised GeneratorExit"),
    "KeyboardInterrupt": (raising(KeyboardInterrupt()), "raised KeyboardInterrupt"),
    "own": (raising(Own("mine")), "raised Own: mine"),
    "_exit(0)": (lambda: os._exit(0), "ended the process, with exit code 0"),
    "_exit(3)": (lambda: os._exit(3), "ended the process, with exit code 3"),
    "closerange": (lambda: os.closerange(3, 65_536), "closed the pipe that the run is told on"),
    "abort": (os.abort, "its process was killed by SIGABRT"),
    "segfault": (segfault, "its process was killed by SIGSEGV"),
    "kill": (kill_itself, "killed by SIGKILL, as the system does where memory runs out"),
    "fork": (fork_and_return, "its code forked the process, and the copy went on with the run"),
}


def events(way: Callable[[], Any], at: str) -> Iterator[Event]:
    """A run of one stage and three checks, in one of which something happens."""
    start = unstarted("verify")
    yield type(start)(**{**vars(start), "checks": tuple(r.code for r in RULES), "rules": RULES})
    yield StageStarted(Stage.ENV)
    if at == "env":
        way()
    yield StageFinished(StageResult(Stage.ENV, Outcome.PASSED))
    for rule in RULES:
        yield CheckStarted(rule.code, rule.name, rule.stage)
        if at == rule.code:
            way()
            time.sleep(0.2)  # a copy of the process is to come as far as this one
        yield CheckFinished(
            CheckResult(rule.code, rule.name, rule.severity, rule.stage, Outcome.PASSED, compared=1)
        )


def run_of(way: Callable[[], Any], at: str) -> Run:
    collector = RunCollector()
    with closing(supervised_events(lambda: events(way, at))) as stream:
        for event in stream:
            collector(event)
    return collector.finish(interrupted=False, seconds=0.0)


def test_a_run_that_nothing_ends_is_told_whole() -> None:
    run = run_of(lambda: None, "env")
    assert [check.outcome for check in run.checks] == [Outcome.PASSED] * 3
    assert not run.notices


@pytest.mark.parametrize("name", WAYS)
def test_a_stage_that_ends_its_process_is_an_error_of_the_stage(name: str) -> None:
    way, told = WAYS[name]
    run = run_of(way, "env")
    assert (run.verdict, run.exit_code) == (Verdict.ERROR, ExitCode.INTERNAL)
    assert [(stage.stage, stage.outcome) for stage in run.stages] == [(Stage.ENV, Outcome.ERROR)]
    assert told in run.stages[0].detail
    left = [check for check in run.checks if check.outcome is not Outcome.PASSED]
    assert all(check.outcome is Outcome.NOT_LOOKED for check in left)
    assert all("not run: the env stage ended the run" in check.reason for check in left)
    assert len(left) == len(RULES) or name == "fork"  # a copy is heard while the run goes on
    assert run.guarantees
    assert "the env stage" in run.notices[-1]


@pytest.mark.parametrize("name", WAYS)
def test_a_check_that_ends_its_process_is_an_error_of_the_check(name: str) -> None:
    way, told = WAYS[name]
    run = run_of(way, "EQ201")
    assert (run.verdict, run.exit_code) == (Verdict.ERROR, ExitCode.INTERNAL)
    first, own, after = [check.outcome for check in run.checks]
    assert (first, own) == (Outcome.PASSED, Outcome.ERROR)
    assert after is Outcome.NOT_LOOKED or name == "fork"  # a copy is heard while the run goes on
    assert told in run.checks[1].reason
    assert "EQ201 some-check" in run.notices[-1]


def test_a_failed_check_weighs_more_than_what_ended_the_process() -> None:
    def stream() -> Iterator[Event]:
        for event in events(lambda: os._exit(0), "EQ201"):
            if isinstance(event, CheckFinished):
                result = CheckResult(
                    "BD301", "some-check", Severity.ERROR, Stage.POLICY, Outcome.FAILED
                )
                event = CheckFinished(result)
            yield event

    collector = RunCollector()
    for event in supervised_events(stream):
        collector(event)
    assert collector.finish(interrupted=False, seconds=0.0).exit_code is ExitCode.FAILED


def test_a_function_at_exit_that_exits_is_told() -> None:
    def stream() -> Iterator[Event]:
        atexit.register(os._exit, 0)
        yield from events(lambda: None, "")

    told = list(supervised_events(stream))
    assert isinstance(told[-1], RunBroken)
    assert "ended the process, with exit code 0" in told[-1].reason
    assert any(isinstance(event, GuaranteeJudged) for event in told)


def test_the_users_line_is_told_where_the_process_crashed() -> None:
    run = run_of(segfault, "env")
    assert run.stages[0].detail.endswith(f"(tests/supervisor/{Path(__file__).name}:{LINE})")


LINE = segfault.__code__.co_firstlineno + 1


def test_what_swallows_its_interruption_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE", 0.1)

    def hang() -> None:
        with until(0.1):
            ctypes.CDLL(None).sleep(60)

    run = run_of(hang, "GR801")
    assert run.checks[-1].outcome is Outcome.ERROR
    assert "did not end within its time-out" in run.checks[-1].reason
    assert Path(__file__).name in run.checks[-1].reason


@pytest.mark.parametrize(
    "error",
    [
        UserError("wrong", accepted="right", hint="do it"),
        SpecError("wrong", place=Place("x.yaml", 1, 2)),
    ],
)
def test_bad_input_is_raised_here(error: UserError) -> None:
    def stream() -> Iterator[int]:
        yield 1
        raise error

    items = supervised(stream)
    assert next(items) == 1
    with pytest.raises(type(error)) as raised:
        next(items)
    assert str(raised.value) == str(error)


def test_who_waits_is_called_while_nothing_is_told(tmp_path: Path) -> None:
    called = tmp_path / "called"

    def stream() -> Iterator[int]:
        while not called.exists():
            time.sleep(0.01)
        yield 1

    assert list(supervised(stream, called.touch)) == [1]


def test_prints_go_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    def stream() -> Iterator[int]:
        print("from python")
        os.system("echo from a process")
        yield 1

    assert list(supervised(stream)) == [1]
    out, err = capfd.readouterr()
    assert out == ""
    assert "from python" in err and "from a process" in err


def test_what_cannot_be_read_ends_the_stream() -> None:
    def stream() -> Iterator[Any]:
        yield subprocess.CompletedProcess([], 0)  # no class that is told

    (broken,) = supervised(stream)
    assert isinstance(broken, Broken)
    assert "subprocess.CompletedProcess" in broken.reason


def leave_a_process_and_a_folder() -> str:
    """A process that ignores everything and has left its group, and a folder with a file."""
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    folder = tempfile.mkdtemp()
    (Path(folder) / "file").write_text("x")
    return folder


def test_nothing_is_left_when_the_stream_is_closed() -> None:
    before = descendants(os.getpid())

    def stream() -> Iterator[Any]:
        yield leave_a_process_and_a_folder()
        time.sleep(600)

    items = supervised(stream)
    folder = Path(next(items))
    assert folder.exists()
    assert descendants(os.getpid()) - before
    items.close()
    assert not folder.exists()
    assert not descendants(os.getpid()) - before


PROGRAM = """
import sys, time
from rnncheck.supervisor.supervise import supervised
from tests.supervisor.test_supervise import leave_a_process_and_a_folder

def stream():
    yield leave_a_process_and_a_folder()
    time.sleep(600)

for folder in supervised(stream):
    print(folder, flush=True)
"""


def test_nothing_is_left_when_the_command_is_killed() -> None:
    command = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    folder = Path(command.stdout.readline().strip())
    left = descendants(command.pid)
    assert len(left) == 3  # the keeper, the pipeline, and what that has left behind
    command.kill()
    command.wait()
    command.stdout.close()
    assert ended(left)
    assert not folder.exists()


def ended(processes: set[int], patience: float = 30.0) -> bool:
    deadline = time.monotonic() + patience
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(map(alive, processes))


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


WRAPPING = """
import os, signal
from rnncheck.supervisor.signals import CommandStopped, arm, stopping

arm()
try:
    with stopping():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException as error:
            raise ValueError("a library's own") from error
except CommandStopped as stop:
    print(stop.code, flush=True)
try:
    with stopping():
        raise SystemExit(5)
except CommandStopped:
    os.kill(os.getpid(), signal.SIGINT)  # the second one ends the process at once
"""


def test_what_a_library_makes_of_a_signal_is_the_signal() -> None:
    done = subprocess.run([sys.executable, "-c", WRAPPING], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"143\n", b"")
