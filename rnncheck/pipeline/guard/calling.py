"""Running code that is not ours: no prompts, no exits, no prints on our output, only typed
errors."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from rnncheck.errors import RnncheckError, StageError, StageLacking
from rnncheck.numerics.kernels import missing_kernel
from rnncheck.pipeline.guard.timeout import Expired
from rnncheck.pipeline.guard.user_frames import Trouble, describe_trouble
from rnncheck.supervisor.copies import end_if_copied
from rnncheck.supervisor.interrupts import pass_on

_PASSED_ON = (RnncheckError, Expired)
_exits: list[str] = []


def exits_taken() -> list[str]:
    """What of the user's code wanted to leave (SystemExit and its like) since this was last
    asked: whoever caught the error that it became must not make an answer of it."""
    taken = list(_exits)
    _exits.clear()
    return taken


@contextmanager
def raising_as(convert: Callable[[BaseException], RnncheckError]) -> Iterator[None]:
    """Turn whatever the body raises, ``sys.exit()`` too, into the error that ``convert`` makes of
    it; what Ctrl-C became is Ctrl-C."""
    with _no_terminal():
        try:
            yield
        except _PASSED_ON as error:
            pass_on(error)
            raise
        except BaseException as error:
            pass_on(error)
            raised = convert(error)
            if not isinstance(error, Exception):
                _exits.append(str(raised))
            raise raised from error
        finally:
            end_if_copied()


@contextmanager
def running(stage: str) -> Iterator[None]:
    """The user's pipeline runs: what it raises is a StageError with their own frames."""

    with raising_as(lambda error: stage_error(stage, describe_trouble(error))):
        yield


def stage_error(stage: str, trouble: Trouble) -> StageError:
    """A stage's error; StageLacking where the trouble is a kernel that this processor lacks."""
    if missing := missing_kernel(trouble.message):
        return StageLacking(stage, missing, place=trouble.place, frames=trouble.frames)
    return StageError(stage, trouble.message, place=trouble.place, frames=trouble.frames)


def release(error: BaseException) -> None:
    """Let go of what the frames of ``error`` hold: a collector that was never finished is to end
    now, not at exit."""
    link: BaseException | None = error
    seen = set[int]()
    while link is not None and id(link) not in seen:  # `raise error from error` makes a ring
        seen.add(id(link))
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__


@contextmanager
def _no_terminal() -> Iterator[None]:
    """``input()`` meets an end of file instead of waiting, and prints go to stderr."""
    before = sys.stdin
    with Path(os.devnull).open() as nothing, redirect_stdout(sys.stderr):
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = before
