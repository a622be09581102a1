"""``--claims``: the documentation's statements about backends and precisions, tested on this
machine and policy.

Source of the statements: TorchRL's pages on recurrent backends (pad, scan, triton, auto, recompute,
matmul precision).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rnncheck.bench.pairs import paired
from rnncheck.results.cells import Cell, CellResult, Phase, Ratio, Status
from rnncheck.results.claims import Answer, Claim
from rnncheck.results.compare import ALLOWED
from rnncheck.results.variant import parse_variant

_LABELS = (
    "pad",
    "scan",
    "scan-recompute",
    "scan-compiled",
    "pad-compiled",
    "auto",
    "auto-compiled",
    "triton",
    "triton-ieee",
    "triton-tf32",
    "triton-tf32x3",
)
VARIANTS = tuple(map(parse_variant, _LABELS))
# Two variants within this ratio are equally fast: it is what a gate lets pass, too.
SAME_SPEED = 1 + ALLOWED
# Share below which two peaks of memory are the same. Chosen, not measured: a claim about memory
# that holds by less helps nobody to choose.
NOISE = 0.05
# What TorchRL's pages call close: tf32x3 within one decimal digit of ieee, and tf32 beyond it. Its
# unit roundoff is 2^-22 against 2^-24, a factor of 4, so that a working tf32x3 stays within.
CLOSE = 10


def claim_cells(cells: Sequence[Cell]) -> list[Cell]:
    """What the claims need: training at the sweep's largest shape, with resets."""
    trained = [cell for cell in cells if cell.phase is not Phase.ACT]
    base = max(trained or cells, key=lambda cell: (cell.batch * cell.steps, cell.resets))
    base = replace(base, phase=Phase.TRAIN, steps=max(base.steps, 2))
    return [replace(base, variant=variant) for variant in VARIANTS]


class ClaimRows:
    """The measured rows by the label of their variant."""

    def __init__(self, results: Sequence[CellResult], cells: Sequence[Cell]) -> None:
        wanted = {cell.key for cell in cells}
        self.all = {row.cell.variant.label: row for row in results if row.cell.key in wanted}

    def counting(self, *variants: str) -> list[CellResult] | None:
        """The rows of ``variants``, None where one of them has no speed that counts."""
        rows = [self.all.get(name) for name in variants]
        found = [row for row in rows if row is not None and row.counts]
        return found if len(found) == len(variants) else None

    def missing(self, *variants: str) -> str:
        """Why a row is not there."""
        for name in variants:
            row = self.all.get(name)
            if row is None or not row.counts:
                return (
                    f"{name}: {row.reason or row.status}"
                    if row is not None
                    else f"{name} was not run"
                )
        return ""


Judge = Callable[[ClaimRows], Claim]


def answers(results: Sequence[CellResult], cells: Sequence[Cell]) -> list[Claim]:
    """Every claim with its answer."""
    rows = ClaimRows(results, cells)
    return [judge(rows) for judge in JUDGES]


def _untested(text: str, rows: ClaimRows, *variants: str) -> Claim:
    return Claim(text, Answer.UNTESTED, rows.missing(*variants))


def _said(name: str, ratio: Ratio) -> str:
    return (
        f"{name} is {ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] times as fast as"
        f" {ratio.reference}"
    )


def _faster(text: str, rows: ClaimRows, candidate: str, reference: str) -> Claim:
    """The claim that one variant is faster than another."""
    found = rows.counting(candidate, reference)
    if found is None:
        return _untested(text, rows, candidate, reference)
    ratio = paired(*found)
    if ratio is None:
        return Claim(text, Answer.UNCLEAR, "they share no round")
    answer = {"faster": Answer.HOLDS, "slower": Answer.FAILS}.get(ratio.verdict, Answer.UNCLEAR)
    return Claim(text, answer, _said(candidate, ratio), tuple(row.cell.key for row in found))


def _pad_is_safe(rows: ClaimRows) -> Claim:
    text = "pad is the safe baseline"
    row = rows.all.get("pad")
    if row is None:
        return _untested(text, rows, "pad")
    right = row.status is Status.OK
    why = "it ran, and its numbers are those of the float64 oracle" if right else row.reason
    return Claim(text, Answer.HOLDS if right else Answer.FAILS, why, (row.cell.key,))


def _less_memory(text: str, rows: ClaimRows, candidate: str, reference: str) -> Claim:
    found = rows.counting(candidate, reference)
    if found is None:
        return _untested(text, rows, candidate, reference)
    one, other = (row.memory for row in found)
    if one is None or other is None or not other.peak:
        return Claim(text, Answer.UNTESTED, "this system does not tell a process's peak memory")
    share = one.peak / other.peak
    why = f"{candidate} peaks at {share:.2f} times the memory of {reference}"
    answer = (
        Answer.HOLDS if share < 1 - NOISE else Answer.FAILS if share > 1 + NOISE else Answer.UNCLEAR
    )
    return Claim(text, answer, why, tuple(row.cell.key for row in found))


def _scan_saves_memory(rows: ClaimRows) -> Claim:
    return _less_memory("scan avoids padding's memory", rows, "scan", "pad")


def _scan_compiles(rows: ClaimRows) -> Claim:
    text = "scan is the compile-friendly backend"
    faster = _faster(text, rows, "scan-compiled", "scan")
    if faster.answer is not Answer.HOLDS or rows.counting("pad-compiled", "scan-compiled") is None:
        return faster
    against = _faster(text, rows, "scan-compiled", "pad-compiled")
    return replace(
        against, why=f"{faster.why}; {against.why}", cells=(*faster.cells, *against.cells)
    )


def _triton_is_fastest(rows: ClaimRows) -> Claim:
    text = "triton has the highest throughput on Ampere and newer"
    others = [name for name in ("scan-compiled", "pad") if rows.counting(name)]
    found = [_faster(text, rows, "triton", other) for other in others or ["pad"]]
    order = (Answer.UNTESTED, Answer.FAILS, Answer.UNCLEAR, Answer.HOLDS)
    return min(found, key=lambda claim: order.index(claim.answer))


def _tf32_is_fastest(rows: ClaimRows) -> Claim:
    return _faster("tf32 is the fastest matmul precision", rows, "triton-tf32", "triton-tf32x3")


def _tf32x3_is_close(rows: ClaimRows) -> Claim:
    text = "tf32x3 is close to float32"
    found = rows.counting("triton-tf32x3", "triton-ieee", "triton-tf32")
    if found is None:
        return _untested(text, rows, "triton-tf32x3", "triton-ieee", "triton-tf32")
    errors = [row.accuracy.output if row.accuracy else float("nan") for row in found]
    close = errors[0] <= CLOSE * errors[1] < errors[2]
    why = "errors against float64: tf32x3 {:.1e}, ieee {:.1e}, tf32 {:.1e}".format(*errors)
    return Claim(
        text, Answer.HOLDS if close else Answer.FAILS, why, tuple(r.cell.key for r in found)
    )


def _recompute_trades(rows: ClaimRows) -> Claim:
    text = "recompute=full lowers backward memory for time"
    memory = _less_memory(text, rows, "scan-recompute", "scan")
    if memory.answer in (Answer.UNTESTED, Answer.FAILS):
        return memory
    time = _faster(text, rows, "scan", "scan-recompute")
    answer = memory.answer if time.answer is Answer.HOLDS else time.answer
    return replace(memory, answer=answer, why=f"{memory.why}; {time.why}")


def _auto_is_right(rows: ClaimRows) -> Claim:
    text = "auto picks the right one"
    found = [_auto(text, rows, ""), _auto(text, rows, "-compiled")]
    order = (Answer.FAILS, Answer.UNCLEAR, Answer.HOLDS, Answer.UNTESTED)
    worst = min(found, key=lambda claim: order.index(claim.answer))
    whys = "; ".join(claim.why for claim in found if claim.why)
    return replace(worst, why=whys, cells=tuple(key for claim in found for key in claim.cells))


def _auto(text: str, rows: ClaimRows, compiled: str) -> Claim:
    """Whether nothing that runs in the same compile mode is clearly faster than auto."""
    auto = rows.counting(f"auto{compiled}")
    if auto is None:
        return _untested(text, rows, f"auto{compiled}")
    rivals = [
        row
        for name in ("pad", "scan", "triton")
        for row in rows.counting(f"{name}{compiled}") or []
    ]
    pairs = [(row, paired(row, auto[0])) for row in rivals]
    beaten = [(row, ratio) for row, ratio in pairs if ratio and ratio.low > SAME_SPEED]
    keys = (auto[0].cell.key, *(row.cell.key for row in rivals))
    if not beaten:
        named = ", ".join(row.cell.variant.label for row in rivals)
        return Claim(text, Answer.HOLDS, f"nothing of {named} beats auto{compiled}", keys)
    row, ratio = max(beaten, key=lambda pair: pair[1].value)
    return Claim(text, Answer.FAILS, _said(row.cell.variant.label, ratio), keys)


JUDGES: tuple[Judge, ...] = (
    _pad_is_safe,
    _scan_saves_memory,
    _scan_compiles,
    _triton_is_fastest,
    _tf32_is_fastest,
    _tf32x3_is_close,
    _recompute_trades,
    _auto_is_right,
)
