"""Curves over the steps: recorded against replayed, the fading of a wrong state, errors."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.trajectory_replay import (
    Replayed,
    acted_mismatch,
    compared_keys,
    replayed,
)
from rnncheck.checks.precision.pr902_drift import curves
from rnncheck.checks.precision.streams import streams
from rnncheck.checks.rule import CouldNotLook
from rnncheck.numerics.difference import gap
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.passes import StartStates, unroll_subject
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.exhibits import MOST_STEPS, Curves, Line

DIGITS_SHOWN = 4  # significant ones that are stored


def recorded_against_replayed(evidence: Evidence) -> list[Curves]:
    """Output and state of the trajectory that is farthest from its replay."""
    found = acted_mismatch(evidence)
    if found is None:
        raise CouldNotLook("what was recorded is the sequential policy's")
    item, worst = found
    parts = worst.difference.first_step
    return [
        _both(item, key, parts)
        for key in [worst.key, *map(next_key, evidence.policy.carry)]
        if key in tensor_keys(item.recorded) and key in tensor_keys(item.truth)
    ][:2]


def _both(item: Replayed, key: Key, parts: int) -> Curves:
    begin = max(0, min(parts - MOST_STEPS // 4, item.truth.shape[1] - MOST_STEPS))
    lines = [
        steps_line(name, _norms(td.get(key))[begin : begin + MOST_STEPS], begin)
        for name, td in (("recorded", item.recorded), ("replayed alone", item.truth))
    ]
    return Curves(
        of=f"recorded against replayed, {dotted(key)}",
        over="step of the trajectory",
        unit=f"norm of {dotted(key)}",
        lines=tuple(lines),
        parts_at=float(parts),
    )


def fading_of_zero(evidence: Evidence) -> Curves:
    """What a zero state in the middle of the longest trajectory changes, step by step."""
    item = max(replayed(evidence), key=lambda one: one.truth.shape[1], default=None)
    subject = evidence.policy
    states = [key for key in subject.carry if item and next_key(key) in tensor_keys(item.truth)]
    if item is None or item.truth.shape[1] < 4 or not states:
        raise CouldNotLook("no replayed trajectory holds a state in its middle")
    middle = item.truth.shape[1] // 2
    after = slice(middle, middle + MOST_STEPS)
    right = {key: item.truth.get(next_key(key))[:, middle - 1] for key in states}
    inputs = subject.inputs_of(item.recorded)[:, after]
    starts = torch.zeros(1, inputs.shape[1], dtype=torch.bool)
    key = _shown(evidence, item)
    ran = [
        unroll_subject(subject, inputs, starts, StartStates(first=first)).get(key)
        for first in (right, {name: torch.zeros_like(value) for name, value in right.items()})
    ]
    return Curves(
        of=f"fading of a zero start state, {dotted(key)}",
        over=f"steps since step {middle} of a trajectory",
        unit="largest difference",
        lines=(steps_line(dotted(key), gap(ran[1], ran[0])[0].flatten(1).amax(-1), 0),),
        logarithmic=True,
    )


def _shown(evidence: Evidence, item: Replayed) -> Key:
    keys: list[Key] = compared_keys(evidence, item)
    floats = [key for key in keys if item.truth.get(key).is_floating_point()]
    if not floats:
        raise CouldNotLook("no recorded output is a float")
    return floats[-1]


def errors_by_step(evidence: Evidence) -> list[Curves]:
    """The error against float64 at every step, for each way of computing a module."""
    limit = evidence.pipeline.spec.verify.drift
    return [
        Curves(
            of=f"error against float64, {stream.name}",
            over="step",
            unit="relative error",
            lines=tuple(steps_line(one.name, one.values, 1) for one in curves(stream)),
            logarithmic=True,
            limit=limit,
        )
        for stream in streams(evidence)
    ]


def _norms(value: Tensor) -> Tensor:
    """``[steps]`` of ``[1, steps, ...]``."""
    flat = value[0].double().reshape(value.shape[1], -1)
    norms: Tensor = flat.norm(dim=-1)
    return norms


def steps_line(name: str, values: Tensor, first: int) -> Line:
    """``[steps]`` of values, counted from ``first``."""
    y = [float(f"{float(one):.{DIGITS_SHOWN}g}") for one in values.detach()[:MOST_STEPS]]
    return Line(name, tuple(float(first + i) for i in range(len(y))), tuple(y))
