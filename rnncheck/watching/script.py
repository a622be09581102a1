"""Running a script or a module as ``python`` would: its own ``__main__``, arguments and path."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, ModuleType

import torch.multiprocessing

from rnncheck.errors import StageTimeout, UserError
from rnncheck.pipeline.guard.closing import ChildProcesses, close_all
from rnncheck.pipeline.guard.interrupted import caught_ctrl_c, ended_after_ctrl_c
from rnncheck.pipeline.guard.timeout import time_limit
from rnncheck.pipeline.guard.user_frames import (
    LIBRARIES,
    count_as_theirs,
    describe_trouble,
    training_packages_followed,
)
from rnncheck.watching.ending import ScriptEnd
from rnncheck.watching.observer import Enough, Watching
from rnncheck.watching.seams.opening import opened

_MAIN = "__main__"
_START_METHOD = "set_start_method"


@dataclass(frozen=True)
class Script:
    """What is run: a file, or with ``module`` a module by its name, and its arguments."""

    name: str
    arguments: tuple[str, ...] = ()
    module: bool = False


def run_script(script: Script, watching: Watching, seconds: float) -> ScriptEnd:
    """Run it under the watch, for ``seconds`` at most; what it left running is ended."""
    main, code, argv = _prepared(script)
    sys.argv[:] = argv
    sys.modules[_MAIN] = main  # stays: what the script made may be pickled by that name
    children = ChildProcesses()
    with opened(watching), _first_start_method():
        try:
            ended = _ran(code, main, seconds)
            if caught_ctrl_c():
                watching.enough = True
                ended = replace(ended, interrupted=True)
            return ended
        except KeyboardInterrupt:
            watching.enough = True  # nobody waits for further batches
            raise
        finally:
            watching.settle()
            close_all([getattr(one.collector, "shutdown", None) for one in watching.seen.acting])
            children.reap()


@contextmanager
def _first_start_method() -> Iterator[None]:
    """``multiprocessing.set_start_method`` does not refuse the script's first call because TorchRL,
    which is imported here already, has chosen one."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    owners = (multiprocessing, torch.multiprocessing)
    before = [getattr(one, _START_METHOD) for one in owners]

    def instead(method: str | None, force: bool = False) -> None:
        first = multiprocessing.get_start_method(allow_none=True) == chosen
        before[0](method, force=force or first)

    for one in owners:
        setattr(one, _START_METHOD, instead)
    try:
        yield
    finally:
        for one, own in zip(owners, before, strict=True):
            setattr(one, _START_METHOD, own)


def _ran(code: CodeType, main: ModuleType, seconds: float) -> ScriptEnd:
    try:
        with time_limit("script", seconds), ended_after_ctrl_c():
            exec(code, main.__dict__)
    except Enough:
        return ScriptEnd(enough=True)
    except StageTimeout:
        return ScriptEnd(timed_out=True)
    except SystemExit as stop:
        return ScriptEnd(stop.code, place=describe_trouble(stop).place)
    except Exception as error:
        return ScriptEnd(1, describe_trouble(error))
    return ScriptEnd()


@contextmanager
def main_kept() -> Iterator[None]:
    """Put back what a script gets of its own: arguments, path, main module, working folder, and
    packages whose lines are followed."""
    argv, path, main, folder = list(sys.argv), list(sys.path), sys.modules[_MAIN], Path.cwd()
    try:
        with training_packages_followed():
            yield
    finally:
        sys.argv[:], sys.path[:] = argv, path
        sys.modules[_MAIN] = main
        os.chdir(folder)
        count_as_theirs(())


def _package(name: str) -> Iterator[str]:
    """The folders of the package that a module belongs to; what is run is no library's."""
    top = name.partition(".")[0]
    found = None if top in LIBRARIES else importlib.util.find_spec(top)
    yield from (found and found.submodule_search_locations) or ()


def _prepared(script: Script) -> tuple[ModuleType, CodeType, list[str]]:
    main = ModuleType(_MAIN)
    main.__dict__["__builtins__"] = __builtins__
    if script.module:
        return _module(script, main)
    path = Path(script.name)
    try:
        source = path.read_bytes()
    except OSError as error:
        raise UserError(f"{script.name} cannot be read: {error.strerror}") from error
    try:
        code = compile(source, str(path.resolve()), "exec")
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{script.name} cannot be compiled: {error}") from error
    main.__file__ = str(path.resolve())
    sys.path[0] = str(path.resolve().parent)
    return main, code, [script.name, *script.arguments]


def _module(script: Script, main: ModuleType) -> tuple[ModuleType, CodeType, list[str]]:
    sys.path[0] = str(Path.cwd())
    name = script.name
    try:
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations is not None:
            name = f"{name}.{_MAIN}"
            found = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise UserError(f"the module {script.name} cannot be found: {error}") from error
    loader = None if found is None else found.loader
    get = getattr(loader, "get_code", None)
    code = None if get is None or found is None else get(found.name)
    if found is None or not isinstance(code, CodeType):
        raise UserError(f"there is no module {name} that can be run")
    count_as_theirs(_package(name))
    main.__file__, main.__spec__ = found.origin, found
    main.__package__, main.__loader__ = found.parent, loader
    return main, code, [str(found.origin), *script.arguments]
