"""TorchRL's classes by name, and their arguments: looked up, checked, converted, constructed."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rnncheck.errors import (
    ComponentError,
    KernelError,
    Place,
    VersionError,
    did_you_mean,
    nearest,
)
from rnncheck.numerics.kernels import missing_kernel
from rnncheck.pipeline.assembly.made import note_made
from rnncheck.pipeline.compat import lacks, lacks_argument, lacks_class, other_name
from rnncheck.pipeline.guard.calling import raising_as
from rnncheck.pipeline.guard.user_frames import describe_trouble
from rnncheck.spec.model import Component, KeyPath, Spec

_MOST_LISTED = (
    14  # accepted names listed in a message before it is cut: about two lines of a terminal
)
KEY_LISTS = {
    "in_keys",
    "out_keys",
    "in_keys_inv",
    "out_keys_inv",
    "keys",
    "log_prob_keys",
    "end_keys",
}


@dataclass(frozen=True)
class ComponentKind:
    """A sort of component: how it is called, where its classes live and what they derive from."""

    what: str
    namespaces: tuple[str, ...]
    base: str = "builtins:object"

    def base_class(self) -> type:
        """The class that every class of this kind derives from."""
        module, _, name = self.base.partition(":")
        return _as_type(getattr(importlib.import_module(module), name))


ENV = ComponentKind("an environment", ("torchrl.envs",), "torchrl.envs:EnvBase")
TRANSFORM = ComponentKind(
    "a transform", ("torchrl.envs.transforms", "torchrl.envs"), "torchrl.envs.transforms:Transform"
)
NN_MODULE = ComponentKind(
    "a module", ("torchrl.modules", "tensordict.nn", "torch.nn"), "torch.nn:Module"
)
COLLECTOR = ComponentKind(
    "a collector", ("torchrl.collectors",), "torchrl.collectors:BaseCollector"
)
DISTRIBUTION = ComponentKind(
    "a distribution",
    ("torchrl.modules", "tensordict.nn", "tensordict.nn.distributions", "torch.distributions"),
)
REPLAY = ComponentKind(
    "a replay buffer", ("torchrl.data", "torchrl.data.replay_buffers"), "torchrl.data:ReplayBuffer"
)
STORAGE = ComponentKind("a storage", REPLAY.namespaces, "torchrl.data.replay_buffers:Storage")
SAMPLER = ComponentKind(
    "a sampler",
    (*REPLAY.namespaces, "torchrl.data.replay_buffers.samplers"),
    "torchrl.data.replay_buffers.samplers:Sampler",
)
WRITER = ComponentKind(
    "a writer",
    (*REPLAY.namespaces, "torchrl.data.replay_buffers.writers"),
    "torchrl.data.replay_buffers.writers:Writer",
)
ESTIMATOR = ComponentKind(
    "a value estimator",
    ("torchrl.objectives.value",),
    "torchrl.objectives.value:ValueEstimatorBase",
)
LOSS = ComponentKind("a loss", ("torchrl.objectives",), "torchrl.objectives:LossModule")
UPDATER = ComponentKind(
    "a target updater", ("torchrl.objectives",), "torchrl.objectives:TargetNetUpdater"
)
SINGLE_PROCESS = ("Collector", "SyncDataCollector")
MULTI_PROCESS = (
    "MultiSyncCollector",
    "MultiAsyncCollector",
    "MultiSyncDataCollector",
    "MultiaSyncDataCollector",
)
ANY = ComponentKind(
    "a TorchRL class",
    (
        "torchrl.modules",
        "tensordict.nn",
        "torch.nn",
        "torchrl.data",
        "torchrl.envs",
        "torchrl.collectors",
        "torchrl.data.replay_buffers",
        "torchrl.data.replay_buffers.samplers",
        "torchrl.objectives",
        "torchrl.objectives.value",
    ),
)


def _as_type(value: object) -> type:
    if not isinstance(value, type):
        raise TypeError(f"{value!r} is not a class")
    return value


def nested(value: object, at: KeyPath) -> Component | None:
    """The component that a mapping with ``use`` or ``factory`` stands for, else None."""
    if isinstance(value, Component):
        return value
    if not isinstance(value, dict) or not ({"use", "factory"} & set(value)):
        return None
    args = {key: item for key, item in value.items() if key not in ("use", "factory")}
    return Component(use=value.get("use"), factory=value.get("factory"), args=args, at=at)


def listed_names(names: Iterable[str]) -> str:
    """The first names, separated by commas."""
    listed = list(names)
    more = f", ... ({len(listed) - _MOST_LISTED} more)" if len(listed) > _MOST_LISTED else ""
    return ", ".join(listed[:_MOST_LISTED]) + more


def find_class(spec: Spec, name: str, kind: ComponentKind, at: KeyPath) -> type:
    """The public TorchRL class of that name, or a ComponentError with the nearest one."""
    for candidate in filter(None, (name, other_name(name))):
        found = public_class(candidate, kind)
        if found is not None:
            return _of_kind(spec, found, kind, at)
    if newer := lacks_class(name):
        raise VersionError(newer, place=spec.locate(at))
    known = class_names(kind)
    raise ComponentError(
        f"{_owner(kind)} has no {_noun(kind)} named {name!r}",
        place=spec.locate(at),
        hint=did_you_mean(name.rpartition(".")[2], known)
        or "your own class or function is named with `factory: module:function`",
    )


def public_class(name: str, kind: ComponentKind) -> type | None:
    """The first class of that name in the kind's namespaces, of whatever base."""
    for path in kind.namespaces:
        found = getattr(importlib.import_module(path), name, None)
        if isinstance(found, type):
            return found
    return None


def _of_kind(spec: Spec, found: type, kind: ComponentKind, at: KeyPath) -> type:
    if issubclass(found, kind.base_class()):
        return found
    raise ComponentError(
        f"{found.__name__} is not {kind.what}",
        place=spec.locate(at),
        accepted=f"{kind.what} of {', '.join(kind.namespaces)}",
    )


def _owner(kind: ComponentKind) -> str:
    return "TorchRL" if len(kind.namespaces) == 1 else f"TorchRL ({', '.join(kind.namespaces)})"


def _noun(kind: ComponentKind) -> str:
    return kind.what.partition(" ")[2]


def class_names(kind: ComponentKind) -> list[str]:
    """The public names of all classes of this kind."""
    base, names = kind.base_class(), []
    for path in kind.namespaces:
        module = importlib.import_module(path)
        for name in dir(module):
            found = getattr(module, name, None)
            if isinstance(found, type) and issubclass(found, base) and not name.startswith("_"):
                names.append(name)
    return names


@dataclass(frozen=True)
class Accepts:
    """What a callable takes by name; ``open`` when it also swallows other keywords."""

    names: tuple[str, ...]
    required: tuple[str, ...]
    open: bool = False
    positional: str = ""  # the name of its *args


def accepts(target: Any) -> Accepts:
    """The arguments of a class or function; for a class with ``**kwargs``, those of its bases
    too."""
    names: dict[str, bool] = {}
    is_open, positional = False, ""
    for index, function in enumerate(_constructors(target)):
        forwards = False
        for name, parameter in parameters(function).items():
            if parameter.kind is parameter.VAR_KEYWORD:
                forwards = True
            elif parameter.kind is parameter.VAR_POSITIONAL:
                positional = positional or (name if index == 0 else "")
            else:
                needed = index == 0 and parameter.default is parameter.empty
                if index == 0 or name != "env":  # a wrapper's own, which its subclass makes
                    names.setdefault(name, needed)
        is_open = is_open or (index == 0 and forwards)
        if not forwards:
            break
    required = tuple(name for name, needed in names.items() if needed)
    return Accepts(tuple(names), required, is_open, positional)


def _constructors(target: Any) -> Iterator[Any]:
    if not isinstance(target, type):
        yield target
        return
    for owner in target.__mro__[:-1]:
        for name in ("__init__", "_build_env"):  # gym-like envs take their own arguments there
            if name in vars(owner):
                yield vars(owner)[name]


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none: they take what they take
        return {"kwargs": inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)}
    return {name: one for name, one in signature.parameters.items() if name != "self"}


def check_arguments(
    spec: Spec,
    component: Component,
    target: Any,
    given: Collection[str],
    *,
    provided: Iterable[str] = (),
    also: Iterable[str] = (),
) -> None:
    """Refuse unknown and missing arguments. ``provided`` come from rnncheck, ``also`` are its own
    keys."""
    taken, name, ready = accepts(target), called(component), set(provided)
    mine = (*taken.names, *filter(None, [taken.positional]), *also)
    missing = [n for n in taken.required if n not in ready and n not in set(given)]
    for argument in given:
        # with **kwargs anything may be meant, unless it resembles what has to be there and is not
        if argument not in mine and (not taken.open or nearest(argument, missing)):
            own = [n for n in mine if n not in ready or n in given]
            raise unknown_argument(spec, component, argument, own)
    if missing:
        free = [n for n in mine if n not in ready and n not in missing]
        raise ComponentError(
            f"{name} needs {' and '.join(repr(n) for n in missing)}",
            place=spec.locate(component.at),
            accepted=listed_names([*missing, *free]) if component.use else "",
            hint=_handed_over(missing[0], ready) if component.factory else "",
        )


def _handed_over(name: str, offered: set[str]) -> str:
    """What a factory's parameters can be filled with."""
    match = nearest(name, offered)
    said = f"rnncheck hands over {listed_names(sorted(offered))}; " if offered else ""
    guess = f"did you mean {match!r}? " if match else ""
    return f"{guess}{said}any other parameter comes from a key of that name beside `factory`"


def called(component: Component) -> str:
    """The name under which the user knows the component."""
    return component.use or component.factory or "component"


def unknown_argument(
    spec: Spec, component: Component, argument: str, accepted: Iterable[str]
) -> ComponentError:
    """The error for an argument that the class or function does not take."""
    names, place = list(accepted), spec.locate((*component.at, argument))
    if component.use and (newer := lacks_argument(component.use, argument)):
        return VersionError(newer, place=place)
    return ComponentError(
        f"{called(component)} takes no argument {argument!r}",
        place=place,
        accepted=listed_names(names),
        hint=did_you_mean(argument, names),
    )


def construct(spec: Spec, component: Component, target: Any, args: dict[str, Any]) -> Any:
    """Call the class; what its constructor raises becomes a ComponentError at the component."""
    values = dict(args)
    positional = accepts(target).positional
    rest = values.pop(positional, ()) if positional else ()
    with constructing(spec, component, target):
        made = target(*rest, **values)
    note_made(component, target, values, made, rest)
    return made


@contextmanager
def constructing(spec: Spec, component: Component, target: Any) -> Iterator[None]:
    """What is raised inside is the fault of what the spec says at ``component``."""

    def convert(error: BaseException) -> ComponentError:
        return _refused(spec, component, target, error)

    with raising_as(convert):
        yield


def _refused(spec: Spec, component: Component, target: Any, error: BaseException) -> ComponentError:
    blamed = re.search(r"unexpected keyword argument '(\w+)'|Keys \['(\w+)'", str(error))
    argument = next(filter(None, blamed.groups()), "") if blamed else ""
    if argument in component.args:
        names = [name for name in accepts(target).names if name not in ("args", "kwargs")]
        return unknown_argument(spec, component, argument, names)
    trouble = describe_trouble(error)
    place = spec.locate((*component.at, _mentioned(component, str(error))))
    if newer := lacks(error):
        return VersionError(newer, place=trouble.place or place)
    if missing := missing_kernel(trouble.message):
        return KernelError(missing, place=trouble.place or place, frames=trouble.frames)
    return ComponentError(
        f"{called(component)} cannot be built: {trouble.message}",
        place=place,
        frames=trouble.frames,
    )


def _mentioned(component: Component, message: str) -> str:
    """The one argument that an error message names, so that the place is its line."""
    named = [a for a in component.args if re.search(rf"(?<![\w.]){re.escape(a)}(?!\w)", message)]
    return named[0] if len(named) == 1 else ""


def bad_value(
    spec: Spec, at: KeyPath, value: object, what: str, known: Iterable[str] = ()
) -> ComponentError:
    """The error for a value that does not name what its argument asks for."""
    names = list(known)
    return ComponentError(
        f"{value!r} is not {what}",
        place=spec.locate(at),
        accepted=listed_names(names),
        hint=did_you_mean(str(value), names),
    )


def as_keys(value: Any) -> Any:
    """A list of keys, nested ones (YAML lists) as tuples; a single name becomes a list of one."""
    if isinstance(value, str):
        return [value]
    return [one_key(item) for item in value] if isinstance(value, (list, tuple)) else value


def one_key(value: Any) -> Any:
    """``["agent", "h"]`` as ``("agent", "h")``."""
    return tuple(value) if isinstance(value, (list, tuple)) else value


def is_key_argument(name: str) -> bool:
    """Whether an argument of this name holds one tensordict key."""
    return name.endswith("_key")


def component_place(spec: Spec, component: Component) -> Place:
    """Where the component stands in the spec."""
    return spec.locate(component.at)


def set_keys(spec: Spec, component: Component, keys: Mapping[str, Any], target: Any) -> None:
    """``target.set_keys(...)``: the entries that a loss or estimator reads and writes, renamed."""
    if keys:
        inner = Component(use=f"{called(component)}.set_keys", at=(*component.at, "keys"))
        with constructing(spec, inner, target.set_keys):
            target.set_keys(**{name: one_key(key) for name, key in keys.items()})
