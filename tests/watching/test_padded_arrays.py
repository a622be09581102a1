"""Gradients at observations of which a script fills rows up, as arrays."""

from __future__ import annotations

import numpy as np
import torch
from tensordict import TensorDict

from rnncheck.watching.forms.graphed_arrays import graph_at_arrays
from rnncheck.watching.forms.held_as import ARRAYS
from rnncheck.watching.forms.plain_calls import OBSERVATION


def test_what_rows_are_filled_up_with_is_no_step() -> None:
    """Behind it the steps of the next row are told."""
    shown = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    batch = TensorDict({OBSERVATION: shown}, [2, 3])
    with graph_at_arrays(batch, [((OBSERVATION,), ARRAYS)]):
        held = shown.detach().numpy()
        blank = np.zeros((1, 4), np.float32)
        rows = torch.tensor(np.concatenate([held[0, :2], blank, held[1]])) * 1
    (given,) = torch.autograd.grad(rows[[1, 2, 3]].sum(), shown)
    assert given.sum(-1).tolist() == [[0, 4, 0], [4, 0, 0]]


def test_rows_of_nothing_are_none() -> None:
    """They may be states as well."""
    shown = torch.ones(2, 3, 4).requires_grad_()
    batch = TensorDict({OBSERVATION: shown}, [2, 3])
    with graph_at_arrays(batch, [((OBSERVATION,), ARRAYS)]):
        rows = torch.tensor(np.zeros((3, 4), np.float32)) * 1
    assert not rows.requires_grad
