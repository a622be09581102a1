"""What a study of the memory found, in the same words for every format; ASCII."""

from __future__ import annotations

from collections.abc import Iterator

from rnncheck.printable import counted
from rnncheck.report.text import DIGITS, clean, number
from rnncheck.results.memory import (
    AtLag,
    Estimated,
    InfluenceCurve,
    InfluenceMatrix,
    MemoryResult,
    ReplayCurve,
    ReturnEffect,
    ReturnsUnder,
    StateFacts,
)

Section = tuple[str, list[str]]  # a heading and the lines below it
_BAR = 16  # cells of the longest bar: chosen, beside figures in 80 columns
_ROWS = 12  # of a curve: chosen, what one look takes in; the others are in the JSON
_SHADES = " .:-=+*#%@"


def memory_sections(found: MemoryResult, *, verbose: bool = False) -> list[Section]:
    """The answers, question by question; ``verbose`` gives every curve and the matrix."""
    sections = [
        ("in short", [memory_sentence(found)]),
        ("does it matter?", list(_returns(found.returns))),
        ("how far back?", list(_influence(found, verbose))),
        ("what is the state?", [line for one in found.states for line in _state(one)]),
        ("what does replay lose?", [line for one in found.replay for line in _replay(one)]),
        ("what to do", list(_advice(found))),
        ("found", list(_findings(found))),
        ("could not be told", [clean(one) for one in found.untold]),
    ]
    return [(heading, lines) for heading, lines in sections if lines]


def memory_sentence(found: MemoryResult) -> str:
    """What it came to, for the last line."""
    under = next((one for one in found.returns if one.treatment == "reset every step"), None)
    parts = []
    if under is not None and under.effect is not None:
        words = {
            ReturnEffect.WORSE: "memory matters",
            ReturnEffect.SAME: "does as well without memory",
            ReturnEffect.BETTER: "does better without memory",
            ReturnEffect.UNCLEAR: "unclear whether memory matters",
        }
        parts.append(words[under.effect])
    if (curve := found.main_curve) is not None:
        parts.append(f"horizon {horizon_of_curve(curve)}")
    return ", ".join(parts) or "nothing was measured"


def horizon_of_curve(curve: InfluenceCurve) -> str:
    """The horizon in words; the longest lag that was looked at is said where it is that."""
    steps = counted(curve.horizon, "step")
    return f"{steps} (the longest looked at)" if curve.horizon == curve.longest else steps


def interval(found: Estimated, digits: int = DIGITS) -> str:
    """``3.11 [3.05, 3.2]``."""
    value, low, high = (number(one, digits) for one in (found.value, found.low, found.high))
    return f"{'at least ' if found.beyond else ''}{value} [{low}, {high}]"


def _returns(found: tuple[ReturnsUnder, ...]) -> Iterator[str]:
    if not found:
        return
    widest = max(len(one.treatment) for one in found)
    means = [one.mean for one in found]
    low = min(0.0, *means)
    span = max(max(means) - low, 1e-30)
    for one, mean in zip(found, means, strict=True):
        bar = "#" * round(_BAR * (mean - low) / span)
        name = clean(one.treatment)
        lost = "" if one.lost is None else f"  loses {interval(one.lost, 3)}, {one.effect}"
        yield f"{name:<{widest}}  {number(mean):>8}  {bar:<{_BAR}}{lost}".rstrip()
    yield f"mean return of up to {len(found[0].returns)} episodes; losses paired by seed, 95 %"


def _influence(found: MemoryResult, verbose: bool) -> Iterator[str]:
    main = found.main_curve
    for curve in found.curves:
        yield from _curve(curve, drawn=verbose or curve is main)
    if found.matrix is not None and verbose:
        yield from matrix_lines(found.matrix)


def curve_name(curve: InfluenceCurve) -> str:
    """``action_value by replacement, through h, agent 1``."""
    how = "an observation replaced" if curve.method == "replaced" else "by gradient"
    through = f", through {clean(curve.through)}" if curve.through else ""
    agent = "" if curve.agent is None else f", agent {curve.agent}"
    return f"{clean(curve.named)}, {how}{through}{agent}"


def _curve(curve: InfluenceCurve, *, drawn: bool) -> Iterator[str]:
    parts = [f"horizon {horizon_of_curve(curve)}"]
    parts += [f"reach {interval(curve.reach)}"] if curve.reach else []
    parts += [f"half-life {interval(curve.half_life)}"] if curve.half_life else []
    yield f"{curve_name(curve)}: {', '.join(parts)}"
    if drawn:
        unit = f"  lag  mean {clean(curve.unit)} [10 %, 90 %], noise {number(curve.noise)}"
        yield from [unit, *_drawn(curve.lags)]


def _drawn(lags: tuple[AtLag, ...]) -> Iterator[str]:
    shown = [one for i, one in enumerate(lags) if i in _spread(len(lags))]
    top = max((one.mean for one in lags), default=0.0) or 1.0
    for one in shown:
        bar = "#" * round(_BAR * one.mean / top)
        span = f"[{number(one.low, 2)}, {number(one.high, 2)}]"
        yield f"  {one.lag:>3}  {number(one.mean, 3):>8}  {bar:<{_BAR}} {span}".rstrip()


def _spread(count: int) -> set[int]:
    """Which of so many rows are shown: the first ones, then ever fewer, and the last."""
    if count <= _ROWS:
        return set(range(count))
    grown = {round((count - 1) ** (i / (_ROWS - 1))) for i in range(_ROWS)}
    return {0, count - 1, *grown}


def matrix_lines(matrix: InfluenceMatrix) -> Iterator[str]:
    """A row for each replaced step, a column for each output; ``|`` where the second episode
    begins."""
    top = max(max(row) for row in matrix.values) or 1.0
    yield f"{clean(matrix.output)}: rows are replaced steps, columns the outputs behind them"
    for i, row in enumerate(matrix.values):
        shades = [_SHADES[min(9, round(9 * value / top))] for value in row]
        line = "".join(shades[: matrix.second]) + "|" + "".join(shades[matrix.second :])
        yield from ["  " + "-" * len(line)] if i == matrix.second else []
        yield f"  {line}".rstrip()


def _state(one: StateFacts) -> Iterator[str]:
    held = "" if one.saturated is None else f", {one.saturated} saturated"
    yield (
        f"{clean(one.named)}: {counted(one.units, 'unit')}{held}, {one.dead} dead, effective rank"
        f" {number(one.rank, 3)}"
    )
    last = len(one.norms) - 1
    yield (
        f"  norm {number(one.norms[0], 3)} at the first step, {number(one.norms[last // 2], 3)} at"
        f" step {last // 2}, {number(one.norms[last], 3)} at step {last}"
    )
    if one.drift is not None:
        yield f"  behind the {one.trained} steps trained on {interval(one.drift)} times as large"


def _replay(one: ReplayCurve) -> Iterator[str]:
    needed = one.burn_in
    told = "" if needed is None else f"burn-in {interval(needed)}"
    if needed is not None and needed.beyond:
        told = f"not within {one.share:.0%} by the end of the longest slice"
    first = one.errors[0].mean if one.errors else 0.0
    yield (
        f"{clean(one.named)}, started from {clean(one.start)}: error {number(first, 3)} at the"
        f" first step, {told}"
    )


def _advice(found: MemoryResult) -> Iterator[str]:
    for one in found.advice:
        now = f" (now {clean(one.now)})" if one.now else ""
        figure = f" {interval(one.figure)}:" if one.figure is not None else ""
        yield f"{one.setting}: {clean(one.advised)}{now}:{figure} {clean(one.because)}"


def _findings(found: MemoryResult) -> Iterator[str]:
    for one in found.findings:
        yield f"warning: {one.name}: {clean(one.message)}"
        yield from [f"  since {clean(one.explained)}"] if one.explained else []
        yield from [f"  fix: {clean(one.fix)}"] if one.fix else []
