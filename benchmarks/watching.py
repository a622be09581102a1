"""What the watch of `rnncheck run` costs a script, and whether it changes a number: `make
bench-watching`.

Every script runs alone and under the watch, in turn, round by round, each time in a fresh process
that has imported torch, TorchRL and the watch. Measured is what lies between the script's first
line and its last optimiser step: CPU seconds of the process, user and system, all threads, and
beside them seconds of the wall, which a loaded machine stretches. The start-up is measured apart:
the CPU seconds that go before the script's first line. A digest of all parameters behind every
step, to the bit, says whether a number changed. `script.py:STEPS=512,ENVS=8@48` is the script with
other numbers there, up to its 48th update: a longer rollout tells what watching costs a step, a
short one what it costs once.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import multiprocessing
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # so that CPU seconds are those of the script's own thread

from gymnasium.utils import seeding
from torch.optim.optimizer import register_optimizer_step_post_hook

from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.opening import opened

HERE = Path(__file__).parent
SCRIPTS = HERE.parent / "fixtures" / "scripts"
MOST = 1.2  # times the CPU that the script takes alone: what watching may cost
IMPORTS = "import torchrl.collectors, torchrl.data, torchrl.envs, torchrl.objectives.value"
FIRST_LINE = "import time; print(time.process_time())"
# The first two with 2048 steps of envs before the first update; the last with the sizes and the 16
# updates a rollout that published PPO with an LSTM has, over three rollouts.
LONG = (
    "plain_single.py:STEPS=2048",
    "plain_vector.py:STEPS=512",
    "plain_vector.py:ENVS=8,STEPS=128,EPOCHS=4,MINIBATCHES=4,HIDDEN=128@48",
)
# A fork would copy the pages that the watch touches first, and its time with them.
FRESH = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Timed:
    """One run up to its last update: CPU and other seconds, and the parameters behind each."""

    cpu: float
    wall: float
    digests: tuple[str, ...]


@dataclass
class Steps:
    """Notes the optimiser's steps, and ends the process behind the last."""

    last: int
    told: Connection
    digests: list[str] = field(default_factory=list)
    since: list[float] = field(default_factory=list)  # without what digests took

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """A step was taken."""
        here, digest = now(), hashlib.sha256()
        for group in optimizer.param_groups:
            for one in group["params"]:
                digest.update(one.detach().cpu().numpy().tobytes())
        self.digests.append(digest.hexdigest())
        if len(self.digests) == self.last:
            cpu, wall = (a - b for a, b in zip(here, self.since, strict=True))
            self.told.send((cpu, wall, tuple(self.digests)))  # `__main__` is the script's by now
            for worker in multiprocessing.active_children():
                worker.kill()
            os._exit(0)  # nothing behind it is timed
        digested = (a - b for a, b in zip(now(), here, strict=True))
        self.since = [a + b for a, b in zip(self.since, digested, strict=True)]


def now() -> list[float]:
    """CPU seconds of this process, and those of the wall."""
    return [time.process_time(), time.perf_counter()]


def run(script: Path, updates: int, told: Connection, watched: bool) -> None:
    """Run the script in this process, which it ends with."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv[:], sys.path[0] = [str(script)], str(script.parent)
    drawn = seeding.np_random  # an env that the script leaves unseeded gets the same seed each time
    seeding.np_random = lambda seed=None: drawn(0 if seed is None else seed)
    steps = Steps(updates, told)
    gc.collect()
    gc.freeze()  # as `rnncheck run` does: else the one that first walks all that was imported pays
    with ExitStack() as scope:
        steps.since = now()
        if watched:
            scope.enter_context(opened(Watching(updates, ends=False)))
        register_optimizer_step_post_hook(steps.stepped)
        runpy.run_path(str(script), run_name="__main__")


def timed(script: Path, updates: int, *, watched: bool) -> Timed:
    """Run the script once, in a process of its own."""
    receiving, sending = FRESH.Pipe(duplex=False)
    process = FRESH.Process(target=run, args=(script, updates, sending, watched))
    process.start()
    sending.close()
    try:
        found = Timed(*receiving.recv())
    except EOFError:
        raise SystemExit(f"{script.name} made fewer than {updates} updates") from None
    process.join()
    return found


def changed(script: Path, settings: str, folder: Path) -> Path:
    """The script with each ``NAME=number`` in the place of what it sets the name to."""
    tree = ast.parse(script.read_text())
    known = dict(numbers_set(tree))
    for name, number in (one.split("=") for one in settings.split(",")):
        if name not in known:
            raise SystemExit(f"{script.name} sets no {name}")
        known[name].value = int(number)
    made = folder / script.name
    made.write_text(ast.unparse(tree))
    return made


def numbers_set(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """By name what the script's own lines set to a number: ``A = 1``, ``A, B = 1, 2``."""
    for node in tree.body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            given = getattr(node, "value", None)
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = given.elts if isinstance(given, ast.Tuple) else [given]
            for one, value in zip(names, values, strict=False):
                if isinstance(one, ast.Name) and isinstance(value, ast.Constant):
                    yield one.id, value


def pairs(script: Path, rounds: int, updates: int) -> list[tuple[Timed, Timed]]:
    """The script alone and watched; who is first changes with the round."""
    found = []
    for number in range(rounds):
        order = (False, True) if number % 2 else (True, False)
        both = {watched: timed(script, updates, watched=watched) for watched in order}
        found.append((both[False], both[True]))
    return found


def same(found: list[tuple[Timed, Timed]]) -> str:
    """Whether watching changed a parameter; a script may change them by itself."""
    if all(alone.digests == watched.digests for alone, watched in found):
        return "yes"
    return "differs alone too" if len({alone.digests for alone, _ in found}) > 1 else "NO"


def row(name: str, rounds: int, updates: int) -> bool:
    """Measure a script and print its row; False where a number changed or it costs too much."""
    whole, _, last = name.partition("@")
    file, _, settings = whole.partition(":")
    updates = int(last or updates)
    script = SCRIPTS / file
    if not script.is_file():
        raise SystemExit(f"{file} is no file: name a script of {SCRIPTS.name}, or a path")
    with tempfile.TemporaryDirectory() as folder:
        script = changed(script, settings, Path(folder)) if settings else script
        found = pairs(script, rounds, updates)
    cpu, wall = ratios(found, "cpu"), ratios(found, "wall")
    took, told = statistics.median(one.cpu for one, _ in found), same(found)
    print(f"| `{name}` | {1000 * took:.0f} | {shown(cpu)} | {shown(wall)} | {told} |", flush=True)
    return told != "NO" and statistics.median(cpu) <= MOST


def ratios(found: list[tuple[Timed, Timed]], what: str) -> list[float]:
    """Watched to alone, pair by pair."""
    return [getattr(watched, what) / getattr(alone, what) for alone, watched in found]


def shown(values: list[float]) -> str:
    """Their median, least and most."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def start_up() -> tuple[float, float]:
    """CPU seconds before a script's first line: of its imports alone, and in `rnncheck run`."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "first_line.py"
        script.write_text(FIRST_LINE)
        env = os.environ | {"PYTHONPATH": str(HERE.parent)}
        commands = (["-c", f"{IMPORTS}; {FIRST_LINE}"], ["-m", "rnncheck", "run", str(script)])
        told = [
            subprocess.run(
                [sys.executable, *one], cwd=folder, env=env, capture_output=True, check=False
            ).stdout
            for one in commands
        ]
    alone, watched = (float(one.split()[0]) for one in told)
    return alone, watched


def main() -> int:
    """Print the table; 1 where a number changed or watching costs too much."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    every = [*sorted(one.name for one in SCRIPTS.glob("*.py")), *LONG]
    parser.add_argument("scripts", nargs="*", default=every)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=3)
    asked = parser.parse_args()
    alone, watched = start_up()
    print(f"start-up: {alone:.1f} CPU s for the imports alone, {watched:.1f} with the watch\n")
    print("| script | alone, CPU ms | watched / alone, CPU | wall | same to the bit |")
    print("|---|---|---|---|---|")
    good = [row(one, asked.rounds, asked.updates) for one in asked.scripts]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
