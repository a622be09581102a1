"""Python programs in processes of their own that do not import torch again.

One process that has imported it is kept; each program runs in a fork of it, with its own folder,
environment, streams and exit code, and ends without taking torch down. Nothing of rnncheck is
imported before the fork. A program whose environment the libraries may have read on their way in is
started the long way.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

Done = subprocess.CompletedProcess[str]

ROOT = Path(__file__).parent.parent
OURS = (
    "RNNCHECK_",
    "PYTEST_",
)  # what no library reads on its way in begins with this, or is one of
PLAIN = {"COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONHASHSEED"}
KEEPER = """\
import atexit, gc, json, os, sys, threading

given = dict(os.environ)
import gymnasium, torch, torch._dynamo, torch._inductor
import torchrl.collectors, torchrl.data, torchrl.envs, torchrl.modules, torchrl.objectives.value
gc.collect()
gc.freeze()  # else every fork copies what it never touches, when it looks for garbage

for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    os._exit(0)

for number, path, flags in zip(range(3), asked["streams"], (os.O_RDONLY, os.O_RDWR, os.O_RDWR)):
    opened = os.open(path, flags)
    os.dup2(opened, number)
    os.close(opened)
os.chdir(asked["cwd"])
by_imports = {name: value for name, value in os.environ.items() if given.get(name) != value}
os.environ.clear()
os.environ.update(asked["env"] | by_imports)
sys.argv[:] = ["-c", *asked["args"]]
code = 0
try:
    exec(compile(asked["program"], "<string>", "exec"), {"__name__": "__main__"})
except SystemExit as ended:
    if not isinstance(ended.code, int | None):
        raise
    code = ended.code or 0
# As the interpreter ends, but for a second of tearing down what a command never imports itself.
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code & 0xFF)
"""


class Keeper:
    """The process that forks, and the environment that it was started in."""

    def __init__(self) -> None:
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self.env = os.environ | {"PYTHONPATH": paths}
        self._owner = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-c", KEEPER], env=self.env, start_new_session=True, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def close(self) -> None:
        """End it: its standard input is at its end. A fork of this process leaves it alone."""
        if os.getpid() == self._owner:
            self.process.communicate()

    def fits(self, env: Mapping[str, str]) -> bool:
        """Whether a program with this environment may run in a fork."""
        names = {name for name in {*env, *self.env} if env.get(name) != self.env.get(name)}
        return all(name in PLAIN or name.startswith(OURS) for name in names)

    def ran(
        self, program: str, args: tuple[str, ...], cwd: Path, env: Mapping[str, str], limit: float
    ) -> Done:
        """The program's end and what it printed."""
        with tempfile.TemporaryDirectory() as folder:
            out, error = Path(folder, "out"), Path(folder, "error")
            out.touch()
            error.touch()
            streams = [os.devnull, str(out), str(error)]
            asked = {"program": program, "args": args, "cwd": str(cwd), "env": dict(env)}
            code = self._asked(json.dumps(asked | {"streams": streams}), limit)
            said = [path.read_text(errors="replace") for path in (out, error)]
        if not code:
            raise subprocess.TimeoutExpired(list(args), limit, *said)
        return Done(list(args), int(code), *said)

    def _asked(self, line: str, limit: float) -> str:
        """Its exit code; nothing where it took too long."""
        asks, answers = self.process.stdin, self.process.stdout
        assert asks is not None and answers is not None
        alarm = threading.Timer(limit, self.process.kill)
        alarm.start()
        try:
            print(line, file=asks, flush=True)
            return answers.readline()
        finally:
            alarm.cancel()


@functools.cache
def _keepers() -> list[Keeper]:
    return []


def _keeper() -> Keeper:
    """The one of this process, or a new one where it has ended."""
    kept = _keepers()
    if not kept or kept[-1].process.poll() is not None:
        kept.append(Keeper())
        atexit.register(kept[-1].close)
    return kept[-1]


def run(program: str, *args: str, cwd: Path, env: Mapping[str, str], limit: float = 300.0) -> Done:
    """A Python program, as ``python -c`` runs it; nothing can be read from its standard input."""
    keeper = _keeper()
    if keeper.fits(env):
        return keeper.ran(program, args, cwd, env, limit)
    return cold(program, *args, cwd=cwd, env=env, limit=limit)


def cold(program: str, *args: str, cwd: Path, env: Mapping[str, str], limit: float = 300.0) -> Done:
    """The same in a process that imports all of it itself."""
    return subprocess.run(
        [sys.executable, "-c", program, *args], cwd=cwd, env=env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=limit, check=False,
    )  # fmt: skip
