"""Recurrent mode around the estimator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.texts import Texts


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    if case.section("advantage").get("recurrent_mode") is False:
        yield from case.in_spec(_recurrent)


def _recurrent(document: Any) -> bool:
    del document["advantage"]["recurrent_mode"]
    return True


FIX = Fix(("VL604", "VL602"), "with the estimator in recurrent mode", _ways)
