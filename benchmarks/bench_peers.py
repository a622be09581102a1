"""rnncheck's timing beside what people use today, on the same workload, in one run: `make
bench-peers`.

Each answers the same question again and again, in fresh processes: how long does one forward and
backward pass of an LSTM take? The table shows the seconds of the whole process until the answer,
the 95 % interval of the median of its raw samples (computed alike for all), how far its answers lie
apart, and what a comparison of the workload with itself says: for the peers the ratio of two
successive answers, as people compare; for rnncheck the paired ratio of `auto`, which is `pad`
there, over `pad`, in the same run. Then the same while other processes load every core.

    python benchmarks/bench_peers.py [--repeats 10] [--small] [--quiet-only | --loaded-only] [--json
    PATH] [--device cuda]

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
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from load import loaded
from peers import CALLS, LOOP, SECONDS, WARM_UP

from rnncheck.numerics.statistics import median_interval

HERE = Path(__file__).parent
ROOT = HERE.parent
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
  backend: [pad, auto]
  phases: [train]
  target: module
  shapes: [{{batch: {batch}, steps: {steps}}}]
  resets: [{resets}]
  budget: 60
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


def run(command: list[str], folder: Path, **environment: str) -> tuple[str, float]:
    """What the command printed, and its seconds."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)])} | environment
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command], env=env, capture_output=True, text=True, cwd=folder
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-2000:] or done.stdout[-2000:]}")
    return done.stdout, time.perf_counter() - begin


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
        said, until = run(command, folder)
        found = json.loads(said.splitlines()[-1])
        return judged(found["value"], found["samples"], until)

    return ask


def by_pytest(shape: Shape, device: str, folder: Path) -> Found:
    """pytest-benchmark with its default settings; its median."""
    out = folder / "benchmark.json"
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "peers_pytest.py")]
    _, until = run(
        [*command, f"--benchmark-json={out}"], folder, PEERS_SHAPE=json.dumps([*shape, device])
    )
    stats = json.loads(out.read_text(encoding="utf-8"))["benchmarks"][0]["stats"]
    return judged(stats["median"], stats["data"], until)


def by_rnncheck(shape: Shape, device: str, folder: Path) -> Found:
    """``rnncheck bench`` on the bare module: it measures the workload twice, and judges its numbers
    too."""
    batch, steps, features, hidden, resets = shape
    spec, out = folder / "rnncheck.yaml", folder / "run.json"
    text = SPEC.format(
        batch=batch, steps=steps, features=features, hidden=hidden, resets=resets, device=device
    )
    spec.write_text(text, encoding="utf-8")
    _, until = run(["-m", "rnncheck", "bench", str(spec), "-q", "--report", f"json={out}"], folder)
    rows = json.loads(out.read_text(encoding="utf-8"))["cells"]
    pad, auto = (next(row for row in rows if row["cell"]["variant"] == n) for n in ("pad", "auto"))
    timing, ratio = pad["timing"], auto["ratio"]
    return Found(
        timing["median"], timing["low"], timing["high"], until, pad["samples"]["wall"],
        (ratio["value"], ratio["low"], ratio["high"]),
    )  # fmt: skip


PEERS: dict[str, Callable[[Shape, str, Path], Found]] = {
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
    for one, other in pairwise(found):
        if one.ratio is None:
            yield abs(other.value / one.value - 1), one.high < other.low or other.high < one.low


def row(name: str, found: list[Found]) -> str:
    """One line of the table."""
    values = [one.value for one in found]
    middle = statistics.median(values)
    until = statistics.median(one.until for one in found)
    half = statistics.median(one.relative for one in found)
    narrow = sum(one.relative <= TARGET for one in found)
    compared = list(comparisons(found))
    worst = max((off for off, _ in compared), default=0.0)
    wrong = sum(differ for _, differ in compared)
    cells = [
        name,
        f"{middle * 1e3:.2f} ms",
        f"{until:.1f} s",
        f"±{half:.1%}" if math.isfinite(half) else "none",
        f"{narrow} of {len(found)}",
        f"{(max(values) - min(values)) / middle:.1%}",
        f"{worst:.1%}",
        f"{wrong} of {len(compared)}",
    ]
    return f"| {' | '.join(cells)} |"


COLUMNS = (
    "",
    "answer",
    "until the answer",
    "its 95 % interval",
    "within 2 %",
    "spread of its answers",
    "A/A off by up to",
    "A/A called different",
)
HEAD = f"\n| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


def table(shape: str, busy: bool, wanted: argparse.Namespace) -> dict[str, Any]:
    """One condition: printed row by row, and returned with every sample."""
    state = "every core loaded" if busy else "as quiet as it is"
    print(f"\n{shape} {SHAPES[shape]}, {wanted.device}, {state}, {wanted.repeats} answers each")
    print(HEAD, flush=True)
    kept: dict[str, Any] = {"shape": shape, "loaded": busy, "device": wanted.device, "peers": {}}
    with loaded(busy):
        for name, ask in PEERS.items():
            with tempfile.TemporaryDirectory() as folder:
                found = [
                    ask(SHAPES[shape], wanted.device, Path(folder)) for _ in range(wanted.repeats)
                ]
            print(row(name, found), flush=True)
            kept["peers"][name] = [asdict(one) for one in found]
    return kept


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--small", action="store_true", help="the small shape only")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="keep every figure and sample there")
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
    kept = []
    for shape in shapes:
        for busy in states:
            kept.append(table(shape, busy, wanted))
            if wanted.json is not None:
                wanted.json.write_text(json.dumps(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    begin = time.perf_counter()
    main()
    print(f"\n{time.perf_counter() - begin:.0f} s in all")
