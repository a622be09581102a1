"""What to run: the fastest right cell of each shape, for training and for acting, and what would
change the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

from rnncheck.bench.distrust import UNJUDGED
from rnncheck.bench.group import REACHED
from rnncheck.bench.pairs import paired
from rnncheck.results.cells import MIB, CellResult, Phase
from rnncheck.results.recommendation import Recommendation
from rnncheck.results.variant import Variant
from rnncheck.spec.settings import BenchSpec

_MODULE_ARGUMENTS = {  # field of a variant: argument of LSTMModule and GRUModule
    "backend": "recurrent_backend",
    "recompute": "recurrent_recompute",
    "compute_dtype": "recurrent_compute_dtype",
    "matmul_precision": "recurrent_matmul_precision",
    "python_based": "python_based",
}
ACTING = (Phase.ACT,)
TRAINING = (Phase.TRAIN, Phase.FORWARD)  # forward counts where train was not measured


def recommendations(results: Sequence[CellResult], bench: BenchSpec) -> list[Recommendation]:
    """One for training and one for acting, as far as there are cells; each about the sweep's
    largest group."""
    found = []
    for purpose, phases in (("training", TRAINING), ("acting", ACTING)):
        mine = _first_measured(results, phases)
        if mine:
            found.append(_recommended(purpose, mine, bench))
    return found


def _first_measured(results: Sequence[CellResult], phases: Iterable[Phase]) -> list[CellResult]:
    for phase in phases:
        rows = [result for result in results if result.cell.phase is phase and result.counts]
        if rows:
            return rows
    return []


def _recommended(purpose: str, rows: list[CellResult], bench: BenchSpec) -> Recommendation:
    groups = list(dict.fromkeys(row.cell.group for row in rows))
    main = max(groups, key=lambda name: _size(rows, name))
    best = _best([row for row in rows if row.cell.group == main], bench)
    assert best is not None  # the group has a measured row
    mine = [row for row in rows if row.cell.group == main]
    variant = best.cell.variant
    assert isinstance(variant, Variant)  # a sweep has no cell of the policy as it is
    return Recommendation(
        purpose=purpose,
        group=main,
        variant=variant.label,
        gain=best.ratio,
        alone=len({row.cell.variant for row in mine}) == 1,
        arguments=arguments_of(variant),
        compile=variant.compile,
        changes=tuple(_changes(rows, groups, main, best, bench)),
        open=(*_unjudged(best), *_rivals(best, mine, bench), *_more_time(best, mine, bench)),
    )


def _unjudged(best: CellResult) -> Iterator[str]:
    """That nobody looked whether it computes the right numbers."""
    if UNJUDGED in best.distrust:
        yield UNJUDGED


def _rivals(best: CellResult, rows: Sequence[CellResult], bench: BenchSpec) -> Iterator[str]:
    """Those in the group of ``best`` that may be as fast."""
    for row in rows:
        ratio = None if row is best or not _fits(row, bench) else paired(row, best)
        if ratio is not None and ratio.verdict == "unclear":
            said = f"{ratio.value:.2f} times as fast [{ratio.low:.2f}, {ratio.high:.2f}]"
            yield f"{row.cell.variant.label} cannot be told from it: {said}"


def _more_time(best: CellResult, rows: Sequence[CellResult], bench: BenchSpec) -> Iterator[str]:
    """To what its time is known, and what a narrower interval would need: its half shrinks with the
    square root of the rounds of ``best`` and its reference."""
    timing = best.timing
    if timing is None or timing.stopped == REACHED or not timing.relative:
        return
    known = timing.relative
    wanted = bench.interval if known > bench.interval else known / 2
    reference = best.ratio and best.ratio.reference
    timed = [row for row in rows if row is best or row.cell.variant.label == reference]
    spent = sum(sum(row.samples.wall) * row.samples.repetitions for row in timed)
    more = spent * ((known / wanted) ** 2 - 1)
    yield f"its time is known to ±{known:.1%}: ±{wanted:.1%} would need about {more:.0f} s more"


def _size(rows: list[CellResult], group: str) -> float:
    """The work of a group: of two with the same shape the one with resets, as training data has
    them."""
    cell = next(row.cell for row in rows if row.cell.group == group)
    return cell.batch * cell.steps + cell.resets


def _best(rows: list[CellResult], bench: BenchSpec) -> CellResult | None:
    """The fastest right row within the memory limit.

    A row that is not clearly faster than the reference does not displace it: nothing is recommended
    for noise.
    """
    fitting = [row for row in rows if _fits(row, bench)]
    if not fitting:
        return None
    reference = [row for row in fitting if row.ratio is None]
    clear = [row for row in fitting if row.ratio is not None and row.ratio.verdict == "faster"]
    candidates = clear or reference or fitting
    return max(candidates, key=_speed)


def _speed(row: CellResult) -> float:
    return 1.0 if row.ratio is None else row.ratio.value


def _fits(row: CellResult, bench: BenchSpec) -> bool:
    limit = bench.memory_limit
    return limit is None or row.memory is None or row.memory.peak <= limit * MIB


def _changes(
    rows: list[CellResult], groups: list[str], main: str, best: CellResult, bench: BenchSpec
) -> Iterator[str]:
    """Groups in which another variant wins."""
    for group in groups:
        other = _best([row for row in rows if row.cell.group == group], bench)
        if group == main or other is None or other.cell.variant == best.cell.variant:
            continue
        gain = f", {other.ratio.value:.2f} x {other.ratio.reference}" if other.ratio else ""
        yield f"at {group}: {other.cell.variant.label}{gain}"


def arguments_of(variant: Variant) -> dict[str, str]:
    """The arguments of LSTMModule and GRUModule that make ``variant``: those that are not the
    defaults, and the backend."""
    default = Variant()
    names = [field.name for field in fields(Variant) if field.name in _MODULE_ARGUMENTS]
    return {
        _MODULE_ARGUMENTS[name]: str(getattr(variant, name))
        for name in names
        if name == "backend" or getattr(variant, name) != getattr(default, name)
    }
