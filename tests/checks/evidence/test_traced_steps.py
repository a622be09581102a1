"""Which step each position of a pass shows, for what a loss may make of its batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rnncheck.checks.evidence.traced_steps import Shown, arranged, contained
from rnncheck.numerics.codewords import SEVERAL, codewords, decoded

ROWS, STEPS = 3, 4
BATCH = torch.Size([ROWS, STEPS])
WORDS = codewords(2 * BATCH.numel())
Layout = Callable[[Tensor, Tensor], Tensor]

LAYOUTS: dict[str, Layout] = {
    "the batch": lambda root, after: root,
    "the next steps": lambda root, after: after,
    "T+1": lambda root, after: torch.cat([root, after[:, -1:]], 1),
    "time first": lambda root, after: root.transpose(0, 1),
    "flat": lambda root, after: root.flatten(),
    "chunks": lambda root, after: root.reshape(ROWS, 2, 2).flatten(0, 1),
    "cropped": lambda root, after: root[:, 2:],
    "doubled": lambda root, after: root.repeat_interleave(2, 0),
    "both": lambda root, after: torch.cat([root, after]),
    "stacked": lambda root, after: torch.stack([after, root]),
    "padded": lambda root, after: torch.cat([root, torch.full((ROWS, 2), -1)], 1),
    "one step": lambda root, after: after[:, 1],
}


def told(layout: Layout) -> tuple[Tensor, Shown]:
    """The codes of a layout's positions, and what is read off their codewords."""
    codes = torch.arange(2 * BATCH.numel()).reshape(2, *BATCH)
    laid = layout(codes[0], codes[1]).flatten()
    seen = WORDS[laid.clamp_min(0)] & (laid >= 0).unsqueeze(1)
    return laid, arranged(decoded(seen, WORDS), BATCH)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_position_tells_its_step(name: str) -> None:
    laid, steps = told(LAYOUTS[name])
    there = laid >= 0
    assert torch.equal(steps.place >= 0, there)
    assert torch.equal(steps.place[there], laid[there] % BATCH.numel())
    assert torch.equal(steps.next_ones[there], laid[there] >= BATCH.numel())


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_block_holds_every_step_once_at_its_place(name: str) -> None:
    laid, steps = told(LAYOUTS[name])
    values = steps.laid_out(laid.double().unsqueeze(1) + 1)[..., 0]
    assert int(steps.has.sum()) == int((laid >= 0).sum())
    for block, following in enumerate(steps.following):
        want = torch.arange(BATCH.numel()).reshape(BATCH) + 1 + bool(following) * BATCH.numel()
        assert torch.equal(values[block], want * steps.has[block].double())


def test_positions_of_two_steps_are_read_as_none_of_them() -> None:
    frames = WORDS[:4].clone()
    frames[1:] |= WORDS[:3]
    assert decoded(frames, WORDS).tolist() == [0, SEVERAL, SEVERAL, SEVERAL]


def test_what_remembers_more_steps_lies_as_the_pass_before_it() -> None:
    codes = torch.arange(4)
    remembered = torch.stack([WORDS[: t + 1].any(0) for t in range(4)])
    assert contained(codes, remembered, WORDS)
    assert not contained(codes, remembered.flip(0), WORDS)


def test_a_value_laid_out_keeps_its_gradient() -> None:
    steps = told(LAYOUTS["T+1"])[1]
    value = torch.randn(ROWS * (STEPS + 1), 2, requires_grad=True)
    steps.laid_out(value).sum().backward()
    assert value.grad is not None and bool((value.grad == 1).all())
