"""A worker process, asked by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rnncheck.bench.group import Group, Limits
from rnncheck.bench.messages import (
    CellDropped,
    CellPrepared,
    DropCell,
    PipelineOpened,
    PrepareCell,
    RoundEnded,
    SampleBegun,
    SampleTaken,
    TimeRound,
    WorkerFailed,
)
from rnncheck.bench.process import WorkerProcess, WorkerTrouble, ask
from rnncheck.bench.sides import Side, open_command
from rnncheck.results.cells import Cell, Phase, Status
from rnncheck.results.variant import OWN, Variant

SPEC = """schema: 1
name: small
env: {use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}
policy: {factory: "mine:policy"}
"""
MINE = """from pathlib import Path
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.modules import LSTMModule

class Head(nn.Linear):
    def forward(self, x):
        with Path(__file__).with_name("calls").open("ab") as calls:
            calls.write(b"x")
        return super().forward(x)

def policy(env):
    return TensorDictSequential(
        LSTMModule(input_size=4, hidden_size=4, in_key="observation", out_key="embed"),
        TensorDictModule(Head(4, 2), in_keys=["embed"], out_keys=["action"]),
    )
"""


@pytest.mark.parametrize("repetitions", [pytest.param(3, marks=pytest.mark.slow), None])
def test_a_round_takes_as_many_calls_as_it_is_told(tmp_path: Path, repetitions: int | None) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    spec, calls = tmp_path / "spec.yaml", tmp_path / "calls"
    spec.write_text(SPEC)
    cell = Cell(Phase.ACT, OWN, 4, 1, 0.0)
    worker = WorkerProcess()
    try:
        opening = open_command(Side("here", "", str(spec)), None, 1)
        assert ask(worker, opening, PipelineOpened, 100) == PipelineOpened(threads=1)
        prepared = ask(worker, PrepareCell(cell, judge=False), CellPrepared, 100)
        assert isinstance(prepared, CellPrepared)
        chosen = prepared.repetitions
        before = calls.stat().st_size
        worker.send(TimeRound((cell.key,), repetitions))
        assert worker.reply(100) == SampleBegun(cell.key)
        assert isinstance(worker.reply(100), SampleTaken)
        assert isinstance(worker.reply(100), RoundEnded)
        taken = calls.stat().st_size - before
        assert taken == 3 if repetitions else taken in (chosen, chosen + 1)  # one to warm caches
    finally:
        worker.kill()


def worker_that_says(tmp_path: Path, program: str) -> WorkerProcess:
    """A process that takes the worker's place and does what ``program`` says."""
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\n{program}")
    python.chmod(0o755)
    return WorkerProcess(str(python))


SAID = [
    ("print('hello')", "'hello' is not JSON"),
    ('print(\'{"is": "dropped"}\')', "CellDropped where CellPrepared was to come"),
    ('print(\'{"is": "prepared", "key": "a"}\')', "'prepared' does not fit: first_call"),
]


@pytest.mark.parametrize(("program", "said"), SAID)
def test_an_answer_that_is_none_ends_the_cell_alone_and_the_process(
    tmp_path: Path, program: str, said: str
) -> None:
    program += "\nimport sys; sys.stdout.flush(); sys.stdin.read()"
    started: list[WorkerProcess] = []

    def opened() -> WorkerProcess:
        started.append(worker_that_says(tmp_path, program))
        return started[-1]

    cells = [Cell(Phase.ACT, OWN, size, 1, 0.0) for size in (2, 3)]
    group = Group(cells, Variant(), Limits(0.1, timeout=100), opened, seed=0)
    list(group.run())
    assert [result.status for result in group.results()] == [Status.FAILED, Status.FAILED]
    assert all(said in result.reason for result in group.results())
    assert len(started) == 2  # a process that cannot be understood is not asked again
    for process in started:
        with pytest.raises(WorkerTrouble):
            process.reply(100)


def test_a_cell_that_is_not_there_is_named() -> None:
    worker = WorkerProcess()
    try:
        assert ask(worker, DropCell("a"), CellDropped, 100) == CellDropped()
        failed = ask(worker, TimeRound(("a",)), RoundEnded, 100)
        assert failed == WorkerFailed(Status.FAILED, "no cell 'a' was prepared here")
    finally:
        worker.kill()
