"""The user's own functions: ``module:function`` imported from the spec's folder and called by
name."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

from rnncheck.errors import ComponentError, KernelError, VersionError, did_you_mean
from rnncheck.numerics.kernels import missing_kernel
from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.assembly.made import note_made
from rnncheck.pipeline.compat import lacks
from rnncheck.pipeline.copying.copies import CannotCopy
from rnncheck.pipeline.guard.calling import raising_as
from rnncheck.pipeline.guard.process import settled_envs
from rnncheck.pipeline.guard.user_frames import (
    describe_trouble,
    display_path,
    is_user_file,
    read_frame,
)
from rnncheck.results.model import Source
from rnncheck.spec.model import Component, EnvSpec, Spec

Offered = Mapping[str, Callable[[], Any]]  # what a factory may ask for, by name
_HERE = Path(__file__).parents[2]  # this package
_COPIED = ("policy", "critic", "replay", "advantage", "loss")  # a collector is used up
_TRANSFORMING = ("Compose", "append_transform", "TransformedEnv")  # calls, the most exact first
SHAPE = "`module:function`, for example `my_pipeline:make_env`"


@dataclass(frozen=True)
class Given:
    """An object that Python handed over, in the place of a factory that makes it."""

    make: Callable[[], Any]

    def __call__(self) -> Any:
        return self.make()


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Make ``folder`` importable; its modules are forgotten afterwards, so that two specs never
    mix."""
    before, path = set(sys.modules), str(folder)
    sys.path.insert(0, path)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(path)
        for name in [n for n in sys.modules if n not in before and _lies_in(n, folder)]:
            del sys.modules[name]


def _lies_in(name: str, folder: Path) -> bool:
    file: str | None = getattr(sys.modules[name], "__file__", None)
    return file is not None and Path(file).is_relative_to(folder) and is_user_file(file)


def load_factory(spec: Spec, component: Component) -> Callable[..., Any]:
    """The callable that ``factory`` names, or a ComponentError that says what is missing."""
    if component._live is not None:
        handed: Callable[..., Any] = component._live
        return handed
    target = component.factory or ""
    module_name, colon, attribute = target.partition(":")
    if not (colon and module_name and attribute):
        raise _error(spec, component, f"{target!r} does not name a function", accepted=SHAPE)
    module = _import(spec, component, module_name)
    return _attribute(spec, component, module, attribute)


def _error(spec: Spec, component: Component, message: str, **more: str) -> ComponentError:
    return ComponentError(message, place=spec.locate((*component.at, "factory")), **more)


def _import(spec: Spec, component: Component, name: str) -> ModuleType:
    folder = spec.folder
    if str(folder) not in sys.path:  # a worker process of a ParallelEnv
        sys.path.insert(0, str(folder))
    _check_not_hidden(spec, component, name.partition(".")[0], folder)

    def convert(error: BaseException) -> ComponentError:
        return _not_importable(spec, component, name, error)

    with raising_as(convert):
        return importlib.import_module(name)


def _check_not_hidden(spec: Spec, component: Component, top: str, folder: Path) -> None:
    """A module of the folder whose name another loaded module already has."""
    mine = [folder / f"{top}.py", folder / top / "__init__.py"]
    loaded = getattr(sys.modules.get(top), "__file__", None)
    if top not in sys.modules or not any(path.exists() for path in mine):
        return
    if loaded and Path(loaded).resolve() in [path.resolve() for path in mine]:
        return
    if loaded and is_user_file(loaded):  # another spec's module of the same name
        for name in [n for n in sys.modules if n == top or n.startswith(f"{top}.")]:
            del sys.modules[name]
        return
    raise _error(
        spec,
        component,
        f"{top}.py has the name of a module of Python or of an installed package",
        hint="rename the file",
    )


def _not_importable(
    spec: Spec, component: Component, name: str, error: BaseException
) -> ComponentError:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and (name == missing or name.startswith(f"{missing}.")):
        folder = spec.folder
        return _error(
            spec,
            component,
            f"there is no module {missing!r} in {display_path(str(folder))}",
            hint=did_you_mean(missing, [path.stem for path in folder.glob("*.py")]),
        )
    trouble = describe_trouble(error)
    place = trouble.place or spec.locate((*component.at, "factory"))
    if newer := lacks(error):
        return VersionError(newer, place=place)
    return ComponentError(
        f"importing {name!r} failed: {trouble.message}",
        place=place,
        frames=trouble.frames,
    )


def _attribute(
    spec: Spec, component: Component, module: ModuleType, path: str
) -> Callable[..., Any]:
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            known = [n for n, v in vars(found).items() if callable(v) and not n.startswith("_")]
            raise _error(
                spec,
                component,
                f"{module.__name__} has no function {part!r}",
                accepted=c.listed_names(n for n in known if _is_own(vars(found)[n], module)),
                hint=did_you_mean(part, known),
            )
        found = getattr(found, part)
    if not callable(found):
        kind = type(found).__name__
        raise _error(spec, component, f"{component.factory} is of type {kind}, not a function")
    function: Callable[..., Any] = found
    return function


def _is_own(value: object, module: ModuleType) -> bool:
    return getattr(value, "__module__", None) == module.__name__


def call_factory(
    spec: Spec,
    component: Component,
    available: Offered,
    *,
    optional: Mapping[str, Any] | None = None,
) -> Any:
    """Call the factory with what it declares of ``available``, and the spec's other keys.

    ``optional`` are arguments that are passed only where the factory takes them.
    """
    function = load_factory(spec, component)
    taken = c.accepts(function)
    extra = {k: v for k, v in (optional or {}).items() if k in taken.names or taken.open}
    given = {**extra, **component.args}
    offered = {name: make for name, make in available.items() if name not in given}
    c.check_arguments(spec, component, function, component.args, provided=offered)
    wanted = {name: offered[name]() for name in taken.names if name in offered}

    def convert(error: BaseException) -> ComponentError:
        return _raised(spec, component, error)

    note_made(component, function, {**wanted, **given})
    with raising_as(convert), settled_envs(spec.seed):
        made = _call(function, {**wanted, **given})
    note_made(component, function, {**wanted, **given}, made)
    return made if component._live is None else _own_copy(spec, component, made)


def _own_copy(spec: Spec, component: Component, made: Any) -> Any:
    """A copy of what the caller of ``verify`` may hold as well: an object that was handed over, or
    one that a function closes over.

    What a function made and cannot be copied is taken as made for this run.
    """
    section = str(component.at[0])
    if spec._copies is None or section not in _COPIED:
        return made
    try:
        return spec._copies.whole(made, f"the {section}")
    except CannotCopy as error:
        if not isinstance(component._live, Given):
            return made
        hint = f"pass a function that makes it: {section}=make_{section}"
        raise ComponentError(str(error), place=spec.locate(component.at), hint=hint) from error


def _call(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    first = [
        values.pop(name)
        for name, parameter in c.parameters(function).items()
        if parameter.kind is parameter.POSITIONAL_ONLY and name in values
    ]
    return function(*first, **values)


def _raised(spec: Spec, component: Component, error: BaseException) -> ComponentError:
    trouble = describe_trouble(error)
    place = trouble.place or spec.locate((*component.at, "factory"))
    if newer := lacks(error):
        return VersionError(newer, place=place)
    if missing := missing_kernel(trouble.message):
        return KernelError(missing, place=place, frames=trouble.frames)
    said = "called sys.exit()" if isinstance(error, SystemExit) else f"raised {trouble.message}"
    if isinstance(error, EOFError):
        said = "asked for terminal input, which it cannot have here"
    return ComponentError(
        f"{component.factory} {said}",
        place=place,
        frames=trouble.frames,
    )


def wrong_type(spec: Spec, component: Component, value: object, accepted: str) -> ComponentError:
    """The error for a factory that returned something else than its stage needs."""
    source = component_source(spec, component)
    kind = "None" if value is None else f"an object of type {type(value).__name__}"
    hint = "does it end without a `return`?" if value is None else _return_hint(value)
    place = spec.locate((*component.at, "factory"))
    where = f"{source.path}:{source.line}" if source.kind == "python" and source.line else ""
    return ComponentError(
        f"{component.factory} returned {kind}",
        place=place,
        accepted=accepted,
        hint="; ".join(filter(None, [hint, f"it is defined in {where}" if where else ""])),
    )


def _return_hint(value: object) -> str:
    if isinstance(value, tuple):
        inner = ", ".join(type(item).__name__ for item in value)
        return f"it is a tuple of ({inner}): return one object"
    if inspect.isroutine(value) or isinstance(value, (type, functools.partial)):
        return "return what the function makes, not the function itself"
    if type(value).__module__.partition(".")[0] in ("gym", "gymnasium"):
        return "wrap it in torchrl.envs.GymWrapper"
    return ""


def component_source(spec: Spec, component: Component) -> Source:
    """Where a factory is defined, with the lines around it; the spec's line where Python does not
    say."""
    if component.factory is None:
        return spec_source(spec, component)
    if isinstance(component._live, Given):
        return replace(spec_source(spec, component), kind="python")
    function = _unwrapped(load_factory(spec, component))
    try:
        path = inspect.getsourcefile(function) or ""
        code = getattr(function, "__code__", None)  # of lines of a loop there is no `def` to find
        line = inspect.getsourcelines(function)[1] if code is None else code.co_firstlineno
    except (OSError, TypeError):
        return spec_source(spec, component)
    if Path(path).is_relative_to(_HERE):  # what was made of a script's own lines
        return replace(spec_source(spec, component), kind="python")
    name = getattr(function, "__name__", component.factory)
    return Source(display_path(path), line, 0, "python", name, read_frame(path, line))


def transforms_source(spec: Spec, component: EnvSpec) -> Source:
    """Where the spec lists the env's transforms, or its factory puts them together; where that is
    not to be seen, as ``component_source``."""
    if component.factory is None and component.transforms:
        return spec_source(spec, component, "transforms")
    whole = component_source(spec, component)
    if component.factory is None or isinstance(component._live, Given):
        return whole
    function = _unwrapped(load_factory(spec, component))
    try:
        path = inspect.getsourcefile(function) or ""
        lines, first = inspect.getsourcelines(function)
        calls = list(map(_called_name, ast.walk(ast.parse(dedent("".join(lines))))))
    except (OSError, TypeError, SyntaxError):
        return whole
    if Path(path).is_relative_to(_HERE):
        return whole
    for wanted in _TRANSFORMING:
        if found := [at for name, at in calls if name == wanted]:
            line = first + min(found) - 1
            return replace(whole, line=line, frame=read_frame(path, line))
    return whole


def _called_name(node: ast.AST) -> tuple[str, int]:
    """The last word of what a call calls, and its line."""
    if not isinstance(node, ast.Call):
        return "", 0
    return ast.unparse(node.func).rpartition(".")[2], node.lineno


def _unwrapped(function: Any) -> Any:
    while True:
        inner = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        if inner is None or not callable(inner):
            break
        function = inner
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function)  # an instance with __call__


def spec_source(spec: Spec, component: Component, *inside: str) -> Source:
    """The spec's line of a component, or of a part of it, with the lines around it."""
    at = (*component.at, *inside)
    place = spec.locate(at)
    name = ".".join(str(part) for part in at)
    frame = read_frame(place.path, place.line)
    return Source(place.path, place.line, place.column, "spec", name, frame)
