"""How often a gate's verdict is right at the noise of this machine, out of a few measured pairs of
processes.

    python benchmarks/gate_levels.py --measure 16 [--quiet] FILE    appends pairs of A against A,
    every core loaded python benchmarks/gate_levels.py FILE...                        draws gates
    from them, again and again

A file holds a line for what it was measured on, then one for each pair. A gate takes a minute, its
verdict milliseconds: thousands of gates are drawn, each from pairs that were measured, either side
of a pair as the first with equal chance, slowed by what is planted.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np
from load import loaded

from rnncheck.bench.side_comparison import ComparisonRules, SideComparison
from rnncheck.bench.sides import Side, here
from rnncheck.gate.cells import asked_cells
from rnncheck.numerics.stopping import MAX_PAIRS, MIN_PAIRS, Measure, PairsAnswer, answer_of_pairs
from rnncheck.results.environment import current_environment
from rnncheck.spec.load import load_spec

SPEC = Path(__file__).parent.parent / "fixtures/gate/cartpole_step.yaml"
ALLOWED = 0.03
PLANTED = (0.0, 0.05, 0.2)


def measure(count: int, file: Path, *, quiet: bool) -> None:
    """Append so many pairs, a few more where they come in whole gates: the ratio of wall time and
    that of CPU time, of the same step on both sides."""
    spec = load_spec(SPEC, [])
    one = here(spec.path, [])
    other = Side("there", sys.executable, spec.path, (), None, one.importable)
    unclear = ComparisonRules(
        math.nan, math.inf, 120.0
    )  # against no number is anything clear: every pair is taken
    with loaded(not quiet), file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(asdict(current_environment())) + "\n")
        done = 0
        while done < count:
            both_sides = SideComparison((one, other), asked_cells(spec), unclear)
            for _ in both_sides.run():
                pass
            ratios = both_sides.cells[0].ratios
            for pair in zip(ratios[Measure.WALL], ratios[Measure.CPU], strict=True):
                out.write(json.dumps(pair) + "\n")
                done += 1
            out.flush()


def drawn(pairs: np.ndarray, share: float, random: np.random.Generator) -> tuple[PairsAnswer, int]:
    """One gate: its answer, and after how many pairs."""
    chosen = pairs[random.integers(len(pairs), size=MAX_PAIRS)]
    chosen = chosen * random.choice([-1, 1], size=(MAX_PAIRS, 1)) + np.log1p(share)
    wall, cpu = np.exp(chosen).T
    for count in range(MIN_PAIRS, MAX_PAIRS + 1):
        ratios = {Measure.WALL: wall[:count].tolist(), Measure.CPU: cpu[:count].tolist()}
        said = answer_of_pairs(ratios, ALLOWED, last=count == MAX_PAIRS)
        if said is not PairsAnswer.OPEN:
            return said, count
    return PairsAnswer.OPEN, MAX_PAIRS


def table(pairs: np.ndarray, gates: int) -> str:
    """Markdown: shares of the answers, by what is planted."""
    random = np.random.default_rng(0)
    lines = ["| planted | slower | passed | unclear | pairs |", "|---|---|---|---|---|"]
    for share in PLANTED:
        found = [drawn(pairs, share, random) for _ in range(gates)]
        counts = Counter(said for said, _ in found)
        cells = [f"{counts[said] / gates:.2%}" for said in PairsAnswer]
        mean = sum(count for _, count in found) / gates
        lines.append(f"| {share:.0%} | {' | '.join(cells)} | {mean:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--measure", type=int, metavar="PAIRS")
    parser.add_argument("--quiet", action="store_true", help="without other processes")
    parser.add_argument("--gates", type=int, default=4000, help="drawn for each share")
    wanted = parser.parse_args()
    if wanted.measure is not None:
        measure(wanted.measure, wanted.files[0], quiet=wanted.quiet)
    lines = [line for file in wanted.files for line in file.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    pairs = np.log(np.array([row for row in rows if isinstance(row, list)]))  # others: environments
    spread = ", ".join(f"{value:.1%}" for value in pairs.std(axis=0))
    print(f"{len(pairs)} pairs, standard deviation of wall and CPU ratios {spread}\n")
    print(table(pairs, wanted.gates))


if __name__ == "__main__":
    main()
