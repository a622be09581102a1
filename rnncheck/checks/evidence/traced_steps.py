"""Which step of the batch each position of a recurrent pass inside the loss shows.

Found by behaviour, whatever the loss does with its batch before it runs a module: T+1 steps, rows
laid end to end, time first, doubled, cropped. What is observed at each step, and what is observed
next, is changed in the runs of the loss that its codeword names; the runs in which the input at a
position changes spell the step. Positions that show none stay apart; a pass with one that shows
several is left out, unless it reads what an earlier pass of the same layout gave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed, tokens
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, copied, loss_of, run_loss
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.numerics.codewords import NOTHING, SEVERAL, codewords, decoded
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.instruments.module_calls import ModuleCall, ModuleCalls, OtherStates
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.subject.subject import next_key

GRADIENT_AT = "gradient at "


@dataclass(frozen=True)
class Shown:
    """The steps that a pass shows, in blocks that hold each step at most once.

    ``place`` and ``block`` are ``[positions]``: the number of the step in the batch, -1 where none
    is shown, and its block. ``following`` says of each block whether it shows what is observed
    next; None where that was not asked.
    """

    batch: torch.Size  # rows and steps
    place: Tensor
    block: Tensor
    following: tuple[bool | None, ...]

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self.following)

    @cached_property
    def has(self) -> Tensor:
        """``[blocks, rows, steps]``: the step is shown."""
        return self.laid_out(torch.ones(len(self.place), dtype=torch.bool))[..., 0]

    def laid_out(self, value: Tensor) -> Tensor:
        """``[blocks, rows, steps, features]`` of a value of every position; 0 at other steps."""
        flat, there = on_cpu(value).reshape(len(self.place), -1), self.place >= 0
        index = (self.block * self.batch.numel() + self.place)[there]
        empty = flat.new_zeros(self.count * self.batch.numel(), flat.shape[1])
        laid: Tensor = empty.index_put((index,), flat[there])
        return laid.reshape(self.count, *self.batch, -1)

    @cached_property
    def next_ones(self) -> Tensor:
        """``[positions]``: they show what is observed next."""
        return torch.tensor([bool(one) for one in self.following])[self.block] & (self.place >= 0)

    def taken(self, value: Tensor) -> Tensor:
        """Of a value ``[rows, steps, ...]`` of the batch what belongs to each position."""
        return value.flatten(0, 1)[self.place.clamp_min(0)]


def plain(one: ModuleCall, sample: Sample, order: Tensor | None = None) -> Shown | None:
    """The steps of a pass that ran on a batch of the training batch's own shape, its rows in such
    an ``order``."""
    if one.shape != sample.td.shape:
        return None
    place = torch.arange(one.shape.numel())
    if order is not None:
        place = place.reshape(sample.valid.shape)[order].flatten()
    return Shown(sample.rows.shape, place, torch.zeros_like(place), (None,))


def row_orders(evidence: Evidence, sample: Sample) -> dict[int, Tensor]:
    """By number of pass, which row of the batch each of its rows shows, of those that a loss of the
    user's own has mixed: told by the runs in which what is observed in a row is another."""
    return evidence.once("order of rows", lambda: _orders(evidence, sample), sample)


def _orders(evidence: Evidence, sample: Sample) -> dict[int, Tensor]:
    rows, steps = sample.valid.shape
    if rows == 1 or type(loss_of(evidence)).__module__.startswith("torchrl."):
        return {}
    base = passes_of(evidence, sample, sample.td)
    asked = [number for number, one in enumerate(base) if one.shape == sample.td.shape]
    own = torch.arange(1, rows + 1)
    spelt = {number: torch.zeros_like(own) for number in asked}
    for bit in range(rows.bit_length() if asked else 0):
        touched = ((own >> bit) % 2 == 1).unsqueeze(1).expand(rows, steps) & sample.valid
        moved = passes_of(evidence, sample, _changed(evidence, sample, touched.repeat(2, 1)))
        if [one.x.shape for one in moved] != [one.x.shape for one in base]:
            return {}
        for number in asked:
            differ = bits_differ(base[number].x, moved[number].x).reshape(rows, -1).any(1)
            spelt[number] += differ.long().cpu() << bit
        seen = (1 << (bit + 1)) - 1
        if bit and all(torch.equal(code, own & seen) for code in spelt.values()):
            return {}  # two runs leave hardly an order but the batch's
    found = {number: code - 1 for number, code in spelt.items()}
    return {n: one for n, one in found.items() if torch.equal(one.sort().values, own - 1)}


def steps_of_passes(
    evidence: Evidence, sample: Sample, passes: list[ModuleCall]
) -> list[Shown | None]:
    """The steps of each pass of one run of the loss on the sample; None where they cannot be
    told."""
    found = [plain(one, sample) for one in passes]
    if all(one is not None for one in found):
        return found
    told = traced(evidence, sample)
    return [own or told.get(number) for number, own in enumerate(found)]


def traced(evidence: Evidence, sample: Sample) -> dict[int, Shown]:
    """By number of pass, the steps that it shows, those of the batch's own shape too."""
    return evidence.once("steps inside the loss", lambda: _traced(evidence, sample), sample)


def _traced(evidence: Evidence, sample: Sample) -> dict[int, Shown]:
    base = passes_of(evidence, sample, sample.td)
    if any(one.x.shape[: len(one.shape)] != one.shape for one in base):
        return {}
    words = codewords(2 * sample.valid.numel())
    hits = [list[Tensor]() for _ in base]
    for bit in words.T:
        moved = passes_of(evidence, sample, _changed(evidence, sample, bit))
        if [one.x.shape for one in moved] != [one.x.shape for one in base]:
            return {}
        for seen, old, new in zip(hits, base, moved, strict=True):
            seen.append(_rows(bits_differ(old.x, new.x), old).any(1))
    spelt = [torch.stack(seen, 1) for seen in hits]
    found = dict[int, Tensor]()
    for number, one in enumerate(base):
        codes = decoded(spelt[number], words)
        if bool((codes == SEVERAL).any()):
            earlier = [found[n] for n in found if base[n].shape == one.shape]
            codes = next((c for c in earlier if contained(c, spelt[number], words)), codes)
        if not bool((codes == SEVERAL).any()) and bool((codes >= 0).any()):
            found[number] = codes
    return {number: arranged(codes, sample.valid.shape) for number, codes in found.items()}


def arranged(codes: Tensor, batch: torch.Size) -> Shown:
    """Positions by their codes: those of the steps ``[rows, steps]``, then those of the next
    ones."""
    steps, met = batch.numel(), dict[int, int]()
    blocks = dict[tuple[bool, int], int]()
    block = torch.zeros_like(codes)
    for position, code in enumerate(codes.tolist()):
        if code != NOTHING:
            met[code] = met.get(code, -1) + 1
            block[position] = blocks.setdefault((code >= steps, met[code]), len(blocks))
    place = torch.where(codes == NOTHING, -1, codes % steps)
    return Shown(batch, place, block, tuple(following for following, _ in blocks))


def contained(codes: Tensor, spelt: Tensor, words: Tensor) -> bool:
    """Whether each position shows the step that it has in ``codes`` among others: the outputs of
    an earlier pass, which remember more."""
    own = words[codes.clamp_min(0)] & (codes >= 0).unsqueeze(1)
    return bool((own <= spelt).all())


def passes_of(
    evidence: Evidence,
    sample: Sample,
    td: TensorDictBase,
    others: OtherStates | None = None,
    *,
    timing: bool = False,
) -> list[ModuleCall]:
    """The recurrent passes of one run of the loss."""
    with ModuleCalls(others, timing=timing) as inside:
        run_loss(evidence, sample, td, loss=copied(loss_of(evidence)), per_element=False)
    return inside.passes


def inner_outputs(evidence: Evidence, sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
    """What recurrent modules give inside the loss, as per-step entries ``[rows, steps, ...]``."""
    return {
        _named(one, number, block, steps): value
        for number, one, steps in _told(evidence, sample, td)
        for block, value in enumerate(steps.laid_out(one.y.detach()))
    }


def steps_inside(evidence: Evidence, sample: Sample) -> dict[str, Tensor]:
    """By pass inside the loss, which steps ``[rows, steps]`` it shows in any of its parts."""
    return {
        of_pass(_named(one, number, 0, steps)): steps.has.any(0)
        for number, one, steps in _told(evidence, sample, sample.td)
    }


def _told(
    evidence: Evidence, sample: Sample, td: TensorDictBase
) -> Iterator[tuple[int, ModuleCall, Shown]]:
    """The passes inside the loss whose steps can be told, by number."""
    known = evidence.once("passes inside the loss", lambda: _known(evidence, sample), sample)
    for number, one in enumerate(passes_of(evidence, sample, td)):
        steps = known[number] if number < len(known) else None
        if steps is not None and one.shape.numel() == len(steps.place):
            yield number, one, steps


def _named(one: ModuleCall, number: int, block: int, steps: Shown) -> str:
    part = f", part {block + 1}" if steps.count > 1 else ""
    return f"{'.'.join(one.output)} (pass {number + 1}{part})"


def of_pass(name: str) -> str:
    """The name without its part, of what a pass gives or gets."""
    return name.partition(", part ")[0]


def inner_gradients(evidence: Evidence, sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
    """Gradients of the total at what the recurrent modules read inside the loss, as per-step
    entries ``[rows, steps, ...]``."""
    known = evidence.once("passes inside the loss", lambda: _known(evidence, sample), sample)
    with ModuleCalls(probing=True) as inside:
        run = run_loss(evidence, sample, td, loss=copied(loss_of(evidence)), per_element=False)
    asked = [
        (number, one, known[number], one.probe)
        for number, one in enumerate(inside.passes[: len(known)])
        if one.probe is not None and known[number] is not None
    ]
    if not asked or not run.total.requires_grad:
        return {}
    grads = torch.autograd.grad(run.total, [one[-1] for one in asked], allow_unused=True)
    found = dict[str, Tensor]()
    for (number, one, steps, _), grad in zip(asked, grads, strict=True):
        if grad is None or steps is None or one.shape.numel() != len(steps.place):
            continue
        for block, value in enumerate(steps.laid_out(grad)):
            found[f"{GRADIENT_AT}{_named(one, number, block, steps)}"] = value
    return found


def _known(evidence: Evidence, sample: Sample) -> list[Shown | None]:
    return steps_of_passes(evidence, sample, passes_of(evidence, sample, sample.td))


def _rows(value: Tensor, one: ModuleCall) -> Tensor:
    """``[positions, features]``."""
    return value.reshape(one.shape.numel(), -1)


def _changed(evidence: Evidence, sample: Sample, bit: Tensor) -> TensorDictBase:
    """The batch with something else observed at the steps, and next to the steps, whose bit is
    set."""
    here, after = bit.reshape(2, *sample.valid.shape)
    root, following = _seen(evidence, sample)
    rows = changed_batch(sample, here, root).reshape(sample.rows.shape)
    return changed_batch(replace(sample, rows=rows), after, following)


def _seen(evidence: Evidence, sample: Sample) -> tuple[list[Key], list[Key]]:
    """What is observed at a step, and next to it, tokens too."""
    symbols = tokens(evidence, sample)
    every = [*observed(evidence, sample), *symbols, *map(next_key, symbols)]
    keys = [key for key in dict.fromkeys(every) if key in tensor_keys(sample.rows)]
    return [k for k in keys if k[0] != "next"], [k for k in keys if k[0] == "next"]
