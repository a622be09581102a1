"""A terminated step's target uses the next episode; the terminal observation is lost.

Checks
    The observations after terminated steps (the next observation there and everything behind it) are changed: the
    target of the terminated step must stay the same. And the next observation of a done step must not be the first
    observation of the next episode.

Why it matters
    A target that looks over a terminal state rewards the policy for an episode that it has not played yet.

Says nothing when
    no collected episode terminates, the env's observation never changes, or the spec has no estimator.

Fix
    Pass ``("next", "terminated")`` through, and keep the terminal observation under ``("next", ...)``.

Example
    td = env.step(td); td["next", "observation"]     # before any reset
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.estimates import batches, ended, per_step
from rnncheck.checks.evidence import Evidence
from rnncheck.checks.isolation import observed, segments_of
from rnncheck.checks.lossrun import changed_batch
from rnncheck.checks.rule import Judgement, Rule, Skip, Vacuous
from rnncheck.checks.training import Sample
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.pipeline.recorded import Joint
from rnncheck.pipeline.subject import next_key
from rnncheck.results.model import Finding, Severity, Stage, Where

ROUNDING = 1e-5  # of the largest entry: vectorised sums of rewards round over the whole row
TARGETS = ("value_target", "advantage")


def run(evidence: Evidence) -> Judgement:
    """The recorded ends, then the estimator's targets there."""
    lost, ends = lost_observations(evidence)
    if lost is not None:
        return Judgement((_lost(evidence, lost),), ends)
    compared = 0
    for number, sample in enumerate(_batches(evidence)):
        terminal = ended(sample, "terminated")
        if not bool(terminal.any()):
            continue
        compared += int(terminal.sum())
        where = looks_over(evidence, sample, number, terminal)
        if where is not None:
            return Judgement((_looks_over(evidence, where),), compared)
    if not compared + ends:
        raise Vacuous("no collected episode ends")
    return Judgement((), compared + ends, f"{compared} targets of terminated steps, {ends} ends")


def _batches(evidence: Evidence) -> list[Sample]:
    try:
        return batches(evidence)
    except Skip:
        return []


def lost_observations(evidence: Evidence) -> tuple[Where | None, int]:
    """A done step whose next observation is the reset's, and how many ends were looked at."""
    recording, count, same = evidence.recording, 0, list[Where]()
    keys = [key for key in recording.steady if key in evidence.policy.reads]
    for number, rows in enumerate(recording.batches):
        for row, step in ((rows.joints == Joint.AFTER_DONE)[:, 1:]).nonzero().tolist():
            pairs = [
                (rows.data.get(next_key(k))[row, step], rows.data.get(k)[row, step + 1])
                for k in keys
            ]
            if not pairs or all(_constant(rows.data.get(k)) for k in keys):
                continue
            count += 1
            if not any(bool(bits_differ(a, b).any()) for a, b in pairs):
                same.append(Where((number, row), step, first_step=step))
    return (same[0] if same and 2 * len(same) > count else None), count


def _constant(value: Tensor) -> bool:
    return not bool(bits_differ(value, value[:1, :1].expand_as(value)).any())


def looks_over(evidence: Evidence, sample: Sample, number: int, terminal: Tensor) -> Where | None:
    """The first terminated step whose target changes with what lies behind it; every other segment at a time."""
    base = per_step(evidence, sample, sample.td)
    for parity in (0, 1):
        asked = terminal & (segments_of(sample) % 2 == parity)
        behind = torch.zeros_like(asked)
        behind[:, 1:] = asked[:, :-1]
        after = per_step(evidence, sample, _changed_behind(evidence, sample, asked, behind))
        for name in TARGETS:
            if name not in base or name not in after:
                continue
            if _normalised(base[name], after[name], asked | behind):
                continue
            limit = ROUNDING * float(base[name].abs().max())
            differ = (gap(base[name], after[name]).flatten(2).amax(-1) > limit) & asked
            if bool(differ.any()):
                row, step = differ.nonzero()[0].tolist()
                return Where((number, row), step, first_step=step)
    return None


def _changed_behind(
    evidence: Evidence, sample: Sample, asked: Tensor, behind: Tensor
) -> TensorDictBase:
    """The batch with other next observations at ``asked`` and other observations at ``behind``."""
    keys = observed(evidence, sample)
    changed = changed_batch(sample, asked, [key for key in keys if key[0] == "next"])
    again = changed_batch(sample, behind, [key for key in keys if key[0] != "next"])
    for key in keys:
        if key[0] != "next":
            changed.set(key, again.get(key))
    return changed


def _normalised(old: Tensor, new: Tensor, near: Tensor) -> bool:
    """Everything changed, also far from the ends: the entry is normalised over the batch."""
    limit = ROUNDING * float(old.abs().max())
    far = (gap(old, new).flatten(2).amax(-1) > limit) & ~near
    return int(far.sum()) > 0.5 * int((~near).sum())


def _lost(evidence: Evidence, where: Where) -> Finding:
    return Finding(
        code="VL603",
        stage=Stage.COLLECT,
        message="the next observation of done steps is the first one of the next episode: the terminal one is lost",
        key="next.observation",
        quantity="done steps without their terminal observation",
        measured=1.0,
        bound=0.0,
        bound_formula="none",
        passing_bound=1.0,
        where=where,
        cause="the reset was written over the step's own next entries",
        fix="store ('next', observation) before the env is reset",
        source=evidence.pipeline.source(Stage.COLLECT),
    )


def _looks_over(evidence: Evidence, where: Where) -> Finding:
    return Finding(
        code="VL603",
        stage=Stage.ADVANTAGE,
        message="the target of a terminated step changes with what lies behind the end of its episode",
        key="value_target",
        quantity="targets that look over a terminal state",
        measured=1.0,
        bound=0.0,
        bound_formula="none beyond 1e-5 of the largest target",
        passing_bound=1.0,
        where=where,
        cause="the estimator does not see ('next', 'terminated')",
        fix="pass terminated and done on to the estimator",
        source=evidence.pipeline.source(Stage.ADVANTAGE),
    )


RULE = Rule(
    code="VL603",
    name="bootstraps-over-the-end",
    severity=Severity.ERROR,
    stage=Stage.ADVANTAGE,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
