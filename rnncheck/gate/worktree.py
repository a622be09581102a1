"""Another revision of the user's repository as the other side: its work tree, and an interpreter
that fits it.

Both are kept in ``.rnncheck/against`` at the repository's root and used again for the same
revision. Where nothing that says what is installed differs between the revisions, the present
interpreter serves and the other tree's modules come first on its path; else the revision gets a
virtual environment of its own, which takes a package index.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rnncheck.bench.sides import Side
from rnncheck.errors import UserError
from rnncheck.gate.code import Other, copies, importable_from
from rnncheck.gate.commands import run_command
from rnncheck.gate.venv import INSTALLS, differ, make_venv, project_of

_WORKTREES = Path(".rnncheck") / "against"


def side_of_ref(ref: str, spec: Path, overrides: Sequence[str]) -> Other:
    """The side of ``ref``. Raises UserError where git, the revision, its spec or its environment
    are lacking."""
    here = spec.resolve()
    toplevel = ["rev-parse", "--show-toplevel"]
    root = Path(_git(here.parent, toplevel, "--against-ref needs a git repository")).resolve()
    commit = _git(
        root,
        ["rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}"],
        f"--against-ref {ref}: no such revision here (a shallow clone has only its last one:"
        " fetch it)",
    )
    tree = _tree(root, commit, ref)
    there = tree / here.relative_to(root)
    if not there.exists():
        raise UserError(
            f"--against-ref {ref}: {here.relative_to(root)} does not exist in that revision",
            hint="choose a revision that has the spec",
        )
    project = project_of(there, tree)
    python = _interpreter(root, tree, commit, project)
    importable = importable_from(tree, project, root, sys.path)
    side = Side(ref, python, str(there), tuple(overrides), tree, importable)
    return Other(side, copies(root, tree))


def _tree(root: Path, commit: str, ref: str) -> Path:
    """The revision's work tree, made where it is not yet."""
    tree = root / _WORKTREES / commit[:12]
    if not (tree / ".git").exists():
        _git(root, ["worktree", "prune"], "git worktree prune failed")
        add = ["worktree", "add", "--detach", "--force", str(tree), commit]
        _git(root, add, f"the work tree of {ref} cannot be made")
        _ignore(root / _WORKTREES)
    return tree


def _interpreter(root: Path, tree: Path, commit: str, project: Path) -> str:
    """The present one, or one with what the revision asks to install."""
    inside = project.relative_to(tree)
    wanted = [f":(glob){inside / name}" for name in INSTALLS]
    names = _git(root, ["diff", "--name-only", commit, "--", *wanted], "git diff failed")
    changed = [name for name in names.splitlines() if differ(root / name, tree / name)]
    if not changed:
        return sys.executable
    problem = f"what {changed[0]} of that revision asks for cannot be installed"
    return make_venv(tree / ".venv", project, problem)


def _ignore(folder: Path) -> None:
    """Git shall not see the folder."""
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def _git(folder: Path, arguments: Sequence[str], problem: str) -> str:
    return run_command(["git", *arguments], folder, problem).strip()
