"""What the script's own lines made of a batch and kept beside it, as a value estimator."""

from __future__ import annotations

import dis
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.instruments.own_estimates import OwnEstimates
from rnncheck.pipeline.keys import Key, tensor_items
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.watching.forms.by_numbers import bare
from rnncheck.watching.forms.same_numbers import same_numbers
from rnncheck.watching.seams.ahead_lines import ways_to
from rnncheck.watching.seen import Acting, Called, HeldBeside, Sightings

_KIND = "your lines ahead of the loss"
_ACCESS = re.compile("LOAD|STORE")
_WAYS = 12  # ways to one variable that are tried


def estimates_beside(seen: Sightings, acting: Acting, loss: Called) -> tuple[Called | None, str]:
    """The lines that made what the loss reads beside its batch, as an estimator, proved by what
    they give again; and the first variable of which no such lines were found."""
    names = set(names_read(loss.module))
    for site in seen.beside:
        wanted = [
            name
            for name in site.values[0]
            if name in names and not _is_collected(site.values[0][name], acting)
        ]
        if wanted:
            return _made_at(site, wanted, acting)
    return None, ""


def names_read(function: Any) -> Iterator[str]:
    """All that lines of the script's read and do not make themselves."""
    function = bare(function)
    if isinstance(function, partial):
        yield from function.keywords
        for one in (function.func, *function.args, *function.keywords.values()):
            yield from names_read(one)
    elif isinstance(function, FunctionType):
        code, given = function.__code__, function.__kwdefaults__ or {}
        yield from (name for name in given if _is_read_first(code, name))
        yield from _names_in(code)


def _is_read_first(code: CodeType, name: str) -> bool:
    """Whether the first mention of a variable is no store to it."""
    for one in dis.get_instructions(code):
        named = one.argval if isinstance(one.argval, tuple) else (one.argval,)  # two in one
        if name in named and (does := _ACCESS.findall(one.opname)):
            return str(does[min(named.index(name), len(does) - 1)]) == "LOAD"
    return False


def _names_in(code: CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names_in(one)


def _is_collected(value: Tensor, acting: Acting) -> bool:
    """Whether it is an entry of a batch that was collected."""
    return any(
        one.numel() == value.numel() and torch.equal(one.flatten().to(value), value.flatten())
        for batch in (*acting.batches, *acting.further)
        for _, one in tensor_items(batch)
    )


def _made_at(site: HeldBeside, wanted: list[str], acting: Acting) -> tuple[Called | None, str]:
    for batch in _whole_batches(site, acting):
        given = [one[batch] for one in site.batches if batch in one]
        ways: dict[str, Callable[[TensorDictBase], Any]] = {}
        for name in wanted:
            found = _way_to(site, name, batch, given)
            if found is not None:
                ways[name] = found
        if ways:
            keys: list[Key] = [(name,) for name in ways]
            module = OwnEstimates(partial(_beside, ways), keys, recurrent=None, within=nullcontext)
            code = next(iter(ways.values())).__code__
            called = Called(module, site.place, site.modes, given, own=code, kind=_KIND)
            return called, next((name for name in wanted if name not in ways), "")
    return None, wanted[0]


def _whole_batches(site: HeldBeside, acting: Acting) -> list[str]:
    """Names of batches as they were collected."""
    sizes = {one.batch_size for one in acting.batches}
    return [name for name, td in site.batches[0].items() if td.batch_size in sizes]


def _way_to(
    site: HeldBeside, name: str, batch: str, given: list[TensorDictBase]
) -> FunctionType | None:
    """Lines that give again what the variable held."""
    for number, function in enumerate(ways_to(site.scene, name, {batch})):
        if number == _WAYS:
            return None
        if _gives(function, name, given[0], site.values[0][name]):
            return function
    return None


def _gives(function: FunctionType, name: str, batch: TensorDictBase, value: Tensor) -> bool:
    module = OwnEstimates(partial(_beside, {name: function}), [(name,)], recurrent=None)
    try:
        with measuring(recurrent=None, grad=False):
            made = module(batch)
    except Exception:  # lines of the user's may raise anything
        return False
    held = batch.clone().set(name, _of_steps(value, batch))
    return same_numbers(made, held, [(name,)])


def _beside(
    ways: Mapping[str, Callable[[TensorDictBase], Any]], batch: TensorDictBase
) -> TensorDictBase:
    """The batch with what each of the lines gives of it."""
    found = {name: function(batch.clone()) for name, function in ways.items()}
    for name, value in found.items():
        batch.set(name, _of_steps(value, batch))
    return batch


def _of_steps(value: Tensor, batch: TensorDictBase) -> Tensor:
    """``[*batch, 1]``."""
    return value.detach().reshape(*batch.batch_size, 1)
