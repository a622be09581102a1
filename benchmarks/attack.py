"""Attacks on the command line's edges, for minutes: `make attack`.

Each part tries what a stranger, a disk or a shell may do, and prints each time that rnncheck did
not answer as it says: a traceback, an internal error, text that acts, a document that does not
parse back, another exit code. Nothing but one line a part is printed where it always did.

- `specs`: N mutated specs, loaded and shown
- `results`: N mutated results, read, and those that are read in every format
- `streams`: commands whose streams are closed, full or left by their reader
- `disks`: runs whose store or reports cannot be written
- `interrupts`, `kills`: see interruptions.py; 60 and 40 of them
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import interruptions
import mutants
from hostile import harmless
from junitparser import JUnitXml
from ruamel.yaml import YAML

from rnncheck.errors import UserError
from rnncheck.report.formats import FORMATS, render
from rnncheck.results import store
from rnncheck.results.model import Run
from rnncheck.spec.dump import spec_to_json, to_yaml
from rnncheck.spec.load import spec_from_text

ROOT = Path(__file__).parent.parent
START = "import sys; from rnncheck.cli.app import main; sys.exit(main())"
LONGEST = 20_000  # characters of a refusal
BOUND = 30.0  # seconds for one mutant
Part = Callable[[int], Iterator[str]]
"""Yields an empty text for each attack that was answered, else what went wrong."""


def specs(count: int) -> Iterator[str]:
    """Mutated specs: refused in bounded sentences, or shown and loaded again."""
    sources = sorted((ROOT / "fixtures" / "specs").glob("*.yaml"))
    texts = [path.read_text() for path in sources]
    bases = [YAML(typ="safe", pure=True).load(text) for text in texts]
    for seed in range(count):
        draw = random.Random(seed)
        if seed % 3 == 0:
            text = mutants.cut(draw.choice(texts), draw)
        else:
            text = json.dumps(mutants.mutated(draw.choice(bases), draw), default=str)
        yield _timed(f"spec {seed}", partial(_spec, text))


def _spec(text: str) -> None:
    try:
        spec = spec_from_text(text, "s.yaml")
    except UserError as error:
        harmless(str(error))
        assert len(str(error)) < LONGEST, "a long refusal"
        return
    for shown in (to_yaml(spec), spec_to_json(spec)):
        harmless(shown)
    assert spec_from_text(to_yaml(spec), "s.yaml").hash == spec.hash, "shown as another spec"


def results(count: int) -> Iterator[str]:
    """Mutated results: refused in a sentence, or a whole and harmless document in every format."""
    found = sorted((ROOT / "tests" / "results" / "stored").glob("**/*.json"))
    bases = [json.loads(path.read_text()) for path in found]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.json"
        for seed in range(count):
            draw = random.Random(seed)
            kind = mutants.texts_changed if seed % 2 else mutants.mutated
            text = mutants.as_text(kind(draw.choice(bases), draw))
            text = mutants.cut(text, draw) if seed % 10 == 0 else text
            path.write_text(text, errors="replace")
            yield _timed(f"result {seed}", partial(_result, path))


def _result(path: Path) -> None:
    try:
        run = store.read_run(path)
    except UserError as error:
        harmless(str(error))
        assert len(str(error)) < LONGEST, "a long refusal"
        return
    # The plots of a sweep take seconds, and few of its texts: one in ten mutants has them drawn.
    drawn = not run.cells or len(repr(run.spec)) % 10 == 0
    for form in FORMATS if drawn else set(FORMATS) - {"html"}:
        out = render(run, form)
        harmless(out, commands=form == "github")
        _whole(form, out, run)


def _whole(form: str, out: str, run: Run) -> None:
    if form == "junit":
        JUnitXml.fromstring(out.encode())
    elif form in ("json", "sarif", "benchmark"):
        json.loads(out)
    elif form == "jsonl":
        assert json.loads(out.splitlines()[-1])["run"] == store.run_to_json(run)
    elif form == "csv":
        cells = itertools.chain.from_iterable(csv.reader(out.splitlines()))
        assert not any(cell.startswith(("=", "@", "+", "\t")) for cell in cells), "a formula"


def _timed(name: str, attack: Callable[[], None]) -> str:
    begin = time.perf_counter()
    try:
        attack()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{name}: {type(error).__name__}: {ascii(error)[:200]} ({where.name})"
    seconds = time.perf_counter() - begin
    return f"{name}: took {seconds:.0f} s" if seconds > BOUND else ""


def streams(_: int) -> Iterator[str]:
    """Every command that needs no torch, with each of the streams; and a verdict."""
    shown = ["--help", "rule", "rule BD301", "spec schema", "spec show", "report r.json",
             "report r.json --report jsonl", "compare r.json r.json"]  # fmt: skip
    ways = {"> /dev/full": 2, "| head -c 1": 0, ">&-": 0, "2>&-": 0, ">&- 2>&- <&-": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = _folder(Path(name))
        for command, (way, code) in itertools.product(shown, ways.items()):
            yield _answered(folder, command, way, code)
        verdict = subprocess.run(
            [sys.executable, "-c", START, "verify", "-q"], cwd=folder, check=False,
            capture_output=True, env=_environment(),
        ).returncode  # fmt: skip
        for way in (*ways, "2> /dev/full", "--report jsonl | head -c 1"):
            yield _answered(folder, "verify", way, verdict)


def _folder(folder: Path) -> Path:
    """A spec, and a result."""
    shutil.copy(ROOT / "fixtures" / "specs" / "cartpole_dqn.yaml", folder / "rnncheck.yaml")
    first = sorted((ROOT / "tests" / "results" / "stored").glob("**/*.json"))[0]
    shutil.copy(first, folder / "r.json")
    return folder


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def _answered(folder: Path, command: str, way: str, code: int) -> str:
    start = shlex.join([sys.executable, "-c", START])
    done = subprocess.run(
        ["bash", "-c", f"{start} {command} {way}; exit ${{PIPESTATUS[0]}}"], cwd=folder,
        env=_environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    said = [word for word in ("Traceback", "internal error", "Exception ig") if word in done.stderr]
    if done.returncode == code and not said:
        return ""
    return f"{command} {way}: exit {done.returncode}, not {code}; {said} {done.stderr[-200:]!r}"


DISKS = {
    "a file for the store": "shutil.rmtree(STORE); STORE.write_text('x')",
    "no store": "shutil.rmtree(STORE)",
    "a link for the runs": "shutil.rmtree(STORE / 'runs'); (STORE / 'runs').symlink_to('/')",
    "another folder": "os.chdir('/')",
    "a folder that is gone": "f = tempfile.mkdtemp(); os.chdir(f); os.rmdir(f)",
    "no room": "resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))",
    "a folder for a report": "(HERE / 'r.md').mkdir()",
}
FACTORY = """\
import os, resource, shutil, tempfile
from pathlib import Path
from torchrl.envs import GymEnv, InitTracker, TransformedEnv
HERE = Path(__file__).parent
STORE = HERE / ".rnncheck"

def make():
    if not (HERE / "done").exists():
        (HERE / "done").touch()
        DEED
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    return TransformedEnv(env, InitTracker())
"""
SPEC = """\
schema: 1
name: disks
env: {factory: "disks:make"}
policy:
  modules:
    - {use: GRUModule, in_key: observation, out_key: f, hidden_size: 6}
    - {use: MLP, in_keys: [f], out_keys: [action_value], num_cells: [], out_features: auto}
    - QValueModule
"""


def disks(_: int) -> Iterator[str]:
    """A factory takes the ground from under the outputs: the report is printed all the same."""
    for name, deed in DISKS.items():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "rnncheck.yaml").write_text(SPEC)
            (Path(folder) / "disks.py").write_text(FACTORY.replace("DEED", deed))
            yield _printed(Path(folder), name)


def _printed(folder: Path, name: str) -> str:
    reports = ["--report", "markdown=r.md", "--report", "console"]
    done = subprocess.run(
        [sys.executable, "-c", START, "verify", "--select", "WR", *reports], cwd=folder,
        env=_environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    told = f"; exit {done.returncode} (" in done.stdout and "Traceback" not in done.stderr
    lost = "is not written" in done.stderr or "leads out" in done.stderr
    kept = (folder / ".rnncheck" / "runs" / "latest.json").is_file()
    if told and (kept or lost) and "internal error" not in done.stderr:
        return ""
    return f"{name}: exit {done.returncode}; {done.stdout[-200:]!r} {done.stderr[-300:]!r}"


PARTS: dict[str, Part] = {
    "specs": specs,
    "results": results,
    "streams": streams,
    "disks": disks,
    "interrupts": lambda count: interruptions.interrupts(min(count, 60)),
    "kills": lambda count: interruptions.kills(min(count, 40)),
}


def attacked(names: Sequence[str], count: int) -> int:
    """Run these parts; the number of attacks that were not answered."""
    bad = 0
    for name in names:
        begin, answers = time.perf_counter(), 0
        for said in PARTS[name](count):
            answers += 1
            if said:
                bad += 1
                print(f"{name}: {said}", flush=True)
        seconds = time.perf_counter() - begin
        print(f"{name}: {answers} attacks in {seconds:.0f} s, {bad} in all unanswered", flush=True)
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000, help="mutants of each kind")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; repeatable")
    given = parser.parse_args()
    sys.exit(bool(attacked(given.only or list(PARTS), given.n)))


if __name__ == "__main__":
    main()
