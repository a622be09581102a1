"""Commands that explain start at once, held by their imports; `make bench-self` has the times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = {
    "gymnasium", "hoptorch", "jinja2", "matplotlib", "numpy", "scipy", "tensordict", "torch",
    "torchrl", "triton",
}  # fmt: skip
# What reads specs. typer itself brings pydantic.
SPECS = {"ruamel", "rnncheck.spec.model"}
# The commands, their options and what a result consists of are some forty-five modules. A family of
# checks or the planted faults, file by file, would go far beyond.
MOST_OF_OURS = 48
COMMANDS = [("--help",), ("rule",), ("rule", "WR101"), ("verify", "--help"), ("report", "--help")]

PROGRAM = """
import json, sys
sys.argv = ["rnncheck", *{args!r}]
from rnncheck.cli.app import main
try:
    code = main()
except SystemExit as stop:
    code = stop.code
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


@dataclass(frozen=True)
class Loaded:
    """What a command had imported when it ended."""

    modules: frozenset[str]

    @property
    def ours(self) -> set[str]:
        return {name for name in self.modules if name.split(".")[0] == "rnncheck"}


def loaded_by(*args: str) -> Loaded:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(args=args)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code in (None, 0), done.stderr
    return Loaded(frozenset(modules))


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_little_is_imported(args: tuple[str, ...]) -> None:
    found = loaded_by(*args)
    assert not found.modules & (HEAVY | SPECS)
    assert 0 < len(found.ours) <= MOST_OF_OURS, sorted(found.ours)


def test_the_schema_needs_nothing_heavy() -> None:
    assert not loaded_by("spec", "schema").modules & HEAVY
