"""Commands that explain must start at once: no torch, and little time. The one place where a wall
time is asserted."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "tensordict", "torchrl", "gymnasium", "numpy")
SPEC_ONLY = (
    *HEAVY,
    "ruamel",
    "rnncheck.spec.model",
)  # what reads specs; typer itself brings pydantic
LIMIT = 0.35  # seconds, on a machine that starts a bare Python in BARE
BARE = 0.02  # seconds
ROUNDS = 5

PROGRAM = """
import sys
sys.argv = ["rnncheck", *{args!r}]
from rnncheck.cli.app import main
try:
    code = main()
except SystemExit as stop:
    code = stop.code
loaded = [name for name in {heavy!r} if name in sys.modules]
print("loaded:", *loaded, file=sys.stderr)
sys.exit(code)
"""

COMMANDS = [("--help",), ("rule",), ("rule", "WR101"), ("verify", "--help"), ("report", "--help")]


def run(code: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )


def loaded(args: tuple[str, ...], heavy: tuple[str, ...]) -> str:
    done = run(PROGRAM.format(args=args, heavy=heavy))
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1]


def fastest(code: str) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run(code)
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_nothing_heavy_is_imported(args: tuple[str, ...]) -> None:
    assert loaded(args, SPEC_ONLY) == "loaded:"


def test_the_schema_needs_no_torch() -> None:
    assert loaded(("spec", "schema"), HEAVY) == "loaded:"


@pytest.mark.parametrize("args", [("--help",), ("rule",)], ids=" ".join)
def test_it_starts_at_once(args: tuple[str, ...]) -> None:
    """The limit grows with the machine's own start of a bare Python: a busy runner is no
    regression."""
    bare = fastest("pass")
    limit = LIMIT * max(1.0, bare / BARE)
    assert fastest(PROGRAM.format(args=args, heavy=HEAVY)) <= limit
