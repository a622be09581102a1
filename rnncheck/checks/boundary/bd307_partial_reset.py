"""Some of the carry (one key, one layer, one env) is reset and some is not.

Checks
    At the first reset inside a recurrent batch the output is compared with what each choice of
    reset and kept parts of the state would give; and in the collected data, which parts of the
    stored state are the initial state where a trajectory starts.

Why it matters
    A cell state that survives while the hidden state is zeroed looks like a reset in every log. The
    policy acts on half a memory of another episode.

Says nothing when
    everything is reset, or nothing is (BD301, CL403), or there is one part only.

Fix
    Reset every carry key, every layer and every env in the same place, with the same mask.

Example
    h, c = (torch.where(init, fresh, old) for fresh, old in ((h0, h), (c0, c)))
"""

from __future__ import annotations

from itertools import combinations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.observations import sizes
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import needs_recurrence, recurrent_outputs
from rnncheck.checks.evidence.state_handover import joints
from rnncheck.checks.evidence.trajectory_replay import Unreset, unreset
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule, Unanswered
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.passes import StartStates, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.results.model import Severity, Stage, Where

_Part = tuple[Key, int | None]  # a carry key, and a layer of it
MOST_PARTS = 6


def run(evidence: Evidence) -> Judgement:
    """The recurrent pass of policy and critic, then the recorded states."""
    findings, untold = list[Observation](), list[Unanswered]()
    compared = 0
    for subject in evidence.subjects:
        try:
            finding, count = _in_recurrent_mode(evidence, subject)
        except Unanswered as why:
            untold.append(why)
            continue
        findings += [finding] if finding else []
        compared += count
    recorded, count = in_recording(evidence)
    findings += [recorded] if recorded else []
    note = "resets are whole"
    return Judgement(tuple(findings), compared + count, note, unanswered=tuple(untold))


def _in_recurrent_mode(evidence: Evidence, subject: Subject) -> tuple[Observation | None, int]:
    """Which parts of the state run over the first reset of row 0."""
    needs_recurrence(evidence, subject)
    made = constructed(evidence, subject)
    begins = made.starts[0].nonzero().flatten().tolist()
    if len(begins) < 2:
        return None, 0
    step, seen = begins[1], recurrent_outputs(evidence, subject, made)[0, begins[1]]
    everything = parts(subject)
    outcomes = {kept: _with_kept(subject, made, step, kept) for kept in choices(everything)}
    fits = [kept for kept, out in outcomes.items() if _agree(evidence, subject, seen, out)]
    whole = {(), tuple(everything)}
    if not fits or whole & set(fits):
        return None, 1
    return _observed(subject, made, step, min(fits, key=len)), 1


def parts(subject: Subject) -> list[_Part]:
    """Carry keys, and their layers where a state has several."""
    found: list[_Part] = []
    for key, value in subject.fresh.items():
        layers = value.shape[1] if value.ndim >= 3 and 1 < value.shape[1] <= 4 else 1
        found += [(key, layer) for layer in range(layers)] if layers > 1 else [(key, None)]
    return found


def choices(everything: list[_Part]) -> list[tuple[_Part, ...]]:
    """Subsets of parts that may have been kept; single parts and their complements when there are
    many."""
    count = len(everything)
    sizes_tried = range(count + 1) if count <= MOST_PARTS else (0, 1, count - 1, count)
    return [kept for size in sizes_tried for kept in combinations(everything, size)]


def _with_kept(
    subject: Subject, made: Constructed, step: int, kept: tuple[_Part, ...]
) -> TensorDictBase:
    state = {key: value[0, step : step + 1].clone() for key, value in made.stored.items()}
    for key, layer in kept:
        left = made.truth.get(next_key(key), None)
        if left is None:
            raise CouldNotLook(f"{dotted(next_key(key))} is not written while acting")
        old = left[0, step - 1 : step]
        if layer is None:
            state[key] = old.clone()
        else:
            state[key][:, layer] = old[:, layer]
    never = torch.zeros(1, 1, dtype=torch.bool)
    return unroll_subject(
        subject, made.inputs[:1, step : step + 1], never, StartStates(first=state)
    )[0, 0]


def _agree(evidence: Evidence, subject: Subject, seen: TensorDictBase, out: TensorDictBase) -> bool:
    keys = [k for k in comparable_outputs(evidence, subject, seen) if k in tensor_keys(out)]
    dense = [k for k in keys if seen.get(k).is_floating_point()]
    return bool(dense) and all(_near(seen.get(k), out.get(k)) for k in dense)


def _near(left: Tensor, right: Tensor) -> bool:
    return left.shape == right.shape and torch.allclose(left, right, rtol=1e-4, atol=1e-6)


def _observed(
    subject: Subject, made: Constructed, step: int, kept: tuple[_Part, ...]
) -> Observation:
    names = ", ".join(_name(part) for part in kept)
    others = ", ".join(_name(part) for part in parts(subject) if part not in kept)
    return Observation(
        stage=subject.stage,
        message=f"recurrent mode resets {others} but keeps {names}",
        key=dotted(kept[0][0]),
        quantity="parts of the state that survive a reset",
        measured=float(len(kept)),
        on=sizes(made),
        bound_formula="every part of the state is reset",
        where=Where(batch=(0,), step=step, segment=1, first_step=step),
        cause=f"the reset mask is not applied to {names}",
        fix=f"apply the same mask to {names}",
    )


def _name(part: _Part) -> str:
    key, layer = part
    return dotted(key) if layer is None else f"{dotted(key)} layer {layer}"


def in_recording(evidence: Evidence) -> tuple[Observation | None, int]:
    """Parts that are reset at some recorded starts while others are not."""
    try:
        found = unreset(evidence)
        if joints(evidence)[0]:
            return None, 0  # the carry is broken at other steps too (CL402)
    except Unanswered:
        return None, 0
    bad = [item for item in found if item.stale and item.stale >= (item.behind or item.starts)]
    good = [item for item in found if not item.stale]
    if not bad or not good:
        return None, sum(item.starts for item in found)
    return _recorded_finding(bad[0], good[0]), sum(item.starts for item in found)


def _recorded_finding(bad: Unreset, good: Unreset) -> Observation:
    return Observation(
        stage=Stage.COLLECT,
        message=f"collected data: {bad.name} is not reset at {bad.stale} of {bad.starts} starts, "
        f"{good.name} is at {good.starts - good.stale} of {good.starts}",
        key=dotted(bad.key),
        quantity="starts at which a part of the stored state is not the initial one",
        measured=float(bad.stale),
        bound_formula="every part of the state is reset",
        where=Where(batch=(bad.row,), step=bad.step),
        cause="a reset does not reach every key, layer or env",
        fix="prime every carry key and reset all of it where the env resets",
        source=Stage.ENV,
    )


RULE = Rule(
    code="BD307",
    name="partial-reset",
    holds="a reset takes the whole state",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
