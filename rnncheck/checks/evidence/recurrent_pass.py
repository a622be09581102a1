"""Recurrent mode on batches, and whether there is such a mode at all."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.random_outputs import comparable_outputs, random_outputs
from rnncheck.checks.evidence.unrun import unrun
from rnncheck.checks.rule import CouldNotLook, NotApplicable
from rnncheck.numerics.difference import bits_differ
from rnncheck.numerics.perturb import perturbed
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.modes import ModeQueries
from rnncheck.pipeline.subject.passes import RunSettings, StartStates, run_recurrent, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, all_reads, next_key
from rnncheck.pipeline.subject.training_pass import TwoPasses


def as_collected(subject: Subject, batch: TensorDictBase) -> TensorDictBase:
    """A ``[rows, steps]`` batch in the rank that the collector gives: flat for a single env."""
    if subject.rank == 0 and batch.shape[0] == 1:
        return batch[0]
    return batch.reshape(*subject.lead(batch.shape[0]), batch.shape[-1])


def recurrent_outputs(evidence: Evidence, subject: Subject, made: Constructed) -> TensorDictBase:
    """What recurrent mode gives on a constructed batch, as ``[rows, steps]``. Unanswered when it
    raises."""
    return evidence.once("recurrent pass", lambda: _recurrent(evidence, subject, made), made)


def _recurrent(evidence: Evidence, subject: Subject, made: Constructed) -> TensorDictBase:
    return recurrent_rows(evidence, subject, made.batch(subject))


def row_states(evidence: Evidence, subject: Subject) -> frozenset[Key]:
    """States under ``next`` that recurrent mode writes once for a whole row: the row's last one, at
    every step.

    They say nothing of the steps before, so that none of these can be asked for its own.
    """
    return evidence.once(
        "states of whole rows of the", lambda: _row_states(evidence, subject), subject.stage
    )


def _row_states(evidence: Evidence, subject: Subject) -> frozenset[Key]:
    made = constructed(evidence, subject)
    out = recurrent_outputs(evidence, subject, made)
    written = [key for key in map(next_key, subject.carry) if key in tensor_keys(out)]
    values = {key: out.get(key) for key in written}
    return frozenset(
        key
        for key, value in values.items()
        if made.steps > 1 and bool((value == value[:, -1:]).all()) and bool(value.any())
    )


def recurrent_rows(
    evidence: Evidence, subject: Subject, batch: TensorDictBase, dtype: torch.dtype | None = None
) -> TensorDictBase:
    """Recurrent mode on any ``[rows, steps]`` batch, as ``[rows, steps]``."""
    try:
        out = run_recurrent(
            subject, as_collected(subject, batch), settings=RunSettings(dtype=dtype)
        )
    except Exception as error:
        raise unrun(subject, error) from error
    return as_rows(out, batch.shape)


def steps_only(evidence: Evidence, subject: Subject) -> bool:
    """The module never asks for the recurrent mode and treats time as one more batch dimension:
    every step alone, from the state stored beside it, whatever was observed before."""
    return evidence.once(
        "recurrent mode of the", lambda: _steps_only(evidence, subject), subject.stage
    )


def _steps_only(evidence: Evidence, subject: Subject) -> bool:
    made = constructed(evidence, subject)
    with ModeQueries() as queries:
        recurrent_rows(evidence, subject, made.batch(subject))
    if queries.count:
        return False
    flat, whole = made.batch(subject).reshape(-1), recurrent_outputs(evidence, subject, made)
    alone = [unroll_one(subject, flat[i : i + 1]) for i in range(min(8, flat.shape[0]))]
    first = whole.reshape(-1)[: len(alone)]
    together: TensorDictBase = torch.cat(alone)
    keys = set(tensor_keys(first)) & set(tensor_keys(together)) - random_outputs(evidence, subject)
    keys = {key for key in keys if first.get(key).shape == together.get(key).shape}
    alone_too = all(_close(first.get(key), together.get(key)) for key in keys)
    return bool(keys) and alone_too and not _hands_on(evidence, subject, made)


def _hands_on(evidence: Evidence, subject: Subject, made: Constructed) -> bool:
    """What is observed in the first half of a batch changes what comes in the second, and not the
    other way round (as statistics of the batch would). Some trajectory goes on from one to the
    other."""
    inside = (~made.starts).any(0).nonzero().flatten()
    cut = min(inside.tolist(), key=lambda step: abs(step - made.steps // 2), default=0)
    early = torch.arange(made.steps).expand(made.rows, -1) < cut
    whole = recurrent_outputs(evidence, subject, made)
    keys = comparable_outputs(evidence, subject, whole)

    def moved(touched: Tensor) -> bool:
        inputs = made.inputs.clone()
        for key in subject.changeable_inputs(inputs):
            draw = torch.Generator().manual_seed(5)
            limits = evidence.env.limits.get(key)
            inputs.set(key, perturbed(inputs.get(key), touched, draw, limits))
        out = recurrent_rows(evidence, subject, made.batch(subject, inputs))
        differ = (bits_differ(out.get(key), whole.get(key)) for key in keys)
        return any(bool(one[~touched].any()) for one in differ)

    return moved(early) and not moved(~early)


def needs_recurrence(evidence: Evidence, subject: Subject) -> None:
    """Unanswered when the module has no recurrent mode that could be judged."""
    if steps_only(evidence, subject):
        if drawn := _drawn(evidence, subject):
            raise CouldNotLook(
                f"all that the {subject.stage} carries is drawn anew by every run"
                f" ({', '.join(map(dotted, drawn))}), such as an action that its next step is"
                " given: no two runs can be compared"
            )
        raise NotApplicable(
            f"the {subject.stage} has no recurrent mode: it treats every step of a batch alone, "
            "with the state stored beside it"
        )


def _drawn(evidence: Evidence, subject: Subject) -> list[Key]:
    """The states, where all of them are random."""
    random = random_outputs(evidence, subject)
    states = [next_key(key) for key in subject.carry]
    return states if random.issuperset(states) else []


def declared_reads(module: object) -> set[Key]:
    """Every key that a module or a part of it declares to read."""
    return all_reads(module) if isinstance(module, nn.Module) else set()


def read_by_pass(subject: Subject, td: TensorDictBase) -> TensorDictBase:
    """What a recurrent pass may read of a training batch: a module its root entries, a pass of the
    user's the ends as well."""
    own = isinstance(subject.module, TwoPasses)
    kept = [key for key in tensor_keys(td) if own or key[0] != "next"]
    found: TensorDictBase = td.select(*kept).copy()
    return found


def unroll_one(subject: Subject, step: TensorDictBase) -> TensorDict:
    """One recorded step ``[1]`` alone, with its stored state and flag, in sequential mode."""
    inputs = subject.inputs_of(step).unsqueeze(1)
    flags = [step.get(key).reshape(1, -1).any(-1) for key in subject.flags]
    starts = flags[0] if flags else torch.zeros(1, dtype=torch.bool)
    state = {key: step.get(key) for key in subject.carry}
    return unroll_subject(
        subject, inputs, starts.unsqueeze(1), StartStates(first=state, kept=subject.carry)
    )[:, 0]


def as_rows(td: TensorDictBase, shape: torch.Size) -> TensorDict:
    """Outputs of any layout as ``[rows, steps]``."""
    found = {key: td.get(key) for key in tensor_keys(td)}
    return TensorDict(found, batch_size=td.batch_size).reshape(shape)


def _close(left: Tensor, right: Tensor) -> bool:
    if not left.is_floating_point():
        return bool((left == right).double().mean() > 0.9)
    return torch.allclose(left, right.to(left), rtol=1e-4, atol=1e-5, equal_nan=True)
