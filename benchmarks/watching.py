"""What the watch of `rnncheck run` costs a script, and whether it changes a number: `make
bench-watching`.

Every script runs alone and watched (`run --keep-going --updates N --select WR103`), in turn, round
by round. Measured are the CPU seconds, user and system, between the script's first and last
optimiser step, so that imports and checks are left out; the machine may be loaded. A digest of all
parameters behind every step, to the bit, says whether a number changed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = HERE.parent / "fixtures" / "scripts"
MOST = 1.2  # times the CPU that the script takes alone: what watching may cost
# In front of both: the script's updates are timed at torch's public hook, and an env that the
# script leaves unseeded gets the same seed in both.
TIMED = """
import hashlib, json, os, resource, runpy, sys
from gymnasium.utils import seeding
from torch.optim.optimizer import register_optimizer_step_post_hook

drawn = seeding.np_random
seeding.np_random = lambda seed=None: drawn(0 if seed is None else seed)

seen, last, digesting = [], int(os.environ["UPDATES"]), 0.0


def spent():
    one = resource.getrusage(resource.RUSAGE_SELF)
    return one.ru_utime + one.ru_stime


def stepped(optimizer, *_):
    global digesting
    if len(seen) < last:
        now = spent()
        digest = hashlib.sha256()
        for group in optimizer.param_groups:
            for one in group["params"]:
                digest.update(one.detach().cpu().numpy().tobytes())
        seen.append((now - digesting, digest.hexdigest()))
        digesting += spent() - now
        if len(seen) == last:
            with open(os.environ["TIMES"], "w") as file:
                json.dump(seen, file)


register_optimizer_step_post_hook(stepped)
del sys.argv[0]  # the script sees its own arguments
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class Timed:
    """One run: CPU seconds of an update, and the parameters behind each."""

    seconds: float
    digests: list[str]


def timed(script: Path, updates: int, folder: Path, *, watched: bool) -> Timed:
    """Run the script once."""
    program, times = folder / "timed.py", folder / "times.json"
    program.write_text(TIMED)
    times.unlink(missing_ok=True)
    command = [sys.executable, str(program), str(script)]
    if watched:
        limits = ["--keep-going", "--updates", str(updates), "--select", "WR103"]
        command[1:1] = ["-m", "rnncheck", "run", "--quiet", *limits]
    asked = {"UPDATES": str(updates), "TIMES": str(times), "OMP_NUM_THREADS": "1"}
    env = os.environ | asked | {"PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if not times.exists():
        raise SystemExit(f"{script.name} made fewer than {updates} updates: {done.stderr[-500:]}")
    seen = json.loads(times.read_text())
    spent = [seconds for seconds, _ in seen]
    return Timed((spent[-1] - spent[0]) / (len(spent) - 1), [digest for _, digest in seen])


def rows(names: list[str], rounds: int, updates: int) -> Iterator[tuple[str, float, float, bool]]:
    """Of each script the median of its times alone, of the ratios, and whether all was the same."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            alone, ratios, same = list[float](), list[float](), True
            for _ in range(rounds):
                one, two = (
                    timed(SCRIPTS / name, updates, Path(folder), watched=watched)
                    for watched in (False, True)
                )
                alone.append(one.seconds)
                ratios.append(two.seconds / one.seconds)
                same = same and one.digests == two.digests
            yield name, statistics.median(alone), statistics.median(ratios), same


def main() -> int:
    """Print the table; 1 where a number changed or watching costs too much."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("scripts", nargs="*", default=sorted(p.name for p in SCRIPTS.glob("*.py")))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=4)
    asked = parser.parse_args()
    print("| script | alone, CPU ms an update | watched / alone | same to the bit |")
    print("|---|---|---|---|")
    good = True
    for name, alone, ratio, same in rows(asked.scripts, asked.rounds, asked.updates):
        told = "yes" if same else "NO"
        print(f"| `{name}` | {1000 * alone:.0f} | {ratio:.2f} | {told} |", flush=True)
        good = good and same and ratio <= MOST
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
