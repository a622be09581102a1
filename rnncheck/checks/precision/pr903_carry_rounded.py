"""The state is stored in a narrower dtype than it is computed in.

Checks
    Every state of a recurrent module whose parameters are float32 (or wider) is followed: as the
    module wrote it, as it left the policy, as the next step and the collected batch hold it, as the
    training batch holds it. Each is held against the exact value of that step: one that is the
    exact value rounded to bfloat16 or float16 was computed well and stored in less. The primer's
    dtype counts too.

Why it matters
    The rounding is added at every step and carried on. Acting, which stores the state between
    steps, then runs another recurrence than training, which keeps it inside; a slowly changing
    state stops changing at all.

Says nothing when
    the module is in that dtype as a whole (its parameters are), or its states are computed in it
    (PR901). A memory that saves space is a choice: it is a warning.

Fix
    Store the state in the dtype of the parameters: in the primer, in the module's
    ``("next", key)``, in transforms and in the replay buffer's storage. Or run the whole module in
    the narrow dtype.

Example
    TensorDictPrimer({"h": Unbounded(shape=(64,), dtype=torch.float32)}, expand_specs=True)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.precision.levels import NARROW, stored_in, stored_states
from rnncheck.checks.precision.streams import EARLY, Stream, rerun, streams
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule, Unanswered
from rnncheck.numerics.rounding import BITS, FLOAT32_BITS
from rnncheck.pipeline.backends.precision import parameter_dtypes, widest
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Severity, Source, Stage


@dataclass(frozen=True)
class Rounded:
    """A state that is narrower from here on."""

    stream: Stream
    key: Key
    dtype: torch.dtype
    place: str
    source: Source | Stage
    on: str


def run(evidence: Evidence) -> Judgement:
    """Every state of every recurrent module that computes in float32 or more."""
    wide = [stream for stream in streams(evidence) if computes_wide(stream)]
    if not wide:
        raise NotApplicable("every recurrent module is in a narrow dtype as a whole")
    findings, compared = [], 0
    for stream in wide:
        for key in stream.carrier.keys:
            compared += EARLY
            found = next(_narrowed(evidence, stream, key), None)
            findings += [_observed(found)] if found else []
    note = "" if findings else "states are stored in the dtype that they are computed in"
    return Judgement(tuple(findings), compared, note)


def computes_wide(stream: Stream) -> bool:
    """The module's parameters, or without any its inputs, are float32 or wider."""
    dtypes = parameter_dtypes(stream.carrier.module)
    if dtypes:
        return all(BITS.get(one, FLOAT32_BITS) >= FLOAT32_BITS for one in dtypes)
    inputs = [v for k, v in stream.steps.read[0].items(True, True) if k not in stream.carrier.keys]
    return BITS[widest(inputs)] >= FLOAT32_BITS


def _narrowed(evidence: Evidence, stream: Stream, key: Key) -> Iterator[Rounded]:
    """The places where a state loses bits, in the order in which it passes them."""
    subject, new, heads = stream.subject, next_key(key), f"{EARLY} steps of episode heads"
    source = subject.stage
    dtype = stored_states(stream).get(new)
    if dtype is not None:
        yield Rounded(stream, key, dtype, f"{stream.name} writes it", source, heads)
    left = [one[new] for one in stream.steps.left if new in one]
    exact = rerun(stream, stream.steps.read[:EARLY])
    dtype = stored_in(left[:EARLY], exact, new) if len(left) >= EARLY else None
    if dtype is not None:
        yield Rounded(stream, key, dtype, f"the {subject.stage} hands it on", source, heads)
    if not left or any(_held_in(torch.stack(left), dtype) for dtype in NARROW):
        return  # states that are such numbers by nature, as counts are
    first = evidence.env.first.get(key, None)
    if first is not None and first.dtype in NARROW:
        yield Rounded(stream, key, first.dtype, "the env's reset gives it", Stage.ENV, "a reset")
    dtype = _kept_in(_recorded(evidence), key)
    if dtype is not None:
        yield Rounded(
            stream, key, dtype, "the collected steps hold it", Stage.ENV, "the collected data"
        )
    dtype = _kept_in(evidence.pipeline.samples, key)
    if dtype is not None:
        yield Rounded(
            stream, key, dtype, "the training batch holds it", Stage.REPLAY, "the samples"
        )


def _recorded(evidence: Evidence) -> list[TensorDictBase]:
    try:
        return [rows.data for rows in evidence.recording.batches if not rows.random]
    except Unanswered:
        return []


def _kept_in(data: Sequence[TensorDictBase], key: Key) -> torch.dtype | None:
    """The narrow dtype that holds all states of ``data`` without loss."""
    found = [td.get(key) for td in data if key in tensor_keys(td)]
    return next((d for d in NARROW if found and all(_held_in(v, d) for v in found)), None)


def _held_in(values: Tensor, dtype: torch.dtype) -> bool:
    """``dtype`` holds these values without loss; a few round numbers are no evidence."""
    wide = values.detach().double()
    return len(wide.unique()) > 2 * EARLY and bool((wide.to(dtype).double() == wide).all())


def _observed(found: Rounded) -> Observation:
    name = str(found.dtype).removeprefix("torch.")
    return Observation(
        stage=found.stream.subject.stage,
        message=f"{dotted(found.key)} is computed in float32 and kept in {name}: {found.place} so",
        key=dotted(found.key),
        quantity=f"significant bits of {dotted(found.key)}",
        measured=float(BITS[found.dtype]),
        on=found.on,
        bound=float(FLOAT32_BITS),
        bound_formula="those of the dtype that it is computed in",
        cause=f"a primer, a cast or a storage of {name}",
        fix=(
            "keep the state in float32 from step to step, or run the whole module in the narrow"
            " dtype"
        ),
        source=found.source,
    )


RULE = Rule(
    code="PR903",
    name="carry-rounded",
    holds="the state is kept in the dtype that it is computed in",
    severity=Severity.WARNING,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
    as_set=True,
)
