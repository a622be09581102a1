"""The user's files as a patch would leave them; nothing here writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rnncheck.results.patch import FileChange


@dataclass(frozen=True)
class Texts:
    """Files by their absolute path: as they are, and as the patch so far leaves them."""

    before: Mapping[Path, str | None] = field(default_factory=dict)
    after: Mapping[Path, str] = field(default_factory=dict)

    def read(self, path: Path) -> str:
        """The file's text behind the patch; lines end with a newline alone."""
        return self.after[path] if path in self.after else path.read_text(encoding="utf-8-sig")

    def changed(self, path: Path, text: str) -> Texts:
        """The same with another text for one file."""
        before = self.before[path] if path in self.before else self._on_disk(path)
        return Texts({**self.before, path: before}, {**self.after, path: text})

    def _on_disk(self, path: Path) -> str | None:
        return path.read_text(encoding="utf-8-sig") if path.exists() else None

    def changes(self, folder: Path) -> tuple[FileChange, ...]:
        """What is different, named from ``folder``."""
        return tuple(
            FileChange(_named(path, folder), str(path), self.before[path], text)
            for path, text in self.after.items()
            if text != self.before[path]
        )


def _named(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
