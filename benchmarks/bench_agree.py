"""How far two runs of one sweep agree, quiet and while other processes load every core.

    python benchmarks/bench_agree.py [--runs 2] [--spec fixtures/bench/cartpole_lstm.yaml]

Rows agree where their 95 % intervals overlap: speed-ups (paired) for all rows but the reference's,
and times.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from load import loaded

ROOT = Path(__file__).parent.parent
Row = dict[str, Any]


def run(spec: Path, folder: Path, name: str) -> dict[str, Any]:
    """One sweep's stored result."""
    path = folder / f"{name}.json"
    command = [sys.executable, "-m", "rnncheck", "bench", str(spec), "--report", f"json={path}"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def described(result: dict[str, Any]) -> str:
    """One run in a line."""
    timings = [row["timing"] for row in result["cells"] if row["timing"]]
    widest = max((t["high"] - t["low"]) / 2 / t["median"] for t in timings)
    said = "; ".join(result["notices"]) or "overhead within 2 %"
    return f"{result['seconds']:.0f} s, widest interval ±{widest:.1%}, {said}"


def overlap(first: Row | None, second: Row | None) -> bool | None:
    """Whether two intervals share a value; None where one is missing."""
    if first is None or second is None:
        return None
    return bool(first["low"] <= second["high"] and second["low"] <= first["high"])


def agreement(results: list[dict[str, Any]], value: str) -> str:
    """``35 of 36`` over all pairs of runs."""
    seen = []
    for first, second in itertools.combinations(results, 2):
        for one, other in zip(first["cells"], second["cells"], strict=True):
            seen.append(overlap(one[value], other[value]))
    known = [found for found in seen if found is not None]
    return f"{sum(known)} of {len(known)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--spec", type=Path, default=ROOT / "fixtures/bench/cartpole_lstm.yaml")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for busy in (False, True):
            print("every core loaded" if busy else "as quiet as it is", flush=True)
            results = []
            with loaded(busy):
                for index in range(wanted.runs):
                    results.append(run(wanted.spec.resolve(), Path(folder), f"{busy}-{index}"))
                    print(f"  {described(results[-1])}", flush=True)
            print(f"  speed-ups agree in {agreement(results, 'ratio')} rows", flush=True)
            print(f"  times agree in {agreement(results, 'timing')} rows", flush=True)


if __name__ == "__main__":
    begin = time.perf_counter()
    main()
    print(f"{time.perf_counter() - begin:.0f} s in all")
