"""Runs the shell text of a CI file as the CI would: in a folder with a spec, ``rnncheck`` on the
PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.small import PIPELINE

ROOT = Path(__file__).parents[2]
COMMAND = f"""\
#!/bin/sh
PYTHONPATH={ROOT} exec {sys.executable} -c 'from rnncheck.cli.app import main; main()' "$@"
"""
SPEC = (
    PIPELINE
    + """\
collect: {use: Collector, frames_per_batch: 40, batches: 2}
verify: {select: [WR101, WR102, WR103]}
bench: {shapes: [{batch: 2, steps: 4}], resets: [0.0], interval: 0.5}
gate:
  budget: 2
  cells: [{phase: forward}]
  budgets: [{forward_ms: {max: 60000}}]
"""
)
TOO_SLOW = ["--set", "gate.budgets=[{forward_ms: {max: 0.0001}}]"]
REPORTS = {"rnncheck.md", "junit.xml", "rnncheck.sarif", "rnncheck.json", "benchmark.json"}
ACTION_BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")  # what `shell: bash` means
Done = subprocess.CompletedProcess[str]


def read_yaml(name: str) -> Any:
    """The file at the repository's top level."""
    return YAML(typ="safe").load(ROOT / name)


def project(folder: Path) -> Path:
    """A folder with a healthy spec, and ``rnncheck`` and ``python`` in ``bin``."""
    (folder / "rnncheck.yaml").write_text(SPEC)
    tools = folder / "bin"
    tools.mkdir()
    (tools / "rnncheck").write_text(COMMAND)
    (tools / "rnncheck").chmod(0o755)
    (tools / "python").symlink_to(sys.executable)
    return folder


def run(
    script: str, folder: Path, env: Mapping[str, str], shell: Sequence[str] = ACTION_BASH
) -> Done:
    """``script`` from a file, with ``env`` and what a runner sets."""
    file = folder / "step.sh"
    file.write_text(script)
    given = os.environ | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"} | env
    return subprocess.run(
        [*shell, str(file)], cwd=folder, env=given, capture_output=True, text=True, timeout=300
    )


def parses(script: str, shell: str = "bash") -> bool:
    """Whether the shell finds the text well formed."""
    return subprocess.run([shell, "-n"], input=script, text=True).returncode == 0


def pip_calls(script: str, folder: Path, env: Mapping[str, str], shell: Sequence[str]) -> Done:
    """The step with a ``python`` that prints how it is called in place of pip's downloads."""
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").write_text('#!/bin/sh\nprintf "<%s>" "$@"; echo\n')
    (folder / "bin" / "python").chmod(0o755)
    return run(script, folder, env, shell)
