"""The state at a segment's end differs from the unroll's.

Checks
    After a recurrent pass over episode heads, ``("next", key)`` at the last step of every segment
    is held against the isolated replay's state there. Other steps are not judged: TorchRL writes
    zeros to them.

Why it matters
    The end state is where the next batch, a bootstrap value or a target continues. A wrong one (0
    for every trajectory shorter than the longest, as in torchrl up to 0.12) starts them from a
    memory that never was.

Says nothing when
    recurrent mode writes no state, or the module has no recurrent mode, or its outputs differ
    already (EQ201).

Fix
    Write each segment's own last state at its last step, not the padded one and not the row's.

Example
    td["next", "h"] = torch.stack(states, -2)   # every step's new state
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.checks.equivalence.mode_comparison import beginnings, disagreement
from rnncheck.checks.evidence.comparison import Mismatch, mismatches
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.observations import mismatch_observed
from rnncheck.checks.evidence.random_outputs import random_outputs
from rnncheck.checks.evidence.recurrent_pass import needs_recurrence, recurrent_outputs
from rnncheck.checks.rule import Deferred, Judgement, Observation, Rule
from rnncheck.pipeline.compat import installed, loses_end_states
from rnncheck.pipeline.keys import dotted, tensor_keys
from rnncheck.pipeline.subject.stock import is_stock
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """End states of all segments, for policy and critic."""
    findings: list[Observation] = []
    compared = 0
    for subject in evidence.subjects:
        needs_recurrence(evidence, subject)
        for made, _ in beginnings(evidence, subject):
            if disagreement(evidence, subject, made)[0] is not None:
                raise Deferred("the outputs differ already", "EQ201")
            out = recurrent_outputs(evidence, subject, made)
            written = [next_key(k) for k in subject.carry if next_key(k) in tensor_keys(out)]
            keys = [key for key in written if key not in random_outputs(evidence, subject)]
            found = mismatches(out, made.truth, made.oracle, keys, made.ends)
            compared += len(keys) * int(made.ends.sum())
            if found:
                cause, fix = _blame(subject, found[0], out)
                findings.append(
                    mismatch_observed(
                        subject,
                        made,
                        found[0],
                        message=(
                            f"recurrent mode: {dotted(found[0].key)} at a segment's end is not the"
                            " state there"
                        ),
                        cause=cause,
                        fix=fix,
                    )
                )
                break
    note = f"{compared} end states agree" if compared else "recurrent mode writes no state"
    return Judgement(tuple(findings), compared, note)


def _blame(subject: Subject, worst: Mismatch, out: TensorDictBase) -> tuple[str, str]:
    """Cause and fix: TorchRL's own where its module leaves 0 there, else the user's."""
    at = worst.difference
    lost = not out.get(worst.key)[at.row, at.step].any()
    writers = [one for one in subject.carriers if worst.key in map(next_key, one.keys)]
    if lost and loses_end_states() and all(is_stock(one.module) for one in writers):
        return (
            (
                f"torchrl {installed().public} leaves 0 at the end of a trajectory shorter than the"
                " longest (pytorch/rl issue 3711)"
            ),
            "install torchrl 0.13 or newer",
        )
    return (
        "the end state is taken from the padding, from another step or from the row's end",
        "write every segment's last state at its own last step",
    )


RULE = Rule(
    code="EQ202",
    name="end-state-wrong",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
