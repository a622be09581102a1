"""What a fix is: ways to change the user's files that may mend a cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnncheck.patch.python_text import Edit, Factory, factory_in
from rnncheck.patch.texts import Texts
from rnncheck.results.model import CheckResult
from rnncheck.spec.edit import edited
from rnncheck.spec.read import parse


@dataclass(frozen=True)
class BrokenFiles:
    """A cause to mend, in the files as they are by now."""

    spec: Path
    texts: Texts
    cause: CheckResult

    @property
    def document(self) -> Mapping[str, Any]:
        """The spec as plain data."""
        data = parse(self.texts.read(self.spec), str(self.spec))[0].data
        return data if isinstance(data, dict) else {}

    def section(self, name: str) -> Mapping[str, Any]:
        """One section of the spec; empty where it is no mapping."""
        found = self.document.get(name)
        return found if isinstance(found, dict) else {}

    def in_spec(self, change: Callable[[Any], bool]) -> Iterator[Texts]:
        """The files behind a change of the spec, which says whether it did anything."""
        before = self.texts.read(self.spec)
        text, _ = edited(before, lambda document: ["changed"] if change(document) else [])
        if text != before:
            yield self.texts.changed(self.spec, text)

    def factory(self, section: str) -> Factory | None:
        """The function that makes this section, or is it, where its file lies beside the spec."""
        written = self.section(section)
        named = written.get("factory") or written.get("function") or ""
        module, colon, name = str(named).partition(":")
        path = self.spec.parent.joinpath(*module.split(".")).with_suffix(".py")
        if not colon or not path.is_file() or not path.resolve().is_relative_to(self.spec.parent):
            return None
        return factory_in(path.resolve(), self.texts.read(path.resolve()), name)

    def in_factory(self, factory: Factory, *edits: Edit) -> Iterator[Texts]:
        """The files behind edits of a factory's file."""
        yield self.texts.changed(factory.path, factory.with_edits(*edits))


@dataclass(frozen=True)
class Fix:
    """``ways`` to do what the fix of these checks says; ``words`` as in "with the tracker"."""

    codes: tuple[str, ...]
    words: str
    ways: Callable[[BrokenFiles], Iterator[Texts]]
