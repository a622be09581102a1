"""Another revision of the user's repository as the other side: its work tree, and an interpreter that fits it.

Both are kept in ``.rnncheck/against`` at the repository's root and used again for the same revision. Where nothing that
says what is installed differs between the revisions, the present interpreter serves and the other tree's modules come
first on its path; else the revision gets a virtual environment of its own, which takes a package index.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from rnncheck.bench.sides import Side
from rnncheck.errors import UserError

FOLDER = Path(".rnncheck") / "against"
INSTALLS = (
    "pyproject.toml", "setup.py", "setup.cfg", "requirements*.txt", "constraints*.txt",
    "uv.lock", "poetry.lock", "pdm.lock",
)  # fmt: skip
SETTLING = 1800.0  # seconds that an installation may take
LAST_WORDS = 300  # characters of git's or pip's output that are told


def side_of_ref(ref: str, spec: Path, overrides: Sequence[str]) -> Side:
    """The side of ``ref``. Raises UserError where git, the revision, its spec or its environment are lacking."""
    here = spec.resolve()
    root = Path(
        _git(
            here.parent,
            "rev-parse",
            "--show-toplevel",
            problem="--against-ref needs a git repository",
        )
    )
    commit = _git(
        root,
        "rev-parse",
        "--verify",
        "--end-of-options",
        f"{ref}^{{commit}}",
        problem=f"--against-ref {ref}: no such revision here (a shallow clone has only its last one: fetch it)",
    )
    tree = root / FOLDER / commit[:12]
    if not (tree / ".git").exists():
        _git(root, "worktree", "prune", problem="git worktree prune failed")
        _git(
            root,
            "worktree",
            "add",
            "--detach",
            "--force",
            str(tree),
            commit,
            problem=f"the work tree of {ref} cannot be made",
        )
        _ignore(root / FOLDER)
    there = tree / here.relative_to(root.resolve())
    if not there.exists():
        raise UserError(
            f"--against-ref {ref}: {here.relative_to(root.resolve())} does not exist in that revision",
            hint="choose a revision that has the spec",
        )
    python = _interpreter(root, tree, commit)
    return Side(ref, python, str(there), tuple(overrides), tree, _importable(tree))


def _importable(tree: Path) -> tuple[str, ...]:
    """Where the tree's own packages lie."""
    source = tree / "src"
    return (*([str(source)] if source.is_dir() else []), str(tree))


def _interpreter(root: Path, tree: Path, commit: str) -> str:
    """The present one, or one with what the revision asks to install."""
    changed = _git(
        root,
        "diff",
        "--name-only",
        commit,
        "--",
        *(f":(glob)**/{name}" for name in INSTALLS),
        problem="git diff failed",
    )
    if not changed:
        return sys.executable
    venv = tree / ".venv"
    done, python = venv / ".installed", venv / "bin" / "python"
    if not done.exists():
        _run(
            [sys.executable, "-m", "venv", "--without-pip", str(venv)],
            tree,
            "a virtual environment cannot be made",
        )
        for arguments in _installations(tree):
            _run(
                [sys.executable, "-m", "pip", "--python", str(python), "install", *arguments],
                tree,
                f"what {changed.splitlines()[0]} of that revision asks for cannot be installed",
            )
        done.touch()
    return str(python)


def _installations(tree: Path) -> list[list[str]]:
    """Arguments of ``pip install``, in order: what the revision asks for, then what the harness needs."""
    pins = [
        part
        for file in sorted(tree.glob("constraints*.txt"))
        for part in ("--constraint", str(file))
    ]
    own = [["--requirement", str(file)] for file in sorted(tree.glob("requirements*.txt"))]
    if (tree / "pyproject.toml").exists() or (tree / "setup.py").exists():
        own.append(["--editable", str(tree)])
    torch = [[f"torch=={version('torch').partition('+')[0]}"]] if not pins else [["torch"]]
    needed = [
        "pydantic",
        "ruamel.yaml",
        "scipy",
        "typer",
        "rich",
        "torchrl",
        "tensordict",
        "hoptorch",
        "gymnasium[classic-control]",
    ]
    return [[*pins, *one] for one in (*torch, *own, needed)]


def _ignore(folder: Path) -> None:
    """Git shall not see the folder."""
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def _git(folder: Path, *arguments: str, problem: str) -> str:
    return _run(["git", *arguments], folder, problem).strip()


def _run(command: Sequence[str], folder: Path, problem: str) -> str:
    """Standard output. Raises UserError with ``problem`` and the command's last line."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SETTLING)
    except FileNotFoundError as error:
        raise UserError(f"{problem}: {command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{problem}: {command[0]} took more than {SETTLING:.0f} s") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it ended without a word"]
        raise UserError(f"{problem} ({lines[-1][-LAST_WORDS:]})")
    return done.stdout
