"""A time limit on one stage: by a signal in the main thread, by a watchdog in any other."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rnncheck.errors import StageTimeout
from rnncheck.pipeline.guard.user_frames import describe_trouble
from rnncheck.supervisor.deadlines import until

_REPEAT_AFTER = (
    1.0  # seconds after which the interruption is repeated, should user code have swallowed it
)
SOONEST = 1e-3  # seconds: 0 would switch the outer timer off instead of letting it fire


class Expired(BaseException):
    """Raised inside the code that ran too long; no ``except Exception`` of a user's catches it."""


class _Limits(threading.local):
    """Of a thread, whether the limits that it is inside of have passed."""

    def __init__(self) -> None:
        self.fired = list[threading.Event]()


_limits = _Limits()


def pass_on_expired() -> None:
    """Raise Expired again where a limit has passed: a tensordict that a module takes its weights
    from, as losses do in ``with params.to_module(...)``, swallows what is no Exception."""
    if any(one.is_set() for one in _limits.fired):
        raise Expired


@contextmanager
def time_limit(stage: str, seconds: float) -> Iterator[None]:
    """Raise StageTimeout when the body takes longer than ``seconds``.

    What the body raises after it was interrupted, or that it went on and finished, makes no
    difference.
    """
    alarm = _signal_alarm if _can_use_signals() else _thread_alarm
    fired = threading.Event()
    _limits.fired.append(fired)
    try:
        with until(seconds), alarm(seconds, fired):
            yield
    except (Expired, Exception) as error:
        if not fired.is_set():
            raise
        raise _timeout(stage, seconds, error) from None
    finally:
        _limits.fired.remove(fired)
    if fired.is_set():
        raise _timeout(stage, seconds, Expired())


def _timeout(stage: str, seconds: float, error: BaseException) -> StageTimeout:
    trouble = describe_trouble(error)
    message = (
        f"did not finish within {seconds:g} s; "
        "if it needs longer, raise `verify.timeout` (in seconds) in the spec,"
        " or `--timeout` of `rnncheck run`"
    )
    return StageTimeout(stage, message, place=trouble.place, frames=trouble.frames)


def _can_use_signals() -> bool:
    main = threading.current_thread() is threading.main_thread()
    return main and hasattr(signal, "setitimer")


@contextmanager
def _signal_alarm(seconds: float, fired: threading.Event) -> Iterator[None]:
    def expire(signum: int, frame: FrameType | None) -> None:
        fired.set()
        raise Expired

    begin = time.monotonic()
    handler = signal.signal(signal.SIGALRM, expire)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_AFTER)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:  # an outer limit goes on with what is left of it
            rest = max(left - (time.monotonic() - begin), SOONEST)
            signal.setitimer(signal.ITIMER_REAL, rest, interval)


@contextmanager
def _thread_alarm(seconds: float, fired: threading.Event) -> Iterator[None]:
    """Interrupts Python code between two bytecodes; a call that blocks in C ends first."""
    done = threading.Event()
    target = ctypes.c_ulong(threading.get_ident())

    def watch() -> None:
        if not done.wait(seconds):
            fired.set()
            ctypes.pythonapi.PyThreadState_SetAsyncExc(target, ctypes.py_object(Expired))

    watchdog = threading.Thread(target=watch, daemon=True)
    watchdog.start()
    try:
        yield
    finally:
        done.set()
        watchdog.join()
