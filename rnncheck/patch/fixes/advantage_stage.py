"""An estimator of its own before a loss that else makes one, under vmap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.spec_text import in_line
from rnncheck.patch.texts import Texts

_LOSSES = ("PPOLoss", "ClipPPOLoss", "KLPENPPOLoss", "A2CLoss", "ReinforceLoss")
# TorchRL's own defaults of these losses, in one pass over T+1 steps.
_ESTIMATOR = {"use": "GAE", "gamma": 0.99, "lmbda": 0.95, "shifted": True}


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    alone = "advantage" not in case.document and "critic" in case.document
    if alone and case.section("loss").get("use") in _LOSSES:
        yield from case.in_spec(_estimated)


def _estimated(document: Any) -> bool:
    document.insert(list(document).index("loss"), "advantage", in_line(_ESTIMATOR))
    return True


FIX = Fix(("LS706",), "with an estimator before the loss, in one pass", _ways)
