"""Whether a tensor was moved and scaled as a whole."""

from __future__ import annotations

import torch

from rnncheck.numerics.affine import moved_as_one

OLD = torch.randn(3, 6, 1, generator=torch.Generator().manual_seed(0))
ALL = torch.ones(3, 6, dtype=torch.bool)


def test_a_normalisation_moves_all_as_one() -> None:
    assert moved_as_one(OLD, 1.3 * OLD - 0.2, ALL, 1e-5)
    assert moved_as_one(OLD, OLD + 1e-7 * torch.randn_like(OLD), ALL, 1e-5)


def test_one_entry_that_moves_otherwise_is_seen() -> None:
    new = 1.3 * OLD - 0.2
    new[1, 2] += 0.05
    assert not moved_as_one(OLD, new, ALL, 1e-5)


def test_steps_that_were_left_out_are_not_asked() -> None:
    old, new = OLD.clone(), 1.3 * OLD - 0.2
    old[:, -2:] = new[:, -2:] = 0.0
    assert moved_as_one(old, new, ALL, 1e-5)


def test_each_feature_has_a_line_of_its_own() -> None:
    wide = torch.cat([OLD, OLD.square()], -1)
    scaled = wide * torch.tensor([2.0, 0.5]) + torch.tensor([0.1, 1.0])
    assert moved_as_one(wide, scaled, ALL, 1e-5)


def test_few_entries_tell_nothing() -> None:
    few = torch.zeros_like(ALL)
    few[0, :4] = True
    assert not moved_as_one(OLD, OLD, few, 1e-5)


def test_what_is_not_finite_is_no_line() -> None:
    new = OLD.clone()
    new[0, 0] = float("inf")
    assert not moved_as_one(OLD, new, ALL, 1e-5)
