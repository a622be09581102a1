"""What is noted while a pipeline is built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rnncheck.errors import StageError
from rnncheck.results.model import Source, Stage


@dataclass(frozen=True)
class BuildNotes:
    """Where each stage is written down, what failed, and what the user should read besides."""

    sources: dict[Stage, Source] = field(default_factory=dict)
    failures: dict[Stage, StageError] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

    def tell(self, notices: Iterable[str]) -> None:
        """Add those notices that are not there yet."""
        self.notices.extend(text for text in notices if text not in self.notices)
