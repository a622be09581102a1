"""Modules that tell sequences from steps by whether the batch holds their state, as BenchMARL's
do."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.numerics.perturb import perturbed
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.subject.modes import ModeQueries
from rnncheck.pipeline.subject.passes import run_recurrent
from rnncheck.pipeline.subject.stock import rnn_of
from rnncheck.pipeline.subject.subject import Subject

_STEPS = 3


def switched_by_absence(subject: Subject, first: TensorDictBase) -> bool:
    """Without a state in the batch what is observed early changes what comes later; with it every
    step is alone, or the module raises. One that asks TorchRL for its mode is told by that."""
    if not subject.carry or any(rnn_of(one.module) is not None for one in subject.carriers):
        return False
    batch = _repeated(subject, first)
    with ModeQueries() as queries:
        whole = _hands_on(subject, batch)
    if queries.count or whole:
        return False
    return _hands_on(subject, batch.exclude(*subject.carry))


def _repeated(subject: Subject, first: TensorDictBase) -> TensorDictBase:
    """A few steps like the env's first one, one trajectory a row."""
    td = first.exclude("next", *subject.carry, *subject.flags)
    for key, value in subject.fresh.items():
        td.set(key, value.reshape((*first.batch_size, *value.shape[1:])))
    whole = td.unsqueeze(-1).expand(*td.batch_size, _STEPS).clone()
    starts = (torch.arange(_STEPS) == 0).expand(whole.batch_size)
    return whole.update(subject.flag_values(starts))


def _hands_on(subject: Subject, batch: TensorDictBase) -> bool:
    """What is observed at the first step changes what is written for the last one; False where the
    module raises, or writes nothing for each step."""
    observed = batch.clone()
    early = (torch.arange(_STEPS) == 0).expand(batch.batch_size)
    for key in subject.changeable_inputs(subject.inputs_of(batch)):
        draw = torch.Generator().manual_seed(6)
        observed.set(key, perturbed(batch.get(key), early, draw))
    try:
        one, other = (_written(subject, td) for td in (batch, observed))
    except Exception:  # the user's module may raise anything
        return False
    at = batch.ndim - 1
    pairs = [(one[key].select(at, -1), other[key].select(at, -1)) for key in one]
    return any(not torch.equal(mine, theirs) for mine, theirs in pairs)


def _written(subject: Subject, td: TensorDictBase) -> dict[Key, Tensor]:
    """The outputs that there are for each step."""
    out = run_recurrent(subject, td)
    found = {key: out.get(key, None) for key in subject.writes if key[0] != "next"}
    lead = td.batch_size
    return {
        key: value
        for key, value in found.items()
        if isinstance(value, Tensor) and value.shape[: len(lead)] == lead
    }
