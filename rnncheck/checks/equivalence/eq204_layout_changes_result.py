"""Flat, [B, T], 3-d, non-contiguous or one-row input give different numbers.

Checks
    The same episode heads are run in recurrent mode laid out flat, as [B, T], with one row, as a
    transposed view and (for stock modules and envs with two batch dimensions) in 3-d; each must
    give what the isolated replay gives. Rows begin at a trajectory's start in every layout.

Why it matters
    A collector gives [T] or [N, T], a slice sampler gives flat batches, a padded one [B, T]. A
    module that takes the wrong dimension for time runs on all of them, and is right on one.

Says nothing when
    the module has no recurrent mode. A layout that raises is left out: that is loud enough. A pass
    that lines of the script make themselves gets as many rows as it is written for, and modules of
    its own are laid out flat where the script is seen to do that.

Fix
    Time is the last batch dimension: index it with ``[..., t, :]``, never with ``[:, t]`` or
    ``[t]``.

Example
    for t in range(x.shape[-2]): ...x[..., t, :]...
"""

from __future__ import annotations

from collections.abc import Iterator

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.comparison import Mismatch, mismatches
from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.observations import mismatch_observed
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import as_rows, needs_recurrence, recurrent_outputs
from rnncheck.checks.rule import Deferred, Judgement, Observation, Rule
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.passes import run_recurrent
from rnncheck.pipeline.subject.stock import is_stock
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.pipeline.subject.training_pass import TwoPasses
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Every layout of policy and critic."""
    findings: list[Observation] = []
    tried: list[str] = []
    for subject in evidence.subjects:
        needs_recurrence(evidence, subject)
        made = constructed(evidence, subject, max(2, constructed(evidence, subject).rows))
        usual = _mismatch(evidence, subject, constructed(evidence, subject), None)
        if usual is not None:
            raise Deferred("the usual layout is wrong already", "EQ201")
        for name, batch in layouts(subject, made, flat=_may_be_flat(evidence, subject)):
            found = _mismatch(evidence, subject, made, batch)
            if isinstance(found, Mismatch):
                findings.append(_observed(subject, made, found, name))
                break
            tried += [name] if found is None else []
    return Judgement(tuple(findings), len(tried), ", ".join(dict.fromkeys(tried)))


def _may_be_flat(evidence: Evidence, subject: Subject) -> bool:
    """Whether batches of one dimension come to it: a script presents its modules with those that it
    is seen to, and what is its own may be written for these alone."""
    seen = [*evidence.pipeline.batches, *evidence.pipeline.samples]
    flat = any(one.batch_dims == 1 for one in seen)
    return flat or not evidence.pipeline.as_seen or _is_stock(subject)


def layouts(
    subject: Subject, made: Constructed, *, flat: bool = True
) -> Iterator[tuple[str, TensorDictBase]]:
    """The constructed batch in every layout that a pipeline may present."""
    batch = made.batch(subject)
    yield "[B, T]", batch
    told = isinstance(subject.module, TwoPasses) and subject.module.of_the_loss
    if not told:  # lines of a script get as many rows as these were written for
        if flat:
            yield "flat", batch.reshape(-1)
        yield "one row", batch[:1]
    yield "transposed view", batch.apply(_time_major)
    if _is_stock(subject) or subject.rank > 1:
        yield "3-d", batch.unsqueeze(0)


def _is_stock(subject: Subject) -> bool:
    return all(is_stock(one.module) for one in subject.carriers)


def _time_major(value: Tensor) -> Tensor:
    return value.transpose(0, 1).contiguous().transpose(0, 1)


def _mismatch(
    evidence: Evidence, subject: Subject, made: Constructed, batch: TensorDictBase | None
) -> Mismatch | bool | None:
    """The worst mismatch of one layout, None when it agrees, False when it raises."""
    if batch is None:
        out: TensorDictBase = recurrent_outputs(evidence, subject, made)
    else:
        try:
            result = run_recurrent(subject, batch)
            rows = batch.numel() // made.steps
            out = as_rows(result, made.starts[:rows].shape)
        except Exception:  # loud enough
            return False
    rows = out.shape[0]
    oracle = None if made.oracle is None else made.oracle[:rows]
    keys = [
        key for key in comparable_outputs(evidence, subject, out) if key in tensor_keys(made.truth)
    ]
    found = mismatches(out, made.truth[:rows], oracle, keys)
    return found[0] if found else None


def _observed(subject: Subject, made: Constructed, found: Mismatch, name: str) -> Observation:
    return mismatch_observed(
        subject,
        made,
        found,
        message=f"recurrent mode on the layout '{name}' gives other numbers than on the usual one",
        cause="the module takes another dimension for time or rows than the last batch dimension",
        fix="index time with [..., t, :] and fold all earlier batch dimensions into rows",
    )


RULE = Rule(
    code="EQ204",
    name="layout-changes-result",
    holds="the layout of a batch changes nothing",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
