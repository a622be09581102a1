"""A run that is measured: its random numbers are those of its seed, and nobody else's."""

from __future__ import annotations

import torch

from rnncheck.pipeline.subject.modes import measuring


def test_a_run_draws_what_torch_draws_with_its_seed_and_leaves_the_rest_alone() -> None:
    torch.manual_seed(11)
    before, theirs = torch.rand(5), torch.rand(5)
    torch.manual_seed(7)
    expected = torch.rand(5)
    torch.manual_seed(11)
    assert torch.equal(torch.rand(5), before)
    with measuring(recurrent=False, seed=7):
        assert torch.equal(torch.rand(5), expected)
    assert torch.equal(torch.rand(5), theirs)
