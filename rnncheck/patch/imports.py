"""Importing the user's modules from patched texts, while their files stay as they are."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType


class _Loader(SourceFileLoader):
    """Loads one module from a text; compiled files are neither read nor written."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        code = self.source_to_code(self._text.encode(), self.path)
        assert isinstance(code, CodeType)
        return code


class _Finder(MetaPathFinder):
    def __init__(self, texts: Mapping[Path, str]) -> None:
        self._texts = texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(fullname, path, target) or self._new(fullname)
        if found is None or not found.has_location or found.origin is None:
            return None
        text = self._texts.get(Path(found.origin).resolve())
        if text is None:
            return None
        found.loader = _Loader(fullname, found.origin, text)
        return found

    def _new(self, name: str) -> ModuleSpec | None:
        """A module that the patch adds, beside others that are importable."""
        for path in self._texts:
            if path.stem == name and not path.exists() and str(path.parent) in sys.path:
                return spec_from_file_location(name, path)
        return None


@contextmanager
def imported_from(texts: Mapping[Path, str]) -> Iterator[None]:
    """Modules whose files are among ``texts`` are made of these, where they are imported anew."""
    finder = _Finder({path: text for path, text in texts.items() if path.suffix == ".py"})
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
