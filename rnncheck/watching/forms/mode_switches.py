"""A switch of the user's own that a script sets around losses and estimators of TorchRL's: while
these are judged it follows the recurrent mode, as theirs would that ask for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn
from torchrl.modules import recurrent_mode

from rnncheck.watching.forms.named_switches import Switches, named_alone, setter_of
from rnncheck.watching.forms.switches import switched

_Held = dict[str, Any]  # attributes of a part, by name
_Places = dict[str, int]  # of switched parts below a module: the number of the part, by path


@contextmanager
def by_mode(
    policy: nn.Module,
    acting: Switches,
    training: Switches,
    networks: Iterable[nn.Module],
    estimators: Iterable[nn.Module],
) -> Iterator[None]:
    """Inside, parts of the ``policy`` that have other values ``training`` than ``acting`` have
    these wherever recurrent mode is on or one of the ``estimators`` runs, in it and in the
    ``networks`` that share them, and in copies of all of these."""
    acts = {path: {name: acting[path][name] for name in held} for path, held in training.items()}
    parts, named = dict(policy.named_modules()), named_alone(training)
    paths = [path for path in training if path not in named]
    known = {id(parts[path]): number for number, path in enumerate(paths)}
    values = [(acts[path], training[path]) for path in paths]
    inside = list[None]()  # one for each estimator that runs
    with ExitStack() as scope:
        scope.enter_context(switched(policy, acts))  # and as it is now behind all
        for one in estimators:
            scope.callback(one.register_forward_pre_hook(_enters(inside)).remove)
            left = one.register_forward_hook(_leaves(inside), always_call=True)
            scope.callback(left.remove)
        for module, places in _around(known, [policy, *networks]):
            hook = module.register_forward_pre_hook(_sets(places, values, inside))
            scope.callback(hook.remove)
        both = setter_of(policy, acts), setter_of(policy, training)
        for module in _modules([policy, *networks]) if named else ():
            scope.callback(module.register_forward_pre_hook(_names(*both, inside)).remove)
        yield


def _around(
    known: Mapping[int, int], networks: Iterable[nn.Module]
) -> Iterator[tuple[nn.Module, _Places]]:
    """The modules of all networks that have such parts inside, or are ones."""
    for one in _modules(networks):
        places = {path: known[id(m)] for path, m in one.named_modules() if id(m) in known}
        if places:
            yield one, places


def _modules(networks: Iterable[nn.Module]) -> Collection[nn.Module]:
    return {id(one): one for network in networks for one in network.modules()}.values()


# What follows is plain functions: copies of a module share these, and are told their own parts.


def _sets(
    places: _Places, values: list[tuple[_Held, _Held]], inside: list[None]
) -> Callable[..., None]:
    def sets(module: nn.Module, *_: Any) -> None:
        trains = bool(recurrent_mode()) or bool(inside)
        for path, number in places.items():
            part = module.get_submodule(path)
            for name, value in values[number][trains].items():
                setattr(part, name, value)

    return sets


def _names(
    acts: Callable[[], None], trains: Callable[[], None], inside: list[None]
) -> Callable[..., None]:
    def sets(*_: Any) -> None:
        (trains if recurrent_mode() or inside else acts)()

    return sets


def _enters(inside: list[None]) -> Callable[..., None]:
    return lambda *_: inside.append(None)


def _leaves(inside: list[None]) -> Callable[..., None]:
    def leaves(*_: Any) -> None:
        inside.pop()

    return leaves
