"""What is raised where a module cannot run a step: an exception as any other."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rnncheck.pipeline.subject.introspect import CannotStep


@contextmanager
def something() -> Iterator[None]:
    yield


def test_it_leaves_a_context_manager_as_itself() -> None:
    """``contextlib`` sets the traceback of what it lets through."""
    error = CannotStep(KeyError("embed"))
    with pytest.raises(CannotStep) as raised, something(), something():
        raise error from error.error
    assert raised.value is error
    assert str(error) == "KeyError: 'embed'"


def test_it_crosses_to_another_process() -> None:
    again = pickle.loads(pickle.dumps(CannotStep(ValueError("no size\nand more"))))
    assert isinstance(again.error, ValueError)
    assert str(again) == "ValueError: no size"
