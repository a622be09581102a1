"""What a saved run names instead of keeping it: classes and functions, by their import path."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from rnncheck.errors import RnncheckError
from rnncheck.pipeline.guard.calling import raising_as
from rnncheck.pipeline.guard.user_frames import is_user_file, sentence

_MAIN = "__main__"
_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_LONGEST = 400  # characters of a path
# Libraries whose classes are made again; of their functions these alone, which compute numbers.
_CLASSES = (
    *("torch.nn.", "torch.distributions.", "torch.optim.", "tensordict.nn."),
    *("torchrl.modules.", "torchrl.envs.", "torchrl.objectives.", "torchrl.data.tensor_specs"),
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
    """The module that a script is when it is imported; ``obstacle`` says why it is not to be."""

    name: str
    folder: Path
    obstacle: str = ""


def home_of(script: str, *, module: bool) -> Home:
    """What the script's own functions are imported from."""
    if module:
        found = sys.modules[_MAIN].__spec__
        name = script if found is None else found.name
        return Home(name, Path.cwd(), obstacle_in(Path(str(sys.modules[_MAIN].__file__))))
    path = Path(script).resolve()
    named = "" if path.stem.isidentifier() else f"{path.name} has no name that can be imported"
    return Home(path.stem, path.parent, named or obstacle_in(path))


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


def path_of(value: Any, home: Home) -> str:
    """``module:name`` of a class or function."""
    name = getattr(value, "__qualname__", "")
    module = getattr(value, "__module__", None) or ("torch" if name in _TORCH else "")
    told = f"{module}:{name}"
    if module == _MAIN:
        if home.obstacle:
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


def found_at(told: Any, folders: tuple[Path, ...]) -> Any:
    """The class or function at an import path: TorchRL's, or one of a module in ``folders``."""
    if not isinstance(told, str) or len(told) > _LONGEST or not _PATH.fullmatch(told):
        raise CannotKeep(f"{told!r:.80} is no import path")
    module, _, name = told.partition(":")
    found = _attribute(_imported(module, folders), name)
    if found is None:
        raise CannotKeep(f"there is no {name} in {module} any more")
    if not _is_allowed(found, module, name, folders):
        raise CannotKeep(f"{told} is nothing that a saved run may name")
    return found


def _imported(name: str, folders: tuple[Path, ...]) -> types.ModuleType:
    top = name.partition(".")[0]
    if top not in ("torch", "tensordict", "torchrl", "builtins"):
        places = [folder / top for folder in folders]
        if not any(p.with_suffix(".py").is_file() or p.is_dir() for p in places):
            where = " or ".join(map(str, folders))
            raise CannotKeep(f"there is no module {name} in {where}")

    def convert(error: BaseException) -> CannotKeep:
        return CannotKeep(f"{name} cannot be imported: {sentence(error)}")

    with raising_as(convert):
        return importlib.import_module(name)


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
    file = getattr(sys.modules[module], "__file__", None) or ""
    inside = any(Path(file).resolve().is_relative_to(one.resolve()) for one in folders)
    return inside and is_user_file(file) and callable(found)
