"""`rnncheck run` on the scripts of the fixtures, moved to a device as people move them: with a
device where tensors and modules are made, and with that one as the default device.

    python benchmarks/gpu_scripts.py [--device cuda] [--out PATH] [--jobs 4]

One line of JSON for each: the verdict, what failed or could not be looked at, and whether the
script printed what it prints alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
DEFAULT = "import torch\n\ntorch.set_default_device(DEV)\n"
SECONDS = 300  # for one run


def moved(folder: Path, device: str) -> Iterator[Path]:
    """The scripts on the device."""
    from tests.pretend.test_watched import THERE
    from tests.watching.scripts import SCRIPTS

    for name, changes in THERE.items():
        text = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
        for old, new in changes.items():
            text = text.replace(old, new)
        docstring, quotes, rest = text[3:].partition('"""')
        for label, more in (("", ""), ("_default", DEFAULT)):
            path = folder / f"{name}{label}.py"
            head = f'"""{docstring}{quotes}\nDEV = "{device}"\n{more}'
            path.write_text(head + rest, encoding="utf-8")
            yield path


def ran(path: Path, *command: str) -> tuple[int, str]:
    """Exit code and standard output, of a process that uses one thread."""
    paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, *command, path.name], cwd=path.parent, env=env, capture_output=True,
        text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def judged(path: Path, device: str) -> dict[str, Any]:
    """One line of what is kept."""
    begin, stored = time.perf_counter(), path.with_suffix(".json")
    _, alone = ran(path)
    options = ("--report", "console", "--report", f"json={stored}")
    code, watched = ran(path, "-m", "rnncheck", "run", *options)
    run = json.loads(stored.read_text(encoding="utf-8"))
    outcomes = {one["code"]: one["outcome"] for one in run["checks"]}
    told = [line for line in watched.splitlines() if line in alone.splitlines()]
    return {
        "script": path.stem,
        "device": device,
        "exit": code,
        "passed": sum(one == "passed" for one in outcomes.values()),
        "failed": [code for code, one in outcomes.items() if one == "failed"],
        "not_looked": [code for code, one in outcomes.items() if "could" in one],
        "same_lines": len([line for line in told if line.strip()]),
        "seconds": round(time.perf_counter() - begin, 1),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where a script was not verified."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=4)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as pool:
        scripts = list(moved(Path(folder), asked.device))
        rows = list(pool.map(partial(judged, device=asked.device), scripts))
    text = "".join(json.dumps(row) + "\n" for row in rows)
    print(text, end="")
    if asked.out is not None:
        asked.out.write_text(text, encoding="utf-8")
    return int(any(row["exit"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
