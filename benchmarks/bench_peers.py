"""rnncheck's timing beside what people use today, on the same workload, in one run: `make
bench-peers`.

Each answers the same question again and again, in fresh processes: how long does one forward and
backward pass of an LSTM take? The table shows the seconds from the start of the process until the
answer, the 95 % interval of the median of its raw samples (computed alike for all), how many of
these intervals hold the median of its answers, how far its answers lie apart, and what a comparison
of the workload with itself says: for the peers the ratio of two successive answers, as people
compare; for rnncheck the paired ratio of `auto`, which is `pad` there, over `pad`, in the same run.
Then the same while other processes load every core. All are asked in turn, so that what the machine
does in the meantime happens to all.

A last table gives each the same time, ``--equal`` seconds of its whole process, and one thread: the
ways by hand call until they are over, rnncheck has them as its budget, and pytest-benchmark is told
what its answers so far left it. Each is asked how long the workload takes; the comparison with
itself is for the peers that of two successive answers (so of twice the time), for rnncheck another
answer of the same time.

    python benchmarks/bench_peers.py [--repeats 10] [--small] [--quiet-only | --loaded-only] [--json
    PATH] [--device cuda] [--equal 8] [--equal-only]

TorchRL's shape is one for a GPU: on two cores a single call takes most of a minute.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from load import loaded
from peers import CALLS, LOOP, SECONDS, WARM_UP

from rnncheck.numerics.statistics import median_interval

HERE = Path(__file__).parent
ROOT = HERE.parent
PATHS = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)])}
TARGET = 0.02  # relative half-width that an interval should have

Shape = tuple[int, int, int, int, float]
SHAPES: dict[str, Shape] = {  # batch, steps, input, hidden, resets
    "torchrl": (256, 128, 32, 512, 0.03),
    "small": (32, 64, 32, 64, 0.03),
}
SPEC = """
schema: 1
name: peers
device: {device}
env:
  use: GymEnv
  env_name: CartPole-v1
  categorical_action_encoding: true
  transforms: [InitTracker]
policy:
  modules:
    - use: MLP
      in_keys: [observation]
      out_keys: [embed]
      num_cells: []
      out_features: {features}
    - {{use: LSTMModule, in_key: embed, out_key: features, hidden_size: {hidden}}}
    - {{use: MLP, in_keys: [features], out_keys: [action_value], num_cells: [], out_features: auto}}
    - QValueModule
bench:
  backend: [{backends}]
  goal: times
  phases: [train]
  target: module
  shapes: [{{batch: {batch}, steps: {steps}}}]
  resets: [{resets}]
  interval: {interval}
  budget: {budget}
  timeout: 3600
"""


@dataclass(frozen=True)
class Found:
    """One answer: seconds of a call with its interval, and ``ratio`` where it compares by
    itself."""

    value: float
    low: float
    high: float
    until: float  # seconds of the process
    samples: list[float]
    ratio: tuple[float, float, float] | None = None  # value, low, high

    @property
    def relative(self) -> float:
        """Half the interval over the answer."""
        return (self.high - self.low) / 2 / self.value


Ask = Callable[[Shape, str, Path], Found]


def run(command: list[str], folder: Path, *, may_fail: bool = False, **environment: str) -> float:
    """The command's seconds; one that ``may_fail`` may say that it measured nothing."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command], env=os.environ | PATHS | environment, cwd=folder,
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode not in ((0, 4) if may_fail else (0,)):
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-2000:] or done.stdout[-2000:]}")
    return time.perf_counter() - begin


def said(command: list[str], folder: Path, **environment: str) -> tuple[dict[str, Any], float]:
    """The line that the command prints, and its seconds until then: that torch is taken apart
    afterwards is not waited for."""
    begin = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *command], env=os.environ | PATHS | environment, cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        until = time.perf_counter() - begin
    if not line:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode} and no answer")
    found: dict[str, Any] = json.loads(line)
    return found, until


def judged(value: float, samples: list[float], until: float) -> Found:
    """With the interval of the samples' median; a single sample has none."""
    if len(samples) < 2:
        return Found(value, 0.0, math.inf, until, samples)
    found = median_interval(samples)
    return Found(value, found.low, found.high, until, samples)


def by_hand(way: str) -> Callable[[Shape, str, Path], Found]:
    """One of the ways of peers.py."""

    def ask(shape: Shape, device: str, folder: Path) -> Found:
        command = [str(HERE / "peers.py"), way, json.dumps([*shape, device])]
        found, until = said(command, folder)
        return judged(found["value"], found["samples"], until)

    return ask


def by_pytest(shape: Shape, device: str, folder: Path, *, max_time: float | None = None) -> Found:
    """pytest-benchmark with its default settings, but for the seconds of its rounds where they are
    given; its median."""
    out = folder / "benchmark.json"
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "peers_pytest.py")]
    command += [] if max_time is None else [f"--benchmark-max-time={max_time}"]
    command += [f"--benchmark-json={out}"]
    until = run(command, folder, PEERS_SHAPE=json.dumps([*shape, device]))
    stats = json.loads(out.read_text(encoding="utf-8"))["benchmarks"][0]["stats"]
    return judged(stats["median"], stats["data"], until)


def swept(
    shape: Shape, device: str, folder: Path, backends: str, budget: float, interval: float
) -> tuple[dict[str, Any], float]:
    """The cells of ``rnncheck bench`` on the bare module by variant, and its seconds."""
    batch, steps, features, hidden, resets = shape
    spec, out = folder / "rnncheck.yaml", folder / "run.json"
    text = SPEC.format(
        batch=batch, steps=steps, features=features, hidden=hidden, resets=resets, device=device,
        backends=backends, budget=budget, interval=interval,
    )  # fmt: skip
    spec.write_text(text, encoding="utf-8")
    command = ["-m", "rnncheck", "bench", str(spec), "-q", "--report", f"json={out}"]
    until = run(command, folder, may_fail=True)
    rows = json.loads(out.read_text(encoding="utf-8"))["cells"]
    return {row["cell"]["variant"]: row for row in rows}, until


def timing_of(row: dict[str, Any], until: float) -> Found:
    """A cell's time; one for which the budget did not do has none."""
    timing = row["timing"]
    if timing is None:
        return Found(math.nan, -math.inf, math.inf, until, [])
    return Found(timing["median"], timing["low"], timing["high"], until, row["samples"]["wall"])


def ratio_of(row: dict[str, Any]) -> tuple[float, float, float] | None:
    """A cell's speed-up with its interval."""
    ratio = row["ratio"]
    return None if ratio is None else (ratio["value"], ratio["low"], ratio["high"])


def by_rnncheck(shape: Shape, device: str, folder: Path) -> Found:
    """``rnncheck bench`` on the bare module: it measures the workload twice, and judges its numbers
    too."""
    rows, until = swept(shape, device, folder, "pad, auto", 60, TARGET)
    return replace(timing_of(rows["pad"], until), ratio=ratio_of(rows["auto"]))


# --- the same time for all -----------------------------------------------------------------------

NARROW = 0.0005  # an interval that is not reached: all of the time is used


def equal_by_hand(way: str, seconds: float) -> Ask:
    """One of the ways of peers.py, until the seconds of its process are over."""

    def ask(shape: Shape, device: str, folder: Path) -> Found:
        command = [str(HERE / "peers.py"), way, json.dumps([*shape, device])]
        found, until = said(command, folder, PEERS_UNTIL=str(time.time() + seconds))
        return judged(found["value"], found["samples"], until)

    return ask


def equal_by_pytest(seconds: float) -> Ask:
    """pytest-benchmark, with so much time for its rounds as the first answer left."""
    spare = [LEAST]

    def ask(shape: Shape, device: str, folder: Path) -> Found:
        found = by_pytest(shape, device, folder, max_time=spare[0])
        spare[0] = max(LEAST, spare[0] + seconds - found.until)
        return found

    return ask


def equal_by_rnncheck(seconds: float) -> Ask:
    """``rnncheck bench``: the time of one cell, and in as much time again two that are compared."""

    def ask(shape: Shape, device: str, folder: Path) -> Found:
        one, until = swept(shape, device, folder, "pad", seconds, NARROW)
        two, _ = swept(shape, device, folder, "pad, auto", seconds, NARROW)
        return replace(timing_of(one["pad"], until), ratio=ratio_of(two["auto"]))

    return ask


LEAST = 0.5  # seconds that are always given


def equal_ways(seconds: float) -> dict[str, Ask]:
    """Each way, told to take so long."""
    return {
        "loop by hand": equal_by_hand("loop", seconds),
        f"TorchRL's script, {WARM_UP} to warm up": equal_by_hand("torchrl", seconds),
        "blocked_autorange": equal_by_hand("autorange", seconds),
        "pytest-benchmark": equal_by_pytest(seconds),
        "rnncheck bench": equal_by_rnncheck(seconds),
    }


PEERS: dict[str, Ask] = {
    f"loop by hand, {LOOP} calls": by_hand("loop"),
    f"TorchRL's script, {WARM_UP} + {CALLS} calls": by_hand("torchrl"),
    f"blocked_autorange, {SECONDS:g} s": by_hand("autorange"),
    "pytest-benchmark": by_pytest,
    "rnncheck bench": by_rnncheck,
}


def comparisons(found: list[Found]) -> Iterator[tuple[float, bool]]:
    """Each comparison of the workload with itself: how far from 1, and whether it says that they
    differ."""
    for one in found:
        if one.ratio is not None:
            value, low, high = one.ratio
            yield abs(value - 1), not low <= 1 <= high
    for one, other in pairwise(one for one in found if math.isfinite(one.value)):
        if one.ratio is None:
            yield abs(other.value / one.value - 1), one.high < other.low or other.high < one.low


def width(found: list[Found]) -> float:
    """Half the interval over the answer, the median over the answers."""
    return statistics.median(
        one.relative if math.isfinite(one.value) else math.inf for one in found
    )


def held(found: list[Found], middle: float) -> int:
    """How many of the intervals hold ``middle``: of honest ones nearly all do."""
    return sum(one.low <= middle <= one.high for one in found if math.isfinite(one.value))


def row(name: str, found: list[Found]) -> str:
    """One line of the table; what gave no answer counts where intervals are, as one that has
    none."""
    values = [one.value for one in found if math.isfinite(one.value)] or [math.nan]
    middle = statistics.median(values)
    until = statistics.median(one.until for one in found)
    half = width(found)
    narrow = sum(one.relative <= TARGET for one in found)
    compared = list(comparisons(found))
    worst = max((off for off, _ in compared), default=math.nan)
    wrong = sum(differ for _, differ in compared)
    cells = [
        name,
        "none" if math.isnan(middle) else f"{middle * 1e3:.2f} ms",
        f"{until:.1f} s",
        f"±{half:.1%}" if math.isfinite(half) else "none",
        f"{held(found, middle)} of {len(found)}",
        f"{narrow} of {len(found)}",
        "none" if math.isnan(middle) else f"{(max(values) - min(values)) / middle:.1%}",
        "none" if math.isnan(worst) else f"{worst:.1%}",
        f"{wrong} of {len(compared)}",
    ]
    return f"| {' | '.join(cells)} |"


COLUMNS = (
    "",
    "answer",
    "until the answer",
    "its 95 % interval",
    "holds the middle answer",
    "within 2 %",
    "spread of its answers",
    "A/A off by up to",
    "A/A called different",
)
HEAD = f"\n| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


def table(
    shape: str, busy: bool, wanted: argparse.Namespace, ways: dict[str, Ask], about: str = ""
) -> dict[str, Any]:
    """One condition, printed, and returned with every sample."""
    state = "every core loaded" if busy else "as quiet as it is"
    asked = f"{wanted.device}, {state}, {wanted.repeats} answers each{about}"
    print(f"\n{shape} {SHAPES[shape]}, {asked}", flush=True)
    with loaded(busy):
        answers = asked_in_turn(shape, wanted, ways, first=0 if about else 1)
    print(HEAD)
    for name, found in answers.items():
        print(row(name, found))
    print(f"\n{ranked(answers)}" if about else "", flush=True)
    peers = {name: [asdict(one) for one in found] for name, found in answers.items()}
    return {"shape": shape, "loaded": busy, "device": wanted.device, "peers": peers}


def asked_in_turn(
    shape: str, wanted: argparse.Namespace, ways: dict[str, Ask], first: int
) -> dict[str, list[Found]]:
    """The answers of each. One with the number 0 says what is left of the time, and does not
    count."""
    answers: dict[str, list[Found]] = {name: [] for name in ways}
    for number in range(first, wanted.repeats + 1):
        for name, ask in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                found = ask(SHAPES[shape], wanted.device, Path(folder))
            answers[name] += [found] if number else []
            print(f"{number} of {wanted.repeats}: {name}", file=sys.stderr)
    return answers


def ranked(answers: dict[str, list[Found]]) -> str:
    """Who is first in what the answers are worth."""
    worst = {
        name: max((off for off, _ in comparisons(found)), default=math.inf)
        for name, found in answers.items()
    }
    narrow = min(answers, key=lambda name: width(answers[name]))
    return f"narrowest interval: {narrow}; least A/A error: {min(worst, key=lambda n: worst[n])}"


def equal_tables(wanted: argparse.Namespace, states: list[bool]) -> Iterator[dict[str, Any]]:
    """The small shape with the same time and one thread for all."""
    os.environ["OMP_NUM_THREADS"] = "1"
    about = f", {wanted.equal:g} s and one thread each"
    for busy in states:
        kept = table("small", busy, wanted, equal_ways(wanted.equal), about)
        yield kept | {"equal": wanted.equal}


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--small", action="store_true", help="the small shape only")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="keep every figure and sample there")
    parser.add_argument("--equal", type=float, default=8.0, help="seconds in the last table")
    parser.add_argument("--equal-only", action="store_true", help="the last table alone")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--quiet-only", action="store_true")
    only.add_argument("--loaded-only", action="store_true")
    return parser.parse_args()


def main() -> None:
    wanted = parsed()
    shapes = ["small"] if wanted.small else list(SHAPES)
    states = [
        busy
        for busy in (False, True)
        if not (wanted.loaded_only if not busy else wanted.quiet_only)
    ]
    shapes = [] if wanted.equal_only else shapes
    usual = (table(shape, busy, wanted, PEERS) for shape in shapes for busy in states)
    kept = []
    for one in chain(usual, equal_tables(wanted, states)):
        kept.append(one)
        if wanted.json is not None:
            wanted.json.write_text(json.dumps(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    begin = time.perf_counter()
    main()
    print(f"\n{time.perf_counter() - begin:.0f} s in all")
