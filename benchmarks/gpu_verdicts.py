"""What every check says of the fixtures' specs on a device, several at a time.

    python benchmarks/gpu_verdicts.py [--device cuda] [--jobs 6] [--out FILE] [SPEC ...]

One line of JSON for each spec, behind one with the environment: seconds, the outcome of each stage,
what failed and what could not look. Without specs it verifies all that `rnncheck verify` names in
the tests: that takes a quarter of an hour with 16 cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("specs", "broken", "pipelines", "training")
STORED = ROOT / "fixtures" / "runs" / "gpu_verify_specs.jsonl"
SECONDS = 600  # of one spec, at most


def all_specs() -> list[str]:
    """Those of the fixtures, as paths from the root."""
    found = (path for name in FOLDERS for path in (ROOT / "fixtures" / name).glob("*.yaml"))
    return sorted(str(path.relative_to(ROOT)) for path in found)


def verdict(spec: str, device: str) -> dict[str, Any]:
    """One spec's run, or what it printed last where it kept none."""
    paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "RNNCHECK_CASES": "0",
    }
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "run.json"
        command = [sys.executable, "-m", "rnncheck", "verify", spec]
        command += ["--set", f"device={device}", "--report", f"json={kept}"]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return {"spec": spec, "said": f"stopped after {SECONDS} s"}
        if not kept.exists():
            return {"spec": spec, "said": done.stderr[-400:]}
        return {"spec": spec, **told(json.loads(kept.read_text(encoding="utf-8")))}


def told(run: dict[str, Any]) -> dict[str, Any]:
    """Of a stored run what is kept."""
    broken = [one for one in run["checks"] if one["outcome"] in ("failed", "error")]
    messages = {one["code"]: [found["message"] for found in one["findings"]] for one in broken}
    return {
        "environment": run["environment"],
        "seconds": round(run["seconds"], 1),
        "stages": {one["stage"]: one["outcome"] for one in run["stages"]},
        "failed": {one["code"]: (messages[one["code"]] or [one["reason"]])[0] for one in broken},
        "not_looked": [c["code"] for c in run["checks"] if c["outcome"] == "could-not-look"],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 where a spec kept no run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("specs", nargs="*", metavar="SPEC", help="these, as paths from the root")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--out", type=Path, default=STORED)
    asked = parser.parse_args(arguments)
    with ThreadPoolExecutor(asked.jobs) as pool:
        rows = list(pool.map(partial(verdict, device=asked.device), asked.specs or all_specs()))
    places = [row.pop("environment") for row in rows if "environment" in row]
    lines = [{"environment": places[0] if places else {}}, *rows]
    asked.out.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    lost = [row["spec"] for row in rows if "said" in row]
    for row in rows:
        print(row["spec"], row.get("said") or sorted(row["failed"]) or "clean", flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
