"""What a gate's verdict on speed is worth: the same train step on both sides, or slower by a known
share.

    python benchmarks/gate_power.py [--rounds 20] [--quiet] [--out FILE]     runs, appending a JSON
    line for each answer python benchmarks/gate_power.py --table FILE
    the table alone

A round is three gates of A against A, two with 5 % planted and one with 20 %, while other processes
load every core; each followed by what people use today: pytest-benchmark's --benchmark-compare-fail
(median, 3 %), and the medians of two runs in separate processes, more than 3 % apart. A round takes
about 11 minutes on 2 cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from load import loaded

ROOT = Path(__file__).parent.parent
SPEC = ROOT / "fixtures/gate/cartpole_step.yaml"
STEP = ROOT / "benchmarks/gate_step.py"
VARIABLE = "PLANTED_SLOWDOWN"
Said = tuple[str, str]  # the verdict and the figures behind it
ROUND = (0.0, 0.0, 0.05, 0.0, 0.05, 0.2)
ALLOWED = 0.03


def environment(share: float) -> dict[str, str]:
    """Of a process in which the step is slower by ``share``."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, VARIABLE: str(share)}


def gate(share: float, folder: Path) -> Said:
    """rnncheck's answer: slower, same or unclear; and what it measured."""
    other = folder / "other"
    other.write_text(f'#!/bin/sh\nunset {VARIABLE}\nexec {sys.executable} "$@"\n', encoding="utf-8")
    other.chmod(0o755)
    result = folder / "gate.json"
    command = [sys.executable, "-m", "rnncheck", "gate", str(SPEC), "--no-verify"]
    command += [
        "--against",
        str(other),
        "--max-slowdown",
        str(ALLOWED),
        "--report",
        f"json={result}",
    ]
    done = subprocess.run(
        command, env=environment(share), cwd=folder, capture_output=True, text=True
    )
    if done.returncode not in (0, 5):
        raise RuntimeError(done.stdout + done.stderr)
    items = [one for one in json.loads(result.read_text())["gate"] if one["part"] == "against"]
    rulings = {one["ruling"] for one in items}
    said = "slower" if "slower" in rulings else "unclear" if "unclear" in rulings else "same"
    return said, "; ".join(one["reason"] for one in items)


def pytest_benchmark(share: float, folder: Path) -> Said:
    """Two runs, the second compared with the first."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(STEP)]
    command += [f"--rootdir={folder}", f"--benchmark-storage={folder}"]
    compare = ["--benchmark-compare", f"--benchmark-compare-fail=median:{ALLOWED:.0%}"]
    subprocess.run(
        [*command, "--benchmark-save=base"],
        env=environment(0),
        cwd=folder,
        capture_output=True,
        check=True,
    )
    done = subprocess.run(
        [*command, *compare], env=environment(share), cwd=folder, capture_output=True, text=True
    )
    if "Performance has regressed" in done.stdout + done.stderr:
        return "slower", ""
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return "same", ""


def medians(share: float, folder: Path) -> Said:
    """The medians of two processes."""
    found = []
    for one in (0.0, share):
        done = subprocess.run(
            [sys.executable, str(STEP)],
            env=environment(one),
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(float(done.stdout.split()[-1]))
    said = "slower" if found[1] > (1 + ALLOWED) * found[0] else "same"
    return said, f"{found[0]:.6f} s, then {found[1]:.6f} s"


ASKED: dict[str, Callable[[float, Path], Said]] = {
    "rnncheck gate --against": gate,
    "pytest-benchmark --benchmark-compare-fail": pytest_benchmark,
    "medians of two processes": medians,
}


def answers(rounds: int) -> Iterator[dict[str, Any]]:
    """One record for each answer."""
    for index in range(rounds):
        for share in ROUND:
            for name, ask in ASKED.items():
                begin = time.perf_counter()
                with tempfile.TemporaryDirectory() as folder:
                    said, why = ask(share, Path(folder))
                seconds = time.perf_counter() - begin
                yield {
                    "round": index,
                    "by": name,
                    "planted": share,
                    "said": said,
                    "why": why,
                    "seconds": seconds,
                }


def table(records: list[dict[str, Any]]) -> str:
    """Markdown: how often each called a step slower, by what was planted."""
    shares = sorted(set(ROUND))
    head = " | ".join("A against A" if not share else f"{share:.0%} planted" for share in shares)
    lines = [f"| | {head} | unclear | seconds |", "|---" * (len(shares) + 3) + "|"]
    for name in ASKED:
        mine = [one for one in records if one["by"] == name]
        if not mine:
            continue
        cells = []
        for share in shares:
            kind = [one["said"] for one in mine if one["planted"] == share]
            cells.append(f"{kind.count('slower')} of {len(kind)}")
        seconds = sorted(one["seconds"] for one in mine)
        unclear = sum(one["said"] == "unclear" for one in mine)
        middle = seconds[len(seconds) // 2]
        lines.append(
            f"| {name} | {' | '.join(cells)} | {unclear} | {middle:.0f} (to {seconds[-1]:.0f}) |"
        )
    return "\n".join(lines)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quiet", action="store_true", help="without other processes")
    parser.add_argument("--out", type=Path, default=Path("gate_power.jsonl"))
    parser.add_argument("--table", type=Path, help="print the table of a file; run nothing")
    wanted = parser.parse_args()
    if wanted.table is None:
        with loaded(not wanted.quiet), wanted.out.open("a", encoding="utf-8") as file:
            for record in answers(wanted.rounds):
                file.write(json.dumps(record) + "\n")
                file.flush()
    print(table(read(wanted.table or wanted.out)))


if __name__ == "__main__":
    main()
