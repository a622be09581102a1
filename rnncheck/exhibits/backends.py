"""The error of each backend and precision, step by step, on the case in which one of them is
wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rnncheck.checks.equivalence.backend_judge import Divergence, step_errors, values_wrong
from rnncheck.checks.equivalence.backend_trials import Tried, tried_backends
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.exhibits.traces import steps_line
from rnncheck.pipeline.backends.precise import rounding_dtype
from rnncheck.results.exhibits import Curves, Line

_MOST_HELD = 3  # bounds that are drawn beside the errors: chosen, one a precision


def errors_by_backend(evidence: Evidence) -> list[Curves]:
    """For each module of which a backend is wrong: the errors of all that ran the same case."""
    found, tried = list[Curves](), tried_backends(evidence).tried
    seen = set[tuple[str, str]]()
    for one in tried:
        module = _module(one)
        wrong = None if module in seen else values_wrong(one)
        if wrong is not None:
            seen.add(module)
            found.append(_curves(one, wrong, _beside(one, tried)))
    return found


def _beside(wrong: Tried, tried: Sequence[Tried]) -> list[Tried]:
    """What ran the same case, one for each backend and precision; on the module's own weights,
    where it did."""
    module, asked = _module(wrong), (wrong.case.name, wrong.way)
    same = [one for one in tried if (_module(one), one.case.name, one.way) == (module, *asked)]
    by_label = {one.variant.label: one for one in reversed(same) if not one.own}
    by_label |= {one.variant.label: one for one in same if one.own}
    return [by_label[label] for label in dict.fromkeys(one.variant.label for one in same)]


def _module(one: Tried) -> tuple[str, str]:
    return str(one.target.stage), one.target.path


def _curves(wrong: Tried, divergence: Divergence, beside: Sequence[Tried]) -> Curves:
    quantity = divergence.quantity
    lines, held = list[Line](), dict[str, Tensor]()
    for one in beside:
        if (errors := step_errors(one, quantity)) is not None:
            lines.append(steps_line(_name(one), errors[0], 0))
            held.setdefault(_precision(one), errors[1])
    return Curves(
        of=f"error of {quantity} by backend, {wrong.target.name}, {wrong.case.name}",
        over="step",
        unit=f"largest error of {quantity} against float64",
        lines=(*lines, *_limits(held)),
        logarithmic=True,
        parts_at=None if divergence.step is None else float(divergence.step),
    )


def _name(one: Tried) -> str:
    label = one.variant.label
    return label if one.own else f"{label}, {one.facts}"


def _precision(one: Tried) -> str:
    """The precision whose rounding it may have."""
    dtype = rounding_dtype(one.variant, one.how)
    if dtype is torch.float16 and one.variant.dtype == "float32":
        return "tf32"  # judged by float16, whose mantissa has as many bits
    return str(dtype).removeprefix("torch.")


def _limits(held: dict[str, Tensor]) -> Iterator[Line]:
    for name, values in list(held.items())[:_MOST_HELD]:
        yield steps_line(f"held to, {name}", values, 0)
