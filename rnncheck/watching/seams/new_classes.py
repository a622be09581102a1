"""Classes of the user's, as they are defined."""

from __future__ import annotations

import builtins
import functools
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

from rnncheck.pipeline.guard.user_frames import INSTALLED, LIBRARIES, is_user_file

# Told at once of hundreds of modules; what is installed may be below it, and train agents.
_PYTHONS_OWN = tuple(sysconfig.get_path(one) for one in ("stdlib", "platstdlib"))


def defined_in(module: ModuleType) -> Iterator[type]:
    """Those that are there by now, as in a notebook."""
    path, name = getattr(module, "__file__", None), getattr(module, "__name__", "")
    theirs = isinstance(path, str) and not _is_no_ones(name, path) and is_user_file(path)
    if name == "__main__" or theirs:
        for one in list(vars(module).values()):
            if isinstance(one, type) and one.__module__ == name:
                yield one


def _is_no_ones(name: str, path: str) -> bool:
    """Whether it is plain that none of the user's is there."""
    if name.partition(".")[0] in LIBRARIES:
        return True
    return path.startswith(_PYTHONS_OWN) and not any(folder in path for folder in INSTALLED)


def hear_classes(scope: ExitStack, hear: Callable[[type], None]) -> None:
    """Tell ``hear`` until ``scope`` ends of those of a module once that is imported, and of others,
    the script's own, as they are made. While a module is imported nothing stands between it and its
    class bodies: libraries look there for the names of the module."""
    making, loading = builtins.__build_class__, SourceFileLoader.exec_module

    @functools.wraps(making)
    def build(*args: Any, **kwargs: Any) -> Any:
        kind = making(*args, **kwargs)
        if isinstance(kind, type) and is_user_file(sys._getframe(1).f_code.co_filename):
            hear(kind)
        return kind

    @functools.wraps(loading)
    def load(loader: SourceFileLoader, module: ModuleType) -> None:
        heard = builtins.__build_class__ is build
        if heard:
            builtins.__build_class__ = making
        try:
            loading(loader, module)
        finally:
            if heard and builtins.__build_class__ is making:
                builtins.__build_class__ = build
        for kind in defined_in(module):
            hear(kind)

    def put_back() -> None:
        if builtins.__build_class__ is build:
            builtins.__build_class__ = making
        if SourceFileLoader.exec_module is load:
            del SourceFileLoader.exec_module

    builtins.__build_class__ = build
    SourceFileLoader.exec_module = load  # type: ignore[assignment, method-assign]
    scope.callback(put_back)
