"""How a process ended, as a sentence, with the user's line where it was told."""

from __future__ import annotations

import re
import signal
import sysconfig
from pathlib import Path

from rnncheck.results.endings import CLOSED, ENDED, HUNG, KILLED
from rnncheck.supervisor.child import UNHEARD
from rnncheck.supervisor.process import Death

_FRAME = re.compile(r'^  File "(?P<path>[^"]+)", line (?P<line>\d+) in ', re.MULTILINE)
_HEAD = re.compile(r"^(Fatal Python error|Current thread|Stack) ", re.MULTILINE)
_PACKAGE = Path(__file__).parent.parent


def ending_of(death: Death) -> str:
    """What became of the process."""
    return f"{_how(death)}{_where(death)}"


def _how(death: Death) -> str:
    if death.hung:
        return f"{HUNG} its time-out, nor when it was interrupted: it was killed"
    if death.code == UNHEARD:
        return f"{CLOSED} that the run is told on (os.closerange, or the like)"
    if death.code >= 0:
        return f"{ENDED}, with exit code {death.code}"
    name = signal.Signals(-death.code).name
    memory = ", as the system does where memory runs out" if name == "SIGKILL" else ""
    return f"{KILLED} by {name}{memory}"


def _where(death: Death) -> str:
    """The line that Python's fault handler names, the innermost of the user's; it prints those
    first."""
    heads = list(_HEAD.finditer(death.words))
    if not heads or not (death.hung or death.code < 0):
        return ""
    told = death.words[heads[-1].start() :]
    for frame in _FRAME.finditer(told):
        if _is_users(Path(frame["path"])):
            return f" ({_shown(Path(frame['path']))}:{frame['line']})"
    return ""


def _is_users(path: Path) -> bool:
    paths = sysconfig.get_paths()
    roots = [_PACKAGE, Path(paths["stdlib"]), Path(paths["purelib"]), Path(paths["platlib"])]
    return not any(path.is_relative_to(root) for root in roots)


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
