"""What the script's own lines made of a batch ahead of a loss, as a value estimator: advantages,
returns, targets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.errors import Place, UnrepeatableError
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.instruments.call_loss import form_loss
from rnncheck.pipeline.instruments.own_estimates import OwnEstimates
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.recording.turned import time_last
from rnncheck.pipeline.subject.modes import MEASURING_SEED, measuring
from rnncheck.watching.forms.estimates_beside import estimates_beside
from rnncheck.watching.forms.in_form import lines_ahead, plain_batches
from rnncheck.watching.forms.same_numbers import same_numbers
from rnncheck.watching.forms.time_axis import time_axis
from rnncheck.watching.seams.ahead import made_of
from rnncheck.watching.seams.ahead_lines import shorter_ways_to, ways_to
from rnncheck.watching.seen import KEPT, Acting, Called, MadeAhead, Sightings
from rnncheck.watching.weights import have_changed, instead

KIND = "your lines ahead of the loss"
_DRAW = 7  # any fixed number
_DISTINCT = 8  # numbers that tell an entry, whatever it is called


_NOT_AGAIN = (
    "no lines of one function that make it of a batch could be run again: make it inside the"
    " function that returns the loss, or in a function of the collected batch"
)
_OTHERWISE_MADE = (
    "these lines make other numbers of the same batch when they are run again: it cannot be told"
    " what they draw at random, or keep count of"
)
Within = Callable[[], AbstractContextManager[None]]


class Unmade:
    """Entries of which it was not seen how they are made; ``said`` is the reason."""

    def __init__(self, said: str) -> None:
        self.said = said

    def __call__(self, _td: TensorDictBase) -> TensorDictBase:
        """Raises UnrepeatableError."""
        raise UnrepeatableError(self.said)


def settle_estimates(seen: Sightings) -> None:
    """Note the script's own lines that make what a loss is given beside what was collected as an
    estimator; where these cannot be repeated and the loss reads it, it is said."""
    acting, loss = seen.actor(), seen.loss()
    if acting is None or loss is None or seen.estimator() is not None:
        return
    collected = [*acting.batches, *acting.further]
    if not collected:
        return
    made = made_of(loss.inputs[0], set(tensor_keys(collected[0])))
    wanted = {
        key
        for key in made
        if not _is_collected(key, loss.inputs, collected) and not _weighs_rows(key, loss.inputs)
    }
    found = own_estimates(seen, acting, wanted) if wanted else None
    ahead = found is None and lines_ahead(acting, loss) is not None
    if found is None and wanted and not ahead:
        found = own_estimates(seen, acting, wanted, put_in=True)
    if found is not None:
        seen.estimators.append(found)
        wanted -= set(tensor_keys(found.module(found.inputs[0])))
    elif ahead:
        return
    wanted -= seen.by_buffer
    key = unmade(loss, sorted(wanted))
    while key is not None and _is_drawn(seen, acting, key):
        wanted.discard(key)
        key = unmade(loss, sorted(wanted))
    if found is None and key is None:
        _settle_beside(seen, acting, loss)
    if key is not None:
        module = Unmade(
            f"the loss reads {dotted(key)!r}, which your lines made ahead of it, and "
            + (_OTHERWISE_MADE if _made_otherwise(seen, acting, key) else _NOT_AGAIN)
        )
        seen.estimators.append(
            Called(module, loss.place, loss.modes, [one.exclude(key) for one in loss.inputs])
        )


def _settle_beside(seen: Sightings, acting: Acting, loss: Called) -> None:
    """The same of what a loss of the script's own lines reads beside its batch."""
    if loss.own is None:
        return
    found, lacking = estimates_beside(seen, acting, loss)
    if found is not None:
        seen.estimators.append(_time_last(found, plain_batches(acting)))
    elif lacking:
        module = Unmade(
            f"the loss reads {lacking!r}, which your lines made ahead of it and keep beside the"
            f" batch, and {_NOT_AGAIN}"
        )
        seen.estimators.append(Called(module, loss.place, loss.modes, loss.inputs))


def _is_collected(key: Key, given: list[TensorDictBase], collected: list[TensorDictBase]) -> bool:
    """Whether it is an entry that was collected, under another name and with zeros as padding."""
    values = torch.cat([one.get(key).detach().flatten() for one in given]).unique()
    values = values[values != 0]
    for name in tensor_keys(collected[0]):
        if all(name in tensor_keys(one) for one in collected):
            known = torch.cat([one.get(name).detach().flatten().to(values) for one in collected])
            alike = name[-1] == key[-1] or len(values) >= _DISTINCT
            if alike and bool(torch.isin(values, known).all()):
                return True
    return False


def _weighs_rows(key: Key, given: list[TensorDictBase]) -> bool:
    """Whether it is one number from 0 to 1 for each row, as the weights of prioritised slices are:
    what is made of rewards differs from step to step."""
    for batch in given:
        value = batch.get(key)
        if batch.batch_dims < 2 or value.numel() != batch.numel():
            return False
        rows = value.reshape(batch.shape[0], -1)
        inside = bool(rows.min() >= 0) and bool(rows.max() <= 1)
        if not inside or bool((rows != rows[:, :1]).any()):
            return False
    return True


def own_estimates(
    seen: Sightings, acting: Acting, wanted: set[Key], *, put_in: bool = False
) -> Called | None:
    """The lines that made the ``wanted`` entries, or some of them, as an estimator; proved by what
    they give again. They lead to where the batch is given on or, the latest first, to where
    something is ``put_in``."""
    collected = [*acting.batches, *acting.further]
    known = set(tensor_keys(collected[0])) if collected else set()
    sites = [one for one in seen.ahead if one.scene.done == put_in]
    for site in reversed(sites) if put_in else sites:
        for name, batch in site.batches[0].items():
            keys = [key for key in made_of(batch, known) if key in wanted]
            found = _proved(site, name, keys, collected, _contexts(seen)) if keys else None
            if found is not None:
                collected = plain_batches(acting)
                return _on_more(_time_last(found, collected), collected)
    return None


def _made_otherwise(seen: Sightings, acting: Acting, key: Key) -> bool:
    """Whether lines that can be run again make the entry, with other numbers than it had."""
    return next(_makers(seen, acting, key), None) is not None


def _is_drawn(seen: Sightings, acting: Acting, key: Key) -> bool:
    """Whether lines draw the entry whatever the batch holds, as they do masks of an ensemble's
    heads: it is no number of the batch."""
    for module, given, usual in _makers(seen, acting, key):
        other = _made(module, given.apply(_otherwise))
        anew = _made(module, given, seed=_DRAW)
        if other is not None and anew is not None and same_numbers(other, usual, [key]):
            return not same_numbers(anew, usual, [key])
    return False


def _makers(
    seen: Sightings, acting: Acting, key: Key
) -> Iterator[tuple[OwnEstimates, TensorDictBase, TensorDictBase]]:
    """Lines that make an entry of its form of a batch, that batch, and what they give."""
    collected = [*acting.batches, *acting.further]
    for site in seen.ahead:
        for name, batch in site.batches[0].items():
            value = batch.get(key, None)
            functions = () if value is None else ways_to(site.scene, name, set(site.names))
            given = [batch.exclude(key), *_alike(collected, batch)[:1]]
            for function, one in itertools.product(functions, given):
                module = OwnEstimates(function, [key], recurrent=None, within=nullcontext)
                again = _made(module, one)
                made = None if again is None else again.get(key, None)
                if made is not None and value is not None and made.shape == value.shape:
                    yield module, one, again


def _contexts(seen: Sightings) -> list[Within]:
    """As things are, and with what who acts counted up to the batch: running means that the lines
    update themselves."""
    counted = seen.buffers if have_changed(seen.buffers) else {}
    return [nullcontext, *([partial(instead, counted)] if counted else [])]


def _on_more(found: Called, collected: list[TensorDictBase]) -> Called:
    """With other collected batches of the same form: in one alone an end may be missing."""
    first, keys = found.inputs[0], set(tensor_keys(found.inputs[0]))
    others = [
        one.select(*keys)
        for one in collected
        if one.shape == first.shape
        and keys <= set(tensor_keys(one))
        and not any(same_numbers(one, other, keys) for other in found.inputs)
    ]
    return replace(found, inputs=[*found.inputs, *others][:KEPT])


def _time_last(found: Called, collected: list[TensorDictBase]) -> Called:
    """With time as the last dimension of its batches, whatever the lines have."""
    axis = time_axis(found.inputs[0], collected)
    if axis == found.inputs[0].batch_dims - 1:
        return found
    own = found.module
    module = OwnEstimates(
        own.function, own.keys, recurrent=own.recurrent, axis=axis, within=own.within
    )
    return replace(found, module=module, inputs=[time_last(one, axis) for one in found.inputs])


def _proved(
    site: MadeAhead,
    name: str,
    keys: list[Key],
    collected: list[TensorDictBase],
    contexts: list[Within],
) -> Called | None:
    """Of the ways that give the same again the one that reads most of its batch: what it does not
    read was made before, and stays what it was whatever the batch is. Where none does, since a part
    of the lines keeps count of something, what is behind that."""
    most, best = 0, None
    functions = ways_to(site.scene, name, set(site.names))
    for found in _ways(site, name, keys, collected, functions, contexts):
        reads = _reads(found.module, found.inputs[0], keys)
        if reads > most:
            most, best = reads, found
    shorter = shorter_ways_to(site.scene, name)
    behind = _ways(site, name, keys, collected, shorter, contexts[:1])
    reading = (one for one in behind if _reads(one.module, one.inputs[0], keys))
    return best or next(reading, None)


def _ways(
    site: MadeAhead,
    name: str,
    keys: list[Key],
    collected: list[TensorDictBase],
    functions: Iterator[FunctionType],
    contexts: list[Within],
) -> Iterator[Called]:
    """The ways that give the same again, each on the first batches and in the first mode and
    context in which it does: what runs now may have set another mode than its caller had."""
    made = [one[name] for one in site.batches if name in one]
    given = [[one.exclude(*keys) for one in made], _alike(collected, made[0])]
    for function in functions:
        code = function.__code__
        for within, inputs, recurrent in itertools.product(
            contexts, filter(None, given), (None, True)
        ):
            module = OwnEstimates(function, keys, recurrent=recurrent, within=within)
            if _gives(module, inputs[0], made, keys):
                place = Place(site.place.path, code.co_firstlineno)
                yield Called(module, place, site.modes, inputs, own=code, kind=KIND)
                break


def _reads(module: Any, given: TensorDictBase, keys: list[Key]) -> int:
    """How many entries of the batch change what is made of it."""
    usual, count = _made(module, given), 0
    for key in tensor_keys(given):
        other = given.clone()
        other.set(key, _otherwise(given.get(key)))
        found = _made(module, other)
        count += usual is not None and (found is None or not same_numbers(found, usual, keys))
    return count


def _otherwise(value: Tensor) -> Tensor:
    """Other values of the same kind; no number of the caller's is drawn."""
    if value.dtype == torch.bool:
        return ~value
    if not value.is_floating_point():
        return value.flip(0)
    draw = torch.Generator().manual_seed(_DRAW)
    return value + 1 + torch.rand(value.shape, generator=draw).to(value)


def _made(module: Any, given: TensorDictBase, seed: int = MEASURING_SEED) -> TensorDictBase | None:
    """None where the lines raise."""
    try:
        with measuring(recurrent=None, grad=False, seed=seed):
            made: TensorDictBase = module(given)
    except Exception:  # lines of the user's may raise anything
        return None
    return made


def _alike(collected: list[TensorDictBase], made: TensorDictBase) -> list[TensorDictBase]:
    return [one for one in collected if one.shape == made.shape]


def _gives(module: Any, given: TensorDictBase, made: list[TensorDictBase], keys: list[Key]) -> bool:
    """Whether the entries are again what they were in one of the batches that the script held."""
    again = _made(module, given)
    return again is not None and any(
        same_numbers(again, one, keys) for one in made if one.shape == again.shape
    )


def unmade(called: Called, keys: Iterable[Key]) -> Key | None:
    """The first of the entries that the loss reads: with other numbers there it is another."""
    usual = _total(called, called.inputs[0])
    if usual is None:  # it is told why where it is judged
        return None
    for key in keys:
        other = called.inputs[0].clone()
        other.set(key, _otherwise(other.get(key)))
        found = _total(called, other)
        if found is None or found != usual:
            return key
    return None


def _total(called: Called, batch: TensorDictBase) -> float | None:
    """The sum of the losses; None where it raises."""
    own = isinstance(called.module, nn.Module)
    try:
        with measuring(recurrent=called.modes.recurrent, grad=True):
            loss = (
                copy_of(called.module, "the loss")
                if own
                else OwnLoss(called.module, {}, called.batch)
            )
            return float(form_loss(loss, batch.clone())[0].detach())
    except Exception:  # lines of the user's may raise anything
        return None
