"""Looking at the user's pipeline where nothing depends on it: whatever happens, the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from rnncheck.checks.rule import Unanswered
from rnncheck.errors import StageError, StageTimeout, first_line
from rnncheck.pipeline.guard.calling import exits_taken
from rnncheck.pipeline.guard.timeout import time_limit
from rnncheck.supervisor.copies import end_if_copied
from rnncheck.supervisor.interrupts import pass_on

T = TypeVar("T")


def guarded(what: str, seconds: float, make: Callable[[], T]) -> tuple[T | None, str]:
    """What ``make`` gives within ``seconds``, or None and why there is nothing, in a sentence that
    begins with ``what``."""
    found, why = _tried(seconds, make)
    end_if_copied()
    if exits := exits_taken():
        found, why = None, f"the pipeline raised: {exits[0]}"
    pass_on()  # Ctrl-C, whatever became of it
    return found, f"{what}: {why}" if why else ""


def _tried(seconds: float, make: Callable[[], T]) -> tuple[T | None, str]:
    exits_taken()  # those of others
    try:
        with torch.enable_grad(), time_limit("exhibits", seconds):
            return make(), ""
    except StageTimeout:
        return None, f"it takes longer than {seconds:g} s"
    except StageError as error:
        return None, error.message
    except Unanswered as why:
        return None, str(why)
    except BaseException as error:  # the user's code may raise anything
        return None, first_line(error)
