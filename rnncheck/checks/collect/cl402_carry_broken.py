"""The recorded state at t+1 is not the next state of t.

Checks
    Inside every recorded trajectory the stored state at each step is held, bit for bit, against ``("next", key)``
    of the step before it.

Why it matters
    The policy acts on another state than it computed: one of another env, an older one, one that a partial reset
    wiped, one rounded to a narrower dtype on its way.

Says nothing when
    the data holds no state at all (CL401, WR103), or no trajectory has two neighbouring steps.

Fix
    Let ``step_mdp`` or the collector move ``("next", key)`` to ``key``; do not touch other envs' rows at a reset.

Example
    td = env.step_mdp(td)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rnncheck.checks.evidence import Evidence
from rnncheck.checks.rule import Judgement, Rule, Vacuous
from rnncheck.numerics.difference import Difference, bits_differ, gap, locate
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.pipeline.recorded import Joint, Rows
from rnncheck.pipeline.subject import next_key
from rnncheck.results.model import Finding, Severity, Stage, Where


@dataclass(frozen=True)
class Break:
    """Where a stored state is not the one handed on; ``count`` of ``of`` joints are broken."""

    key: Key
    batch: int
    difference: Difference
    count: int
    of: int


def run(evidence: Evidence) -> Judgement:
    """Neighbouring steps of every batch."""
    recording, breaks, joints = evidence.recording, list[Break](), 0
    for number, rows in enumerate(recording.batches):
        inside = (rows.joints[:, 1:] == Joint.CONTINUES) & rows.valid[:, 1:]
        for key in evidence.policy.carry:
            pair = handed_on(rows, key)
            if pair is None or not bool(inside.any()):
                continue
            joints += int(inside.sum())
            found = broken(key, number, pair, inside)
            breaks += [found] if found else []
    if not joints:
        raise Vacuous("the data holds no state beside its next state in neighbouring steps")
    worst = max(breaks, key=lambda b: b.count, default=None)
    findings = (_finding(evidence, worst),) if worst else ()
    return Judgement(findings, joints, f"{joints} states are handed on unchanged")


def handed_on(rows: Rows, key: Key) -> tuple[Tensor, Tensor] | None:
    """The next states and the states that should equal them, ``[rows, steps - 1, ...]``."""
    after, here = rows.data.get(next_key(key), None), rows.data.get(key, None)
    if after is None or here is None or after.shape != here.shape:
        return None
    return after[:, :-1], here[:, 1:]


def broken(key: Key, number: int, pair: tuple[Tensor, Tensor], inside: Tensor) -> Break | None:
    """The break of one key in one batch, if there is one."""
    after, here = pair
    wide = inside.reshape(*inside.shape, *([1] * (here.ndim - 2)))
    differ = bits_differ(here, after.to(here.dtype)) & wide
    if not bool(differ.any()):
        return None
    gaps = torch.where(differ, gap(here, after).clamp_min(1e-300), 0.0)
    difference = locate(gaps, 0.0, after)
    assert difference is not None
    count = int(differ.flatten(2).any(-1).sum())
    return Break(key, number, difference, count, int(inside.sum()))


def _finding(evidence: Evidence, worst: Break) -> Finding:
    d = worst.difference
    return Finding(
        code="CL402",
        stage=Stage.COLLECT,
        message=f"the stored {dotted(worst.key)} is not the next state of the step before it, "
        f"at {worst.count} of {worst.of} joints",
        key=dotted(worst.key),
        quantity=f"max abs difference of {dotted(worst.key)} at t+1 and next.{dotted(worst.key)} at t",
        measured=d.worst,
        on=f"{worst.of} pairs of neighbouring steps",
        bound=0.0,
        bound_formula="the same to the bit",
        passing_bound=d.worst,
        where=Where((worst.batch, d.row), d.step + 1, d.feature, first_step=d.first_step + 1),
        cause="the collector, a transform or a partial reset replaces the state between two steps, "
        "or time is not the last dimension of the data",
        fix="move ('next', key) to key with step_mdp, for every env, and leave it alone at other envs' resets",
        source=evidence.pipeline.source(Stage.COLLECT),
    )


RULE = Rule(
    code="CL402",
    name="carry-broken",
    severity=Severity.ERROR,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
