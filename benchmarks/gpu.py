"""All that waits for a machine with CUDA, in one command: `make gpu`.

It runs the tests that are marked ``gpu``, verifies with every backend and all specs of the
fixtures, runs scripts under the watch, compiles Triton's kernels on all cores, sweeps backends,
precisions and shapes, asks the documentation's claims and the peers, keeps each result in
``fixtures/runs/gpu_*.json``, and writes the tables of docs/measurements.md between its marks. A
step that fails leaves the others their turn; the exit code is then 1, and 2 without CUDA.

    python benchmarks/gpu.py [--only NAME ...] [--out FOLDER] [--list]

`--device cpu` rehearses it without CUDA: Triton's kernels run under its interpreter, what cannot
run is a row that says so, and the documents stay as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "fixtures" / "runs"
MEASUREMENTS = ROOT / "docs" / "measurements.md"
BEGIN, END = "<!-- gpu -->", "<!-- /gpu -->"
VERIFIED = ("cartpole_dqn", "two_layer_lstm", "gru_actor_critic")
SWEEP = "fixtures/bench/gpu.yaml"
AMPERE = (8, 0)  # the first compute capability with tf32 and bfloat16
NO_CUDA = (
    "error: torch sees no CUDA device here: `make gpu` needs one (`rnncheck doctor` says more)"
)


class Properties(Protocol):
    """What ``torch.cuda.get_device_properties`` tells."""

    name: str
    major: int
    minor: int
    total_memory: int


@dataclass(frozen=True)
class Step:
    """One command; ``stores`` is the result that it leaves."""

    name: str
    command: tuple[str, ...]
    stores: str = ""


def steps(out: Path, device: str, card: Properties | None, more: Sequence[str] = ()) -> list[Step]:
    """All of them, in order. ``more`` are arguments of the sweeps."""
    tool = ("-m", "rnncheck")
    found = [Step("tests", ("-m", "pytest", "-q", "-m", "gpu", "tests"))]
    for name in VERIFIED:
        told = ("--backends", "all", "--set", f"device={device}", "--set", "verify.timeout=600")
        spec = f"fixtures/specs/{name}.yaml"
        found.append(
            Step(
                f"verify_{name}",
                (*tool, "verify", spec, *told, *report(out, f"verify_{name}")),
                f"gpu_verify_{name}.json",
            )
        )
    verdicts = ("benchmarks/gpu_verdicts.py", "--device", device)
    kept = out / "gpu_verify_specs.jsonl"
    found.append(Step("verdicts", (*verdicts, "--out", str(kept)), kept.name))
    scripts = ("benchmarks/gpu_scripts.py", "--device", device)
    kept = out / "gpu_scripts.jsonl"
    found.append(Step("scripts", (*scripts, "--out", str(kept)), kept.name))
    if device == "cuda":
        found.append(Step("kernels", ("benchmarks/gpu_kernels.py",)))
    narrowed = (*more, "--set", f"device={device}", *narrowed_to(card))
    for name, asked in (("sweep", ()), ("claims", ("--claims",))):
        command = (*tool, "bench", SWEEP, *asked, *narrowed, *report(out, name))
        found.append(Step(name, command, f"gpu_{name}.json"))
    peers = ("benchmarks/bench_peers.py", "--device", device, "--quiet-only")
    found.append(Step("peers", (*peers, "--json", str(out / "gpu_peers.json")), "gpu_peers.json"))
    return found


def report(out: Path, name: str) -> tuple[str, ...]:
    """Where a run is kept."""
    return ("--report", "console", "--report", f"json={out / f'gpu_{name}.json'}")


def narrowed_to(card: Properties | None) -> tuple[str, ...]:
    """What a card before Ampere cannot compute is left out of the sweep, by name."""
    if card is None or (card.major, card.minor) >= AMPERE:
        return ()
    return (
        "--set", "bench.matmul_precision=[auto, ieee]", "--set", "bench.dtype=[float32]",
    )  # fmt: skip


def described(card: Properties) -> str:
    """A card in words."""
    memory = card.total_memory / 2**30
    return f"{card.name}, compute capability {card.major}.{card.minor}, {memory:.0f} GiB"


# --- tables --------------------------------------------------------------------------------------


def table_of(run: dict[str, Any]) -> str:
    """A stored sweep as Markdown, a row for each cell, with what it was measured on."""
    lines = [
        f"As measured on {placed(run['environment'])}:",
        "",
        "| | time | speed-up | error | memory |",
        "|---|---|---|---|---|",
        *map(_row, run["cells"]),
    ]
    told = [f"- {one['text']}: **{one['answer']}** ({one['why']})" for one in run["claims"]]
    return "\n".join([*lines, *(["", *told] if told else [])])


def placed(environment: dict[str, Any]) -> str:
    """Where a run was made."""
    packages = environment["packages"]
    device = environment["gpu"] or environment["cpu"]
    return f"{device} (torch {packages['torch']}, TorchRL {packages['torchrl']})"


def _row(cell: dict[str, Any]) -> str:
    timing, ratio = cell["timing"], cell["ratio"]
    if timing is None:
        return (
            f"| {cell['label'].replace('|', 'at', 1)} | {cell['status']}: {cell['reason']} | | | |"
        )
    half = (timing["high"] - timing["low"]) / 2 / timing["median"]
    shown = [
        cell["label"].replace("|", "at", 1),
        f"{timing['median'] * 1e3:.3g} ms ±{half:.1%}",
        f"{ratio['value']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]" if ratio else "",
        f"{float(cell['accuracy']['output']):.1e}" if cell["accuracy"] else "",
        f"{cell['memory']['peak'] / 2**20:.0f} MiB" if cell["memory"] else "",
    ]
    return f"| {' | '.join(shown)} |"


def with_tables(text: str, tables: Sequence[str]) -> str:
    """The document with these tables between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{BEGIN} and {END} do not stand in the document")
    return "\n\n".join([before + BEGIN, *tables, END + after])


# --- running -------------------------------------------------------------------------------------


def card_of(device: str) -> Properties | None:
    """The card that is measured. Ends the program where it is asked for and not there."""
    if device == "cpu":
        return None
    import torch

    if not torch.cuda.is_available():
        print(NO_CUDA, file=sys.stderr)
        raise SystemExit(2)
    found: Properties = torch.cuda.get_device_properties(0)
    return found


def ran(step: Step) -> bool:
    """Whether a step came to its end: what it found may fail, what it measured is kept."""
    print(f"\n=== {step.name}: {' '.join(step.command)}", flush=True)
    begin = time.perf_counter()
    paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    code = subprocess.run([sys.executable, *step.command], cwd=ROOT, env=env).returncode
    print(f"=== {step.name}: exit {code}, {time.perf_counter() - begin:.0f} s", flush=True)
    return code == 0


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these steps")
    parser.add_argument("--list", action="store_true", help="print the steps; run none")
    parser.add_argument("--out", type=Path, default=RUNS, help="where results are kept")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--set", action="append", default=[], help="for the sweeps")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    wanted = parsed(arguments)
    card = card_of(wanted.device)
    if card is not None:
        print(described(card), flush=True)
    more = [text for one in wanted.set for text in ("--set", one)]
    found = steps(wanted.out.resolve(), wanted.device, card, more)
    if unknown := set(wanted.only or ()) - {step.name for step in found}:
        print(f"error: there is no step {min(unknown)}", file=sys.stderr)
        return 2
    chosen = [step for step in found if not wanted.only or step.name in wanted.only]
    if wanted.list:
        print("\n".join(f"{step.name}: {' '.join(step.command)}" for step in chosen))
        return 0
    wanted.out.mkdir(parents=True, exist_ok=True)
    failed = [step.name for step in chosen if not ran(step)]
    if wanted.device == "cuda":
        keep_tables(wanted.out)
    print(f"\n{len(chosen) - len(failed)} of {len(chosen)} steps; failed: {failed or 'none'}")
    return 1 if failed else 0


def keep_tables(out: Path) -> None:
    """Put the tables of what is kept into docs/measurements.md."""
    kept = [out / f"gpu_{name}.json" for name in ("sweep", "claims")]
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in kept if path.exists()]
    text = with_tables(MEASUREMENTS.read_text(encoding="utf-8"), list(map(table_of, runs)))
    MEASUREMENTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
