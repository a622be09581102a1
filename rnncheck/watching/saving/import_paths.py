"""What a saved run names instead of keeping it: classes and functions, by their import path."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
import types
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from rnncheck.errors import RnncheckError
from rnncheck.pipeline.guard.calling import raising_as
from rnncheck.pipeline.guard.user_frames import is_user_file, sentence
from rnncheck.watching.saving.definitions import defined_module, file_of, fixed_names

_MAIN = "__main__"
_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_LONGEST = 400  # characters of a path
_SPACES = "gymnasium.spaces."
# Libraries whose classes are made again; of their functions these alone, which compute numbers.
_CLASSES = (
    *("torch.nn.", "torch.distributions.", "torch.optim.", "tensordict.nn."),
    *("torchrl.modules.", "torchrl.envs.", "torchrl.objectives.", "torchrl.data.tensor_specs"),
    _SPACES,
)
_METHODS = ("torchrl.modules.", "tensordict.nn.")  # of modules there, which some hold by name
_FUNCTIONS = ("torch.nn.functional",)
_TORCH = ("tanh", "relu", "sigmoid", "exp", "log", "abs", "square", "sqrt", "sin", "cos", "softmax")
_BUILTINS = (bool, int, float, str, list, dict, tuple, set, slice)
_NOT_RUN = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ASSIGNED = (ast.Assign, ast.AnnAssign, ast.If, ast.Try, ast.Pass)


class CannotKeep(RnncheckError):
    """Something cannot be kept, or not be found again; the message says what and why."""


@dataclass(frozen=True)
class Home:
    """The module that a script is when it is imported; ``obstacle`` says why it is not to be, and
    ``fixed`` are the names that its imports, functions and classes have in it all the same."""

    name: str
    folder: Path
    obstacle: str = ""
    fixed: frozenset[str] = frozenset()


def home_of(script: str, *, module: bool) -> Home:
    """What the script's own functions are imported from."""
    if module:
        found = sys.modules[_MAIN].__spec__
        name = script if found is None else found.name
        return _home(name, Path.cwd(), Path(str(sys.modules[_MAIN].__file__)))
    path = Path(script).resolve()
    if not path.stem.isidentifier():
        said = f"{path.name} has no name that can be imported"
        return Home(path.stem, path.parent, said)
    return _home(path.stem, path.parent, path)


def _home(name: str, folder: Path, path: Path) -> Home:
    obstacle = obstacle_in(path)
    try:
        return Home(name, folder, obstacle, fixed_names(path) if obstacle else frozenset())
    except (OSError, SyntaxError, ValueError):
        return Home(name, folder, obstacle)


def home_of_main() -> Home:
    """What the functions of the program that runs now are imported from."""
    main = sys.modules[_MAIN]
    file, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    if file is None or not Path(file).is_file():
        typed = "what is typed into an interpreter or a notebook cannot be imported"
        return Home("", Path.cwd(), typed)
    home = home_of(file, module=False) if spec is None else home_of(spec.name, module=True)
    line = _line_of(main)
    if home.obstacle or not line or _is_guarded(Path(file), line):
        return home
    return replace(home, obstacle=f"importing {Path(file).name} would run it (line {line})")


def _line_of(module: types.ModuleType) -> int:
    """The line of the module that runs now; 0 where none does."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals is vars(module) and frame.f_code.co_name == "<module>":
            return frame.f_lineno
        frame = frame.f_back
    return 0


def _is_guarded(path: Path, line: int) -> bool:
    """Whether the line runs in the program alone: below ``if __name__ == "__main__"``."""
    body = ast.parse(path.read_bytes()).body
    around = [one for one in body if one.lineno <= line <= (one.end_lineno or one.lineno)]
    return any(isinstance(one, ast.If) and "__name__" in ast.unparse(one.test) for one in around)


def obstacle_in(path: Path) -> str:
    """Why importing the file would run the script: a statement that does more than to define."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return f"{path.name} cannot be read"
    for one in body:
        constant = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        if not constant and not isinstance(one, (*_NOT_RUN, *_ASSIGNED)):
            return f"importing {path.name} would run it (line {one.lineno})"
    return ""


def path_of(value: Any, home: Home, *, partly: bool = False) -> str:
    """``module:name`` of a class or function; ``partly``: of a script that runs when it is imported
    what can be had without that will do."""
    name = getattr(value, "__qualname__", "")
    module = getattr(value, "__module__", None) or ("torch" if name in _TORCH else "")
    told = f"{module}:{name}"
    if module == _MAIN:
        if home.obstacle and not (partly and name.partition(".")[0] in home.fixed):
            raise CannotKeep(f"{name} is the script's, and {home.obstacle}")
        told = f"{home.name}:{name}"
    held = _attribute(sys.modules.get(module), name)
    if not _PATH.fullmatch(told) or held is not value:
        raise CannotKeep(f"{name or type(value).__name__} has no name that it can be imported by")
    return told


def _attribute(found: Any, path: str) -> Any:
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def found_at(told: Any, folders: tuple[Path, ...], script: str = "") -> Any:
    """The class or function at an import path: TorchRL's, or one of a module in ``folders``.
    ``script`` is the module that a script is: where importing it would run it, it is not run."""
    if not isinstance(told, str) or len(told) > _LONGEST or not _PATH.fullmatch(told):
        raise CannotKeep(f"{told!r:.80} is no import path")
    module, _, name = told.partition(":")
    found = _attribute(_imported(module, folders, script), name)
    if found is None:
        raise CannotKeep(f"there is no {name} in {module} any more")
    if not _is_allowed(found, module, name, folders):
        raise CannotKeep(f"{told} is nothing that a saved run may name")
    return found


def module_at(told: Any, folders: tuple[Path, ...], script: str) -> types.ModuleType:
    """The user's module of that name, which is in ``folders``."""
    if not isinstance(told, str) or len(told) > _LONGEST or not _PATH.fullmatch(f"{told}:x"):
        raise CannotKeep(f"{told!r:.80} is no module's name")
    found = _imported(told, folders, script)
    if not _is_inside(found, folders):
        raise CannotKeep(f"{told} is nothing that a saved run may name")
    return found


def _imported(name: str, folders: tuple[Path, ...], script: str) -> types.ModuleType:
    top = name.partition(".")[0]
    if top not in ("torch", "tensordict", "torchrl", "builtins") and not name.startswith(_SPACES):
        places = [folder / top for folder in folders]
        if not any(p.with_suffix(".py").is_file() or p.is_dir() for p in places):
            where = " or ".join(map(str, folders))
            raise CannotKeep(f"there is no module {name} in {where}")

    def convert(error: BaseException) -> CannotKeep:
        return CannotKeep(f"{name} cannot be imported: {sentence(error)}")

    with raising_as(convert):
        path = file_of(name) if name == script and name not in sys.modules else None
        if path is not None and obstacle_in(path):
            return defined_module(name, path)
        return importlib.import_module(name)


def _is_inside(module: types.ModuleType, folders: tuple[Path, ...]) -> bool:
    file = getattr(module, "__file__", None) or ""
    inside = any(Path(file).resolve().is_relative_to(one.resolve()) for one in folders)
    return inside and is_user_file(file)


def _is_allowed(found: Any, module: str, name: str, folders: tuple[Path, ...]) -> bool:
    if module == "builtins":
        return any(found is one for one in _BUILTINS)
    defined = getattr(found, "__module__", ""), getattr(found, "__qualname__", "")
    if module != "torch" and defined != (module, name):
        return False  # data, or a name that the module has imported
    if module == "torch" or module in _FUNCTIONS:
        return module in _FUNCTIONS or found.__name__ in _TORCH or found is nn.Module
    if module.startswith(_METHODS) and inspect.isfunction(found):
        owner = _attribute(sys.modules[module], name.rpartition(".")[0])
        return inspect.isclass(owner) and issubclass(owner, nn.Module)
    if module.startswith(_CLASSES):
        return inspect.isclass(found)
    return _is_inside(sys.modules[module], folders) and callable(found)
