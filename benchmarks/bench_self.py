"""What rnncheck costs over TorchRL alone: `make bench-self`.

Runs `rnncheck verify SPEC -q` and a bare process that does the same once without rnncheck in turn,
round by round, and prints the medians, the ratio of each pair, peak memory, and the start times of
the commands that import no torch. Measured are acting alone (bare_cartpole.py), the training path
with GAE, replay and ClipPPOLoss (bare_ppo.py), the shapes of shapes.py (bare_shapes.py), each with
the CPU seconds of its dearest checks, and `verify` with the process that it supervises beside
`verify` in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ruamel.yaml import YAML

HERE = Path(__file__).parent
START = "import sys; from rnncheck.cli.app import main; sys.exit(main())"
IN_ONE = "from rnncheck.cli.app import app; app(prog_name='rnncheck')"  # nobody supervises
START_TARGET = 0.35  # seconds
TIMES, ON_TOP = 4.0, 5.0  # what a shape may take: times the bare process's CPU, and seconds on top
DEAREST = 5  # checks that are named
# CPU seconds from one event to the next: what a check asks another one counts as its own.
PER_CHECK = """
import json, sys, time
from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.events import CheckFinished
from rnncheck.spec.load import load_spec

if __name__ == "__main__":
    spec, seconds = load_spec(sys.argv[1]), {}
    before = time.process_time()
    for event in verify_events(spec, select_rules(spec)):
        now = time.process_time()
        if isinstance(event, CheckFinished):
            seconds[event.result.code] = now - before
        before = now
    print(json.dumps(seconds))
"""


@dataclass(frozen=True)
class Pair:
    """What is compared: verifying a spec and the program that does the same without rnncheck, or
    the same without a supervisor; targets are times the latter."""

    name: str
    spec: Path
    bare: Path | None
    wall: float | None
    memory: float
    shape: str = ""  # of shapes.py: its target is TIMES and ON_TOP, in CPU seconds


ACTING = Pair(
    name="acting",
    spec=HERE.parent / "fixtures" / "specs" / "cartpole_dqn.yaml",
    bare=HERE / "bare_cartpole.py",
    wall=2.5,
    memory=1.3,
)
SUPERVISED = Pair(
    name="supervised",
    spec=HERE.parent / "fixtures" / "specs" / "cartpole_dqn.yaml",
    bare=None,
    wall=1.05,
    memory=1.3,
)
TRAINING = Pair(
    name="training",
    spec=HERE / "cartpole_ppo.yaml",
    bare=HERE / "bare_ppo.py",
    wall=3.0,
    memory=1.3,
)
SHAPES = tuple(
    Pair(shape, HERE / f"shape_{shape}.yaml", HERE / "bare_shapes.py", None, 1.3, shape)
    for shape in ("scan", "pixels", "sac", "agents")
)
ALL = (ACTING, TRAINING, *SHAPES, SUPERVISED)


@dataclass(frozen=True)
class Cost:
    """What one process took."""

    seconds: float
    cpu: float  # seconds of all threads: other work on the machine leaves it nearly alone
    peak_mib: float


def measure(command: Sequence[str], cwd: Path) -> Cost:
    """Runs ``command`` to its end; a failure ends the benchmark, since it would be no
    measurement."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        child = subprocess.Popen(command, cwd=cwd, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            output.seek(0)
            sys.exit(
                f"{' '.join(command)} ended with {child.returncode}:\n{output.read().decode()}"
            )
    unit = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss: bytes there, KiB on Linux
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit)


def pairs(pair: Pair, rounds: int) -> list[tuple[Cost, Cost]]:
    """(verify, bare) for each round, in alternating order; one round before them warms the file
    cache."""
    asked = ["verify", str(pair.spec.resolve()), "-q"]
    verify = [sys.executable, "-c", START, *asked]
    bare = [sys.executable, "-c", IN_ONE, *asked] if pair.bare is None else without(pair)
    found = []
    with tempfile.TemporaryDirectory() as folder:  # the results of these runs are not kept
        for index in range(rounds + 1):
            order = (verify, bare) if index % 2 else (bare, verify)
            costs = [measure(command, Path(folder)) for command in order]
            found.append((costs[0], costs[1]) if index % 2 else (costs[1], costs[0]))
    return found[1:]


def without(pair: Pair) -> list[str]:
    """The command that does the same without rnncheck."""
    collect = YAML(typ="safe").load(pair.spec.read_text())["collect"]
    size = [str(collect["frames_per_batch"]), str(collect.get("batches", 1))]
    return [sys.executable, str(pair.bare), *([pair.shape] if pair.shape else []), *size]


def ratio_line(title: str, ratios: Sequence[float], target: float | None = None) -> str:
    """``wall  1.90 x bare (1.85 .. 1.97 over 7 pairs), target 2.5: met``."""
    middle = statistics.median(ratios)
    spread = f"{min(ratios):.2f} .. {max(ratios):.2f} over {len(ratios)} pairs"
    verdict = "" if target is None else f", target {target}: {_met(middle <= target)}"
    return f"{title:<8}{middle:5.2f} x bare ({spread}){verdict}"


def budget_line(found: Sequence[tuple[Cost, Cost]]) -> str:
    """Whether `verify` stays within TIMES the bare process's CPU and ON_TOP seconds."""
    over = statistics.median(a.cpu - TIMES * b.cpu - ON_TOP for a, b in found)
    limit = statistics.median(TIMES * b.cpu + ON_TOP for _, b in found)
    said = f"{TIMES:g} x bare + {ON_TOP:g} s = {limit:.1f} s cpu"
    return f"{'budget':<8}{said}: {_met(over <= 0)}"


def dearest_line(pair: Pair) -> str:
    """The checks that take most, in CPU seconds of one run in one process."""
    command = [sys.executable, "-c", PER_CHECK, str(pair.spec.resolve())]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    seconds: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    dear = sorted(seconds, key=lambda code: -seconds[code])[:DEAREST]
    told = ", ".join(f"{code} {seconds[code]:.1f} s" for code in dear)
    return f"{'checks':<8}{sum(seconds.values()):.1f} s cpu, of these {told}"


def start_line(words: Sequence[str], rounds: int) -> str:
    """The start time of a command that imports no torch."""
    command = [sys.executable, "-c", START, *words]
    times = [measure(command, Path.cwd()).seconds for _ in range(rounds)]
    best, middle = min(times), statistics.median(times)
    verdict = _met(middle <= START_TARGET)
    name = f"rnncheck {' '.join(words)}"
    return f"{name:<18}{middle:.3f} s (best {best:.3f}), target {START_TARGET}: {verdict}"


def _met(yes: bool) -> str:
    return "met" if yes else "NOT met"


def _distrust() -> str:
    """Small LSTM calls wait for each other's threads: on a loaded machine they take many times as
    long."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    busy = load > cores + 0.5
    return f"; load average {load:.1f}: other work runs, do not trust these figures" if busy else ""


def _medians(title: str, costs: Sequence[Cost]) -> str:
    seconds = statistics.median(cost.seconds for cost in costs)
    cpu = statistics.median(cost.cpu for cost in costs)
    peak = statistics.median(cost.peak_mib for cost in costs)
    return f"{title:<8}{seconds:6.2f} s  {cpu:6.2f} s cpu  {peak:5.0f} MiB"


def report(pair: Pair, rounds: int) -> None:
    """Measures one pair and prints it."""
    found = pairs(pair, rounds)
    print(f"{pair.name}: {pair.spec.name}")
    print(_medians("verify", [verify for verify, _ in found]))
    print(_medians("bare", [bare for _, bare in found]))
    print(ratio_line("wall", [a.seconds / b.seconds for a, b in found], pair.wall))
    print(ratio_line("cpu", [a.cpu / b.cpu for a, b in found]))
    print(ratio_line("memory", [a.peak_mib / b.peak_mib for a, b in found], pair.memory))
    if pair.shape:
        print(budget_line(found))
    if pair.bare is not None:
        print(dearest_line(pair))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec", type=Path, nargs="?", help="measured in place of the acting pair")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=[pair.name for pair in ALL])
    args = parser.parse_args()
    print(f"medians of {args.rounds} rounds, {os.cpu_count()} cores{_distrust()}")
    for pair in ALL:
        if args.only in (None, pair.name):
            given = pair is ACTING and args.spec is not None
            report(replace(pair, spec=args.spec) if given else pair, args.rounds)
    for words in (["--help"], ["rule"]):
        print(start_line(words, args.rounds))


if __name__ == "__main__":
    main()
