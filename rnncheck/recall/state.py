"""What the state is: units at their bound, units that never move, effective rank, norm over the
episode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rnncheck.numerics.paired import bootstrapped
from rnncheck.pipeline.keys import dotted
from rnncheck.recall.measured import EpisodePool, Measured
from rnncheck.results.memory import Estimated, StateFacts

# A tanh unit beyond this passes less than 2 % of its gradient (1 - 0.99^2), and is saturated where
# that is so at 19 of 20 steps: both chosen.
_BOUND, _NEARLY_ALWAYS = 0.99, 0.95
_DEAD = 1e-6  # of the widest unit's deviation: below it is rounding, in float32


def state_facts(measured: Measured, trained: int | None) -> Iterator[StateFacts]:
    """One for each carry key that holds floats; ``trained`` is how many steps a training slice
    has."""
    pool = measured.pool
    begins = set(pool.begins)
    later = torch.tensor([i for i in range(sum(pool.lengths)) if i not in begins])
    for key in measured.states:
        values = pool.states[key]
        flat = values.detach().double().flatten(1)
        facts = _facts(dotted(key), flat, flat[later], pool, trained)
        yield facts if values.is_floating_point() else replace(facts, saturated=None)


def _facts(
    key: str, flat: Tensor, later: Tensor, pool: EpisodePool, trained: int | None
) -> StateFacts:
    deviation = later.std(0, unbiased=False)
    dead = int((deviation <= _DEAD * deviation.max()).sum())
    bounded = bool((later.abs() <= 1).all())
    held = (later.abs() > _BOUND).double().mean(0) >= _NEARLY_ALWAYS
    norms = [
        one.norm(dim=1).numpy() for one in flat.split(list(pool.lengths))
    ]  # the state before each step of each episode
    return StateFacts(
        key=key,
        units=int(flat.shape[1]),
        saturated=int(held.sum()) if bounded else None,
        dead=dead,
        rank=_effective_rank(later),
        norms=tuple(_medians(norms)),
        trained=trained,
        drift=_drift(norms, trained),
    )


def _effective_rank(values: Tensor) -> float:
    """The exponential of the entropy of the singular values' shares (Roy and Vetterli 2007, "The
    effective rank"); 0 of a state that never moves."""
    singular = torch.linalg.svdvals(values - values.mean(0))
    if float(singular.sum()) == 0.0:
        return 0.0
    shares = singular / singular.sum()
    shares = shares[shares > 0]
    return float((-(shares * shares.log()).sum()).exp())


def _medians(norms: list[np.ndarray[tuple[int], np.dtype[np.float64]]]) -> Iterator[float]:
    for t in range(max(map(len, norms))):
        yield float(np.median([one[t] for one in norms if len(one) > t]))


def _drift(
    norms: list[np.ndarray[tuple[int], np.dtype[np.float64]]], trained: int | None
) -> Estimated | None:
    """The mean norm behind the trained steps over that in the second half of them, of the episodes
    that have both: how a state comes up from its start is no drift."""
    if trained is None or trained < 2:
        return None
    half, longer = (trained + 1) // 2, [one for one in norms if len(one) > trained]
    pairs = np.array([(one[half:trained].mean(), one[trained:].mean()) for one in longer])
    if len(pairs) < 2 or pairs[:, 0].sum() == 0:
        return None

    def ratio(rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
        return float(pairs[rows, 1].sum() / max(pairs[rows, 0].sum(), 1e-30))

    every = np.arange(len(pairs))
    low, high = bootstrapped(every, ratio)
    return Estimated(ratio(every), low, high)
