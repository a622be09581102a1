"""What a sweep and its workers say to each other, as lines and back."""

from __future__ import annotations

import json
import math
import pickle

import pytest

from rnncheck.bench.messages import (
    CellDropped,
    CellPrepared,
    Command,
    DescribePipeline,
    DropCell,
    OpenPipeline,
    PipelineContents,
    PipelineOpened,
    PrepareCell,
    RoundEnded,
    SampleBegun,
    SampleTaken,
    TimeRound,
    UnreadableMessage,
    WorkerAnswer,
    WorkerFailed,
    decode_answer,
    decode_command,
    encode_answer,
    encode_command,
)
from rnncheck.bench.process import WorkerDied, WorkerGarbled, WorkerHangs, WorkerTrouble
from rnncheck.results.cells import Accuracy, Cell, Memory, Phase, Status
from rnncheck.results.environment import current_environment
from rnncheck.results.variant import OWN, Variant

COMMANDS: list[Command] = [
    OpenPipeline("spec.yaml", ("seed=1",), "sha256:0", 512, None),
    OpenPipeline("spec.yaml", (), None, None, 2),
    PrepareCell(Cell(Phase.ACT, OWN, 4, 1, 0.0), judge=False),
    PrepareCell(Cell(Phase.TRAIN, Variant("scan"), 4, 8, 0.1, overrides={"kind": "GRU"})),
    TimeRound(("a", "b")),
    TimeRound(("a",), 3),
    DropCell("a"),
    DescribePipeline(),
]
ANSWERS: list[WorkerAnswer] = [
    PipelineOpened(2),
    CellPrepared("a", 0.5, None, 0.1, 3, True, None, None, "kernels"),
    CellPrepared(
        "a", 0.5, 0.4, 0.1, 3, False, Accuracy(math.inf, 1e-6), Memory(4, low=3), "interpreted"
    ),
    SampleBegun("a"),
    SampleTaken("a", 0.1, 0.2, 0.05),
    RoundEnded(0.3),
    CellDropped(),
    PipelineContents(("a.py",), current_environment()),
    WorkerFailed(Status.OOM, "MemoryError: no room\non two lines"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_command_is_one_line_that_is_read_back(command: Command) -> None:
    line = encode_command(command)
    assert line.index("\n") == len(line) - 1
    assert decode_command(line) == command


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: type(one).__name__)
def test_an_answer_is_one_line_that_is_read_back(answer: WorkerAnswer) -> None:
    line = encode_answer(answer)
    assert line.index("\n") == len(line) - 1
    assert decode_answer(line) == answer


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Segmentation fault\n", "'Segmentation fault' is not JSON"),
        ("[1]\n", "'[1]' is no message: `is` is none of opened"),
        ('{"is": "prepard", "key": "a"}\n', "is no message: `is` is none of opened, prepared"),
        ('{"is": ["ended"]}\n', "is no message"),
        ('{"is": "sample", "key": "a", "wall": 1.0}\n', "'sample' does not fit: cpu: field req"),
        ('{"is": "failed", "status": "tired", "reason": ""}\n', "'failed' does not fit: status"),
    ],
)
def test_a_line_that_is_no_answer_is_refused_with_its_problem(line: str, said: str) -> None:
    with pytest.raises(UnreadableMessage) as raised:
        decode_answer(line)
    assert said in str(raised.value)


def test_a_long_line_is_cut_where_it_is_told() -> None:
    with pytest.raises(UnreadableMessage) as raised:
        decode_answer("x" * 10_000)
    assert len(str(raised.value)) < 200


def test_a_command_of_no_variant_is_refused() -> None:
    fields = json.loads(encode_command(COMMANDS[2]))
    fields["cell"]["variant"] = "pda"
    with pytest.raises(UnreadableMessage, match=r"cell\.variant: 'pda' names no recurrent backend"):
        decode_command(json.dumps(fields))


@pytest.mark.parametrize(
    "trouble", [WorkerDied(-11, "last words"), WorkerHangs(8.0), WorkerGarbled("nonsense")]
)
def test_a_trouble_keeps_what_it_says_on_its_way_from_another_process(
    trouble: WorkerTrouble,
) -> None:
    found = pickle.loads(pickle.dumps(trouble))
    assert (type(found), str(found)) == (type(trouble), str(trouble))
