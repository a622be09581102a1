"""What is said on the pipe is read back whole, though several processes speak between pieces."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncheck.errors import StageError
from rnncheck.pipeline.guard.calling import raising_as
from rnncheck.results.model import Outcome
from rnncheck.supervisor.channel import Message, Receiver, Sender, Told
from rnncheck.supervisor.supervise import COPIED, Broken, supervised


def read(descriptor: int, cuts: random.Random) -> list[Message]:
    receiver, found = Receiver(), list[Message]()
    while data := os.read(descriptor, cuts.randint(1, 7000)):
        found += receiver.feed(data)
    return found


@given(st.lists(st.text(max_size=6000), max_size=4), st.randoms(use_true_random=False))
def test_whatever_the_pieces_the_messages_are_the_same(
    texts: list[str], cuts: random.Random
) -> None:
    reading, writing = os.pipe()
    sender = Sender(writing)
    for text in texts:
        sender.send(Told(text))
    os.close(writing)
    found = read(reading, cuts)
    os.close(reading)
    assert found == [Told(text) for text in texts]


def test_two_processes_that_speak_at_once_are_both_understood() -> None:
    reading, writing = os.pipe()
    said = {who: [Told(who * size) for size in (1, 40_000, 3, 90_000)] for who in "ab"}
    for who in said:
        if not os.fork():
            for message in said[who]:
                Sender(writing).send(message)
            os._exit(0)
    os.close(writing)
    found = read(reading, random.Random(0))
    os.close(reading)
    for who in said:
        os.wait()
        assert [one for one in found if isinstance(one, Told) and one.item[0] == who] == said[who]


@dataclass(frozen=True)
class Gotten:
    """Pickled as ``getattr(of, name)``, as Python 3.11.0 to 3.11.3 do with members of enums."""

    of: Any
    name: str

    def __reduce__(self) -> tuple[Any, tuple[Any, str]]:
        return getattr, (self.of, self.name)


def sent(item: Any) -> list[Message]:
    reading, writing = os.pipe()
    Sender(writing).send(Told(item))
    os.close(writing)
    try:
        return read(reading, random.Random(0))
    finally:
        os.close(reading)


def test_members_of_enums_are_read_however_python_pickles_them() -> None:
    assert sent(Gotten(Outcome, "PASSED")) == [Told(Outcome.PASSED)]
    assert sent(Outcome.FAILED) == [Told(Outcome.FAILED)]


@pytest.mark.parametrize("of", [Path, Outcome], ids=["of a class", "of an enum"])
def test_nothing_else_is_gotten(of: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="nothing that is told"):
        sent(Gotten(of, "__subclasses__"))


def guarded(way: str) -> None:
    """Code that is not ours, behind the guard that tells of copies."""
    with raising_as(lambda error: StageError("env", str(error))):
        if way == "fork":
            os.fork()


def with_a_worker() -> Iterator[str]:
    worker = multiprocessing.get_context("fork").Process(target=guarded, args=("nothing",))
    worker.start()
    worker.join()
    yield f"exit code {worker.exitcode}"


def with_a_copy() -> Iterator[str]:
    yield "begun"
    guarded("fork")
    yield "went on"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (with_a_worker, ["exit code 0"]),
        (with_a_copy, ["begun", "went on", Broken(COPIED, after="begun")]),
    ],
)
def test_a_worker_of_multiprocessing_is_no_copy(make: object, told: list[object]) -> None:
    assert callable(make)
    found = list(supervised(make))
    # The copy may speak before the original has gone on.
    assert found == told or found == [told[0], told[-1]]
