"""The keeper: a small process between a command and its pipeline, in a session of its own.

It starts the pipeline's process, and when that ends, when it is told to, or when the command is
gone, by whatever means, it ends everything that descends from it and removes the temporary folder
that all of it was given.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

# What a command may ask of the keeper, a byte each; the end of the pipe means KILL.
# ASK interrupts as well, and lets the child go on as it likes.
KILL, INTERRUPT, TRACE, ASK = b"k", b"i", b"t", b"a"
# Seconds, chosen: to unwind after Ctrl-C, as long as somebody waits who pressed it; and for the
# kernel to end what was killed.
_UNWINDING = 3.0
_ENDING = 10.0
_ADOPT, _DIE_WITH_PARENT = 36, 1  # PR_SET_CHILD_SUBREAPER and PR_SET_PDEATHSIG of prctl(2)
_LOST = 70  # EX_SOFTWARE of sysexits(3)
_PARENT = re.compile(r"^\d+ \(.*\) \S (\d+) ", re.DOTALL)  # in /proc/PID/stat


def keep(body: Callable[[], None], commands: int, status: int, theirs: Iterable[int]) -> None:
    """Run ``body`` in a child, and write to ``status`` how that ended: an exit code, or minus a
    signal. ``theirs`` are the child's alone, which hears of their end otherwise too late."""
    os.setsid()
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    _prctl(_ADOPT, 1)
    woken = _wake_on_child()
    scratch = tempfile.mkdtemp(prefix="rnncheck-")
    child = os.fork()
    if not child:
        _be_child(body, scratch)
    for end in theirs:
        os.close(end)
    code = _watch(child, commands, woken)
    _end_descendants(child)
    shutil.rmtree(scratch, ignore_errors=True)
    with suppress(OSError):  # the command is gone
        os.write(status, str(code).encode())


def _be_child(body: Callable[[], None], scratch: str) -> None:
    os.setpgid(0, 0)
    _prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(one, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _settle_in(scratch)
    try:
        body()
    except KeyboardInterrupt:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(_LOST)  # the body ends its process itself: it does not come back


def _settle_in(scratch: str) -> None:
    """Temporary files go to the folder that the keeper removes; compiled kernels stay where the
    next run finds them."""
    from getpass import getuser

    with suppress(KeyError, OSError):  # a user without a name
        name = re.sub(r'[\\/:*?"<>|]', "_", getuser())
        kept = Path(tempfile.gettempdir()) / f"torchinductor_{name}"
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(kept))
    os.environ["TMPDIR"] = tempfile.tempdir = scratch


def _wake_on_child() -> int:
    """A descriptor that can be read as soon as a child has ended."""
    reading, writing = os.pipe()
    for one in (reading, writing):
        os.set_blocking(one, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _watch(child: int, commands: int, woken: int) -> int:
    """Wait until the child has ended, and do what is asked meanwhile."""
    ending = 0.0  # when the child is killed, should it still be there; 0 for never
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        left = max(0.0, ending - time.monotonic()) if ending else None
        ready, _, _ = select.select([commands, woken], [], [], left)
        if woken in ready:
            os.read(woken, 4096)
        if commands in ready:
            asked = os.read(commands, 1)
            ending = _obey(asked, child) or ending
        elif not ready:
            os.kill(child, signal.SIGKILL)


def _obey(asked: bytes, child: int) -> float:
    """When the child is to have ended; 0 where nothing was said of that."""
    if asked == TRACE:
        os.kill(child, signal.SIGUSR1)
        return 0.0
    if asked in (INTERRUPT, ASK):
        os.kill(child, signal.SIGINT)
        if asked == ASK:
            return 0.0
        return time.monotonic() + _UNWINDING
    os.kill(child, signal.SIGKILL)
    return time.monotonic() + _ENDING


def _end_descendants(child: int) -> None:
    deadline = time.monotonic() + _ENDING
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        for one in left:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)


def descendants(process: int) -> set[int]:
    """Processes that descend from this one; none where the system has no /proc."""
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if found := _PARENT.match(file.read_text(errors="replace")):
                children.setdefault(int(found[1]), []).append(int(file.parent.name))
    seen, pending = set[int](), [process]
    while pending:
        for one in children.get(pending.pop(), []):
            if one not in seen:
                seen.add(one)
                pending.append(one)
    return seen


def _prctl(option: int, value: int) -> None:
    """Linux alone: elsewhere the pipeline's process group is all that is ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
