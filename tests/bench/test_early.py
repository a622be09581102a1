"""The worker that begins before the command line is parsed: it answers, tells how it ended, and
never outlives the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rnncheck.bench.early import EarlyProcess, begin_early, early_process, end_early
from rnncheck.bench.messages import CellDropped, DropCell
from rnncheck.bench.process import WorkerDied, WorkerProcess, ask
from rnncheck.supervisor.keeper import descendants

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system has no pidfd")
FIXTURE = Path(__file__).parents[2] / "fixtures" / "bench" / "cartpole_lstm.yaml"
MARK = "RNNCHECK_TEST_MARK"


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    early = EarlyProcess()
    yield WorkerProcess(begun=early)
    early.end()


def marked(mark: str) -> list[int]:
    """The processes that were begun with this mark in their environment."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in file.read_bytes():
                found.append(int(file.parent.name))
    return found


def within(seconds: float, true: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.05)
    return true()


def test_it_answers_and_ends_by_itself(worker: WorkerProcess) -> None:
    assert ask(worker, DropCell("a"), CellDropped, 100) == CellDropped()
    worker.close()
    assert worker._process.wait(0) == 0


@pytest.mark.parametrize(
    "kill", [signal.SIGKILL, pytest.param(signal.SIGSEGV, marks=pytest.mark.slow)]
)
def test_what_killed_it_is_told(worker: WorkerProcess, kill: signal.Signals) -> None:
    assert ask(worker, DropCell("a"), CellDropped, 100) == CellDropped()
    (process,) = descendants(worker._process.pid)
    os.kill(process, kill)
    with pytest.raises(WorkerDied) as died:
        worker.reply(100)
    assert died.value.signal == kill.name


def test_a_time_out_is_none_of_its_death(worker: WorkerProcess) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        worker._process.wait(0)


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify"], ["bench", "--help"], ["bench", "a.yaml", "--plan"],
        ["bench", "--engine", "ray"], ["--version"], [],
    ],
)  # fmt: skip
def test_none_begins_where_nothing_is_measured(arguments: list[str]) -> None:
    begin_early(arguments)
    assert early_process() is None


def test_it_is_taken_once_and_ended_by_who_began_it() -> None:
    begin_early(["bench", "a.yaml"])
    first = early_process()
    assert first is not None
    assert early_process() is None
    end_early()
    assert not Path(f"/proc/{first.pid}").exists()


# What the command line may be, and how long behind the start of its worker its process gets which
# signal; 0 is none.
ENDINGS = [
    (["nosuch.yaml"], 0, 0.0, 2),
    (["--budgett"], 0, 0.0, 2),
    ([str(FIXTURE)], signal.SIGINT, 0.3, 130),
    ([str(FIXTURE)], signal.SIGTERM, 1.5, 143),
    ([str(FIXTURE)], signal.SIGINT, 6.0, 130),
    ([str(FIXTURE)], signal.SIGKILL, 0.3, -9),
    ([str(FIXTURE)], signal.SIGKILL, 6.0, -9),
]


@pytest.mark.parametrize(
    ("arguments", "kill", "after", "code"),
    [
        pytest.param(*one, marks=pytest.mark.slow if one[1:3] == (signal.SIGINT, 6.0) else ())
        for one in ENDINGS
    ],
)
def test_nothing_outlives_the_command(
    tmp_path: Path, arguments: list[str], kill: int, after: float, code: int
) -> None:
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-m", "rnncheck", "bench", *arguments, "-q"],
        cwd=tmp_path, env=os.environ | {MARK: mark},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    if kill:
        # Before that it runs nothing of ours, and the interpreter's own start may swallow Ctrl-C.
        assert within(60, lambda: descendants(process.pid))
        time.sleep(after)
        process.send_signal(kill)
    assert process.wait(100) == code
    assert within(30, lambda: not marked(mark)), "a process was left behind"
