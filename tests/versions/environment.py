"""A second environment: another TorchRL in front of everything else that is installed here.

    python tests/versions/environment.py 0.12.0 FOLDER     # prints the path of its python

The environment is a venv that sees this interpreter's packages (torch, gymnasium, pytest) through a
``.pth`` file; only TorchRL and the tensordict that belongs to it are installed in it, from the
package index that pip is set up with.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from rnncheck.errors import UserError
from rnncheck.gate.venv import installer

ROOT = Path(__file__).parent.parent.parent
TENSORDICT = {"0.12.0": "0.12.4", "0.13.1": "0.13.0", "0.14.0": "0.14.3"}  # by TorchRL's version
PARENT = "import site; site.addsitedir({!r})\n"


class NoPackage(Exception):
    """pip could not install the packages; the message is the last thing that it said."""


def make(torchrl: str, folder: Path, *also: str) -> Path:
    """The python of a new environment in ``folder`` with that TorchRL, and what else it is to
    have."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    scripts = sysconfig.get_path("scripts", "venv", {"base": str(folder)})
    python = Path(scripts, Path(sys.executable).name)
    _install(python, [f"torchrl=={torchrl}", f"tensordict=={TENSORDICT[torchrl]}", *also])
    folders = sorted({sysconfig.get_path(name) for name in ("purelib", "platlib")})
    own = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    # after the installation, so that pip does not take the packages there for its own
    lines = "".join(map(PARENT.format, folders))
    (own / "parent.pth").write_text(lines, encoding="utf-8")
    return python


def _install(python: Path, wanted: list[str]) -> None:
    """What they depend on is installed here already; ``--no-deps`` keeps torch from being fetched
    again."""
    try:
        install = installer(python, ROOT)
    except UserError as error:
        raise NoPackage(error.message) from error
    done = subprocess.run(
        [*install, "--no-deps", "--quiet", *wanted],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"PIP_RETRIES": "1", "PIP_DEFAULT_TIMEOUT": "15"},
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise NoPackage(f"pip cannot install {' '.join(wanted)}: {said[-1] if said else 'no word'}")


def run(python: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The environment's python, with this checkout's rnncheck."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120", "NO_COLOR": "1"}
    command = [str(python), *args]
    return subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False
    )


if __name__ == "__main__":
    print(make(sys.argv[1], Path(sys.argv[2])))
