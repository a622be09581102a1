"""A patch that was seen to make a run green: what it changes, file by file."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff


@dataclass(frozen=True)
class FileChange:
    """The text of one ``file`` before and after, lines ended by a newline alone; ``path`` as the
    user reads it, ``before`` None where there is no such file."""

    path: str
    file: str
    before: str | None
    after: str

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        name = "/dev/null" if self.before is None else f"a/{self.path}"
        before, after = (one.splitlines(keepends=True) for one in (self.before or "", self.after))
        lines = unified_diff(before, after, name, f"b/{self.path}")
        return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


_NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True)
class Patch:
    """The changes together, the causes that they mend and what they do, in words."""

    changes: tuple[FileChange, ...]
    mends: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def diff(self) -> str:
        """All changes as one unified diff."""
        return "".join(change.diff for change in self.changes)
