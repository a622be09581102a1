"""Leaks that remain where the means and deviations of a batch are held still."""

from __future__ import annotations

from dataclasses import replace

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import Elements, Leak, leaks
from rnncheck.checks.evidence.coupling import Coupled, real_leaks
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.pipeline.instruments.statistics import HeldStatistics, Statistic


class StillStatistics:
    """``elements`` with the statistics of the first batch that they are asked of; ``held`` are
    these."""

    def __init__(self, elements: Elements) -> None:
        self._elements = elements
        self.held: list[Statistic] | None = None

    def __call__(self, sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        """The same of the batch ``td``."""
        with HeldStatistics(self.held) as noted:
            found = self._elements(sample, td)
        self.held = noted.given if self.held is None else self.held
        return found


def beyond_statistics(
    evidence: Evidence, coupled: Coupled, found: list[Leak], tolerance: float
) -> list[Leak]:
    """Those of the leaks that are real. A normalisation hides what runs from segment to segment
    behind what it moves itself: with its numbers held still only that is left, or nothing."""
    still = StillStatistics(coupled.elements)
    left, _ = leaks(coupled.sample, coupled.keys, still, tolerance=tolerance)
    if still.held and not left:
        return []
    if still.held:
        real = real_leaks(evidence, replace(coupled, elements=still), left, tolerance)
        if real:
            return real
    return real_leaks(evidence, coupled, found, tolerance)
