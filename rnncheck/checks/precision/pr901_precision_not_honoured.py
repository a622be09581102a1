"""What was asked for (ieee, tf32, tf32x3, fast, high-prec, bfloat16) is not what was computed.

Checks
    Each recurrent module's outputs, as it runs inside the whole network and in both modes, are held
    against its own computation in float64 with every narrower cast inside it undone. The size of
    the error tells with how many bits it was computed: it is compared with the error of an honest
    float32, of tf32 and of bfloat16 on the same inputs. What was asked for is the module's
    recurrent_compute_dtype or recurrent_matmul_precision, else set_recurrent_matmul_precision or
    TORCHRL_RNN_PRECISION, else the dtype of its parameters, states and outputs.

Why it matters
    Settings are accepted and ignored: the pad and scan backends take no notice of them, cuDNN uses
    tf32 unless it is told otherwise, a cast or an autocast region inside a module takes bits away
    from everything behind it. The state carries the error from step to step.

Says nothing when
    a tensor-core mode is asked for on the CPU, whose kernels multiply in full float32. bfloat16
    that is declared (by the dtype of the parameters, the states or the outputs, or by an autocast
    region where no precision is set) is taken as asked for. An error that no rounding explains is
    left to the equivalence checks. Where this processor has no kernel for a bfloat16 or float16
    that the policy computes in, nothing runs that could be judged: the reason says so, and
    `rnncheck doctor` what runs here instead.

Fix
    For ieee: keep the module out of autocast, remove the cast, or on CUDA set
    torch.backends.cudnn.allow_tf32 = False. For bfloat16 compute: recurrent_backend="triton", or
    module.to(torch.bfloat16). To make a cast inside your own cell intended, let its parameters, its
    states or its outputs be of that dtype.

Example
    LSTMModule(input_size=4, hidden_size=64, in_key="x", out_key="y",
               recurrent_matmul_precision="ieee")
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.precision.levels import Level, levels
from rnncheck.checks.precision.streams import EARLY, Pass, Stream, streams, watch_streams
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.numerics.rounding import BITS, FLOAT32_BITS, TF32_BITS
from rnncheck.pipeline.backends.precision import AskedPrecision, asked_precision, parameter_dtypes
from rnncheck.pipeline.instruments.casts import Casts
from rnncheck.pipeline.keys import dotted
from rnncheck.results.model import Severity, Stage


@dataclass(frozen=True)
class _Judged:
    """One mode of one module: what was asked of it, and the key whose error says most about it."""

    stream: Stream
    one: Pass
    ask: AskedPrecision
    level: Level | None
    wrong: str = ""  # "coarse", "exact" or nothing
    casts: Casts | None = None  # what takes the bits away, where they are missing

    @property
    def said(self) -> str:
        assert self.level is not None
        return (
            f"{bits_of(self.level):.0f} bits in {self.one.name} ({self.ask.name} by {self.ask.by})"
        )


def run(evidence: Evidence) -> Judgement:
    """Every recurrent module, in both modes."""
    items = [
        [_judge(evidence, stream, one) for one in stream.passes] for stream in streams(evidence)
    ]
    findings = [found for group in items if (found := _observed(group)) is not None]
    flat = [item for group in items for item in group]
    answered = [item for item in flat if item.level is not None]
    unasked = [item for item in flat if item.ask.cannot]
    if not findings and unasked and not any(item.ask.explicit for item in answered):
        raise CouldNotLook(f"{unasked[0].ask.by} cannot be asked here: {unasked[0].ask.cannot}")
    if not answered:
        raise CouldNotLook("no output's error tells one precision from another")
    if not findings:
        evidence.needs_critic()
    note = "computed with " + "; ".join(dict.fromkeys(item.said for item in answered))
    return Judgement(tuple(findings), len(answered) * EARLY, note)


def _judge(evidence: Evidence, stream: Stream, one: Pass) -> _Judged:
    """Measure one mode of one module against what was asked of it."""
    written = [value.dtype for value in stream.steps.wrote[0].values()]
    asked = asked_precision(stream.carrier.module, written, stream.device, recurrent=one.recurrent)
    if asked.cannot:
        return _Judged(stream, one, asked, None)
    found = [(level, _wrong(asked, level)) for level in levels(stream, one) if level.explained]
    telling = [pair for pair in found if pair[1] is not None]
    if not telling:
        return _Judged(stream, one, asked, None)
    level, verdict = max(telling, key=lambda pair: (pair[1] != "", pair[0].error / pair[0].tf32))
    if verdict != "coarse":
        return _Judged(stream, one, asked, level, verdict or "")
    casts = watch_streams(evidence, stream, recurrent=one.recurrent)
    if casts.autocast is not None and not asked.explicit:  # it is how torch is asked for less
        name = str(casts.autocast).removeprefix("torch.")
        excused = AskedPrecision(name, "an autocast region", False, BITS[casts.autocast])
        return _Judged(stream, one, excused, level)
    return _Judged(stream, one, asked, level, verdict, casts)


def _wrong(asked: AskedPrecision, level: Level) -> str | None:
    """``coarse`` for fewer bits than asked, ``exact`` for more than a deliberate reduction, None:
    cannot be told."""
    if asked.explicit and asked.bits < FLOAT32_BITS:
        target = level.tf32 if asked.bits == TF32_BITS else level.bfloat16
        if target < level.APART * level.honest:
            return None
        if level.error < math.sqrt(level.honest * target):
            return "exact"
        return "coarse" if asked.bits == TF32_BITS and level.error > level.bfloat16 / 2 else ""
    if asked.bits < FLOAT32_BITS:
        return ""
    if level.tf32 < level.APART * level.honest:
        return None
    return "coarse" if level.error > math.sqrt(level.honest * level.tf32) else ""


def bits_of(level: Level) -> float:
    """Significant bits of products that make an error of this size."""
    bits = TF32_BITS + math.log2(level.tf32 / max(level.error, level.tf32 * 2.0**-30))
    return min(max(bits, 1.0), float(FLOAT32_BITS))


def _observed(group: list[_Judged]) -> Observation | None:
    """The finding of one module, from the modes in which it is wrong."""
    bad = [item for item in group if item.wrong]
    if not bad:
        return None
    same = [one.one.name for one in bad if (one.wrong, one.ask) == (bad[0].wrong, bad[0].ask)]
    return _found(bad[0], " and ".join(same))


def _found(item: _Judged, modes: str) -> Observation:
    stream, level, coarse = item.stream, item.level, item.casts is not None
    assert level is not None
    tf32 = item.ask.bits >= TF32_BITS
    cause, fix = _exact(item) if item.casts is None else _coarse(item, item.casts)
    return Observation(
        stage=stream.subject.stage,
        message=(
            f"{stream.name} computes with {bits_of(level):.0f} significant bits in {modes}; "
            f"{item.ask.name} was asked for, by {item.ask.by}"
        ),
        key=dotted(level.key),
        quantity=f"error of {dotted(level.key)} against float64, relative to its size",
        measured=level.error,
        on=f"{EARLY} steps of episode heads",
        bound=math.sqrt(level.honest * (level.tf32 if tf32 else level.bfloat16)),
        bound_formula=(
            f"{'at most' if coarse else 'at least'} the geometric mean of what float32 and "
            f"{'tf32' if tf32 else 'bfloat16'} make of the same inputs"
        ),
        cause=cause,
        fix=fix,
        source=(item.casts and item.casts.line) or None,
        details={
            "honest float32": f"{level.honest:.1e}",
            "tf32": f"{level.tf32:.1e}",
            "bfloat16": f"{level.bfloat16:.1e}",
        },
    )


def _coarse(item: _Judged, casts: Casts) -> tuple[str, str]:
    if casts.autocast is not None:
        name = str(casts.autocast).removeprefix("torch.")
        return (
            f"an autocast region computes it in {name}",
            "run the module under torch.autocast(..., enabled=False), or ask for bfloat16 itself",
        )
    reduced = [d for d in parameter_dtypes(item.stream.carrier.module) if BITS.get(d, 24) < 24]
    if reduced:
        name = str(reduced[0]).removeprefix("torch.")
        return (
            f"its parameters are {name}",
            f"drop the setting, or keep the module out of .to({name})",
        )
    if item.stream.device.startswith("cuda") and casts.line is None:
        return (
            "cuDNN and cuBLAS round to tf32 where torch allows it",
            (
                "torch.backends.cudnn.allow_tf32 = False, or recurrent_backend='triton', which"
                " honours it"
            ),
        )
    line = casts.line
    where = f" ({line.path}:{line.line})" if line is not None else ""
    return (
        f"a cast inside the module takes the bits away{where}",
        "remove the cast; if it is meant, give the parameters, states or outputs that dtype",
    )


def _exact(item: _Judged) -> tuple[str, str]:
    backend = getattr(item.stream.carrier.module, "recurrent_backend", "pad")
    if item.ask.bits == BITS[torch.bfloat16]:
        return (
            f"the {backend} backend ignores it: only triton's kernels know a compute dtype",
            (
                "recurrent_backend='triton' on CUDA, module.to(torch.bfloat16), or leave the"
                " setting out"
            ),
        )
    return (
        f"the {backend} backend ignores it, or torch does not allow tf32 here",
        "recurrent_backend='triton', or torch.backends.cudnn.allow_tf32 = True",
    )


RULE = Rule(
    code="PR901",
    name="precision-not-honoured",
    holds="the precision is the one that was asked for",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
    as_set=True,
    dear=True,
)
