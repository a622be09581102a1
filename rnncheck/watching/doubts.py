"""Whether a loss reads what nobody knows: it is asked again with other values there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.subject.modes import called_in_mode, in_mode_of, measuring
from rnncheck.watching.forms.doubted_pass import is_its_pass_known
from rnncheck.watching.forms.given_beside import numbers_beside, spoilt_beside
from rnncheck.watching.forms.in_form import lines_ahead
from rnncheck.watching.forms.plain_pass import CallPass
from rnncheck.watching.seams.graphs import weights_in
from rnncheck.watching.seen import Called, Sightings

_CLOSE = 1e-4  # relative


def settle_starts(seen: Sightings) -> None:
    """Lines of a loop begin where its batch is bound first, and make it anew of what they made of
    it. Where that cannot be done twice, or gives something else, they begin later, at the latest
    where it is bound last."""
    for called in [one for each in seen.losses for one in (each, *each.around)]:
        later, called.later = called.later, ()
        if not later or not called.inputs:
            continue
        ways, last = (called.module, *later[:-1]), _given(later[-1], called)
        given = ((one, _given(one, called)) for one in ways)
        if last is None:  # it reads what lines ahead of it made of a later batch
            called.module = next((one for one, found in given if found), called.module)
        else:
            alike = (one for one, found in given if _are_alike(found, last))
            called.module = next(alike, later[-1])


def settle_counted(seen: Sightings) -> None:
    """Lines in which a function counts its calls, and trains at some of them alone, are judged by
    the function inside of it that trains, where they come to none any more."""
    for called in seen.losses:
        inner, called.inner = called.inner, ()
        if inner and called.inputs and not _given(called.module, called):
            ways = ((loss, doubts) for loss, doubts in inner if _given(loss, called))
            called.module, called.doubts = next(ways, (called.module, called.doubts))


def settle_numbers(seen: Sightings) -> None:
    """Lines and functions that train more at some updates than at others, such as an actor at every
    second one, are judged with the numbers with which they trained most."""
    for called in [one for each in seen.losses for one in (each, *each.around)]:
        told, called.numbers = called.numbers, ()
        ways, called.ways = called.ways, []
        if len(ways) < 2 or numbers_beside(called):
            ways = []
        if any(one != told[0] for one in told):
            ways += [_with_numbers(called.module, one) for one in told]
        if called.inputs and ways:
            called.module = max(called.module, *ways, key=lambda one: _trained_by(one, called))


def _with_numbers(loss: Any, numbers: Mapping[str, Any]) -> Any:
    """The lines with these in the place of those that they read."""
    mode, lines = called_in_mode(loss)
    if isinstance(lines, partial):
        return in_mode_of(mode, partial(_with_numbers(lines.func, numbers), **lines.keywords))
    code, names = lines.__code__, lines.__globals__
    made = FunctionType(code, names, lines.__name__, lines.__defaults__, lines.__closure__)
    made.__kwdefaults__ = {**(lines.__kwdefaults__ or {}), **numbers}
    vars(made).update(vars(lines))
    return in_mode_of(mode, made)


def _trained_by(loss: Any, called: Called) -> int:
    """How many weights it has a graph to."""
    try:
        with measuring(recurrent=called.modes.recurrent, grad=True):
            found = OwnLoss(loss, {}, called.batch)(called.inputs[0].clone())
    except Exception:  # lines of the user's may raise anything
        return 0
    reached = [weights_in(one, ()) or set() for one in found.values()]
    return len(set[int]().union(*reached))


def settle_wholes(seen: Sightings) -> None:
    """A function that is given the batch and gives no number, such as a network's unroll, or that
    cannot be called again, is a part of the loss: the lines around it are all of it, where these
    give one."""
    for at, called in enumerate(seen.losses):
        if called.own is not None and called.around and called.inputs:
            whole = called.around[0]
            part = not _is_number(_given(called.module, called))
            if part and _is_number(_given(whole.module, whole)):
                whole.around, whole.rounds = called.around[1:], called.rounds
                whole.targets = called.targets
                whole.of_who_acts = called.of_who_acts
                seen.losses[at] = whole


def _is_number(found: dict[str, Tensor] | None) -> bool:
    return found is not None and any(one.numel() == 1 for one in found.values())


def settle_doubts(seen: Sightings) -> None:
    """A loss of the script's lines in which something of every step stays what it is, whatever the
    batch, is none that can be judged: the pass in them can."""
    acting = seen.actor()
    seen.passes = [one for one in seen.passes if isinstance(one.over, CallPass)]
    for called in seen.losses:
        beside = {} if called.own is None else numbers_beside(called)
        if beside and (acting is None or lines_ahead(acting, called) is None):
            called.doubts += [(_made_ahead(name), spoilt_beside(called, name)) for name in beside]
    for called in [one for one in seen.losses if one.doubts]:
        if said := _reads(called):
            seen.losses.remove(called)
            known = acting is not None and is_its_pass_known(acting, called)
            seen.passes += [called] if known else []
            seen.unseen = said
        called.doubts = []


def _made_ahead(name: str) -> str:
    return (
        f"the loss is given `{name}` beside its batch, and no lines that make it of a batch could"
        " be run again: make it inside the function that returns the loss, or keep it in the batch"
    )


def _reads(called: Called) -> str:
    """What is said of the first doubt that matters."""
    usual = _given(called.module, called)
    if usual is None:  # it is told why where it is judged
        return ""
    others = ((said, _given(other, called)) for said, other in called.doubts)
    return next((said for said, found in others if not _alike(usual, found)), "")


def _given(loss: Any, called: Called) -> dict[str, Tensor] | None:
    """The losses; None where it raises."""
    try:
        with measuring(recurrent=called.modes.recurrent, grad=True):
            found = OwnLoss(loss, {}, called.batch)(called.inputs[0].clone())
    except Exception:  # lines of the user's may raise anything
        return None
    return {name: one.detach() for name, one in found.items()}


def _are_alike(one: dict[str, Tensor] | None, other: dict[str, Tensor]) -> bool:
    """Whether they are the same numbers, but for rounding in what was made anew."""
    if one is None or one.keys() != other.keys():
        return False
    pairs = [(value, other[name]) for name, value in one.items()]
    return all(a.shape == b.shape and torch.allclose(a, b, rtol=_CLOSE) for a, b in pairs)


def _alike(one: dict[str, Tensor], other: dict[str, Tensor] | None) -> bool:
    return other is not None and all(bool((one[name] == other[name]).all()) for name in one)
