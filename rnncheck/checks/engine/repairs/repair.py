"""What a repair is."""

from __future__ import annotations

from dataclasses import dataclass

from rnncheck.pipeline.plant.hooks import Plant


@dataclass(frozen=True)
class Repair:
    """What a check's fix does, done while the pipeline is built again.

    ``codes`` are the checks whose fix it is, ``words`` what was done, as in "with the primers
    appended, WR103 passes". ``plant`` raises CannotPlant where it finds nothing to take hold of.
    """

    codes: tuple[str, ...]
    words: str
    plant: Plant
