"""Networks that act and are copies of those that are trained, whose weights they are given now and
then: a target network that acts, a clone of an algorithm. Until its first step the trained one has
the same weights, and stands for the copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import FrameType, MethodType
from typing import Any

import torch
from torch import nn

from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.copying.holdings import held_modules
from rnncheck.watching.forms.plain_calls import PlainCall, PlainStep
from rnncheck.watching.forms.structures import Path, filled, holdings, walked

Pairs = list[tuple[nn.Module, nn.Module]]  # what acted, and what is trained in its place


def copies_of_trained(
    call: PlainCall, stack: Sequence[FrameType], weights: set[int] | None
) -> Pairs:
    """The networks that the ``call`` acted by, each with one of its kind with the same numbers that
    a loss is made of, by the ids of its ``weights``, and that the frames hold."""
    acted = [one for _, one in held_modules([call.function, call.arguments, call.owner])]
    ran = {id(part) for part, _ in call.parts}
    found: Pairs = []
    for one in dict.fromkeys(part for whole in acted for part in all_modules(whole)):
        inside = any(one is part for before, _ in found for part in all_modules(before))
        if inside or not ran & {id(part) for part in all_modules(one)}:
            continue
        other = next((m for m in _held(stack) if _is_trained_copy(m, one, weights or set())), None)
        found += [] if other is None else [(one, other)]
    return found


def _held(stack: Sequence[FrameType]) -> Iterator[nn.Module]:
    for frame in stack:
        for _, whole in held_modules(dict(frame.f_locals)):
            yield from all_modules(whole)


def _is_trained_copy(other: nn.Module, one: nn.Module, weights: set[int]) -> bool:
    if other is one or type(other) is not type(one):
        return False
    mine, theirs = list(one.parameters()), list(other.parameters())
    if not theirs or not {id(weight) for weight in theirs} <= weights | _still(theirs):
        return False
    alike = len(mine) == len(theirs) and all(map(torch.equal, mine, theirs))
    return alike and any(id(weight) in weights for weight in theirs)


def _still(weights: Iterable[nn.Parameter]) -> set[int]:
    return {id(weight) for weight in weights if not weight.requires_grad}


def modes_as_acted(
    modes: Mapping[int, tuple[nn.Module, bool]], pairs: Pairs
) -> dict[int, tuple[nn.Module, bool]]:
    """By id, the modes of the copies' parts while these acted, for those in their place."""
    both = (
        (part, dict(new.named_modules()).get(path))
        for old, new in pairs
        for path, part in old.named_modules()
    )
    return {
        id(new): (new, modes[id(old)][1])
        for old, new in both
        if new is not None and id(old) in modes
    }


def acted_by_trained(steps: Sequence[PlainStep], pairs: Pairs) -> list[PlainStep]:
    """The steps, as if the networks that are trained had acted in them."""
    parts = dict[int, nn.Module]()
    for one, other in pairs:
        inner = dict(other.named_modules())
        parts |= {id(part): inner[path] for path, part in one.named_modules() if path in inner}
    owners = dict[int, Any]()  # by the id of what the trained one is put into once
    return [replace(step, call=_by(step.call, pairs, parts, owners)) for step in steps]


def _by(
    call: PlainCall, pairs: Pairs, parts: dict[int, nn.Module], owners: dict[int, Any]
) -> PlainCall:
    function, owner = call.function, call.owner
    if owner is not None:
        owner = owners.setdefault(id(owner), _with(owner, pairs))
        if function is call.owner:  # a module that was called itself
            function = owner
        elif owner is not call.owner:
            function = MethodType(function.__func__, owner)
    elif function is not None:
        function = owners.setdefault(id(function), _with(function, pairs))
    gave = [(parts.get(id(part), part), value) for part, value in call.parts]
    arguments = {
        name: owners.setdefault(id(one), _with(one, pairs)) if _may_hold(one) else one
        for name, one in call.arguments.items()
    }
    return replace(call, function=function, owner=owner, arguments=arguments, parts=gave)


def _may_hold(value: Any) -> bool:
    return any(True for _ in held_modules(value))


def _with(value: Any, pairs: Pairs) -> Any:
    """The value with the trained ones in the place of their copies."""
    found = dict[Path, nn.Module]()

    def looks(path: Path, one: Any) -> bool:
        other = next((new for old, new in pairs if one is old), None)
        found.update({} if other is None else {path: other})
        return other is not None

    walked(value, looks)
    return filled(value, found, holdings) if found else value
