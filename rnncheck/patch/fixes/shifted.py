"""GAE that values T+1 steps in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.spec_text import add_key
from rnncheck.patch.texts import Texts

_ESTIMATORS = ("GAE", "TDLambdaEstimator", "TD0Estimator", "TD1Estimator", "VTrace")


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    advantage = case.section("advantage")
    if advantage.get("use") in _ESTIMATORS and "shifted" not in advantage:
        yield from case.in_spec(_one_pass)


def _one_pass(document: Any) -> bool:
    add_key(document["advantage"], "shifted", True)
    return True


FIX = Fix(("VL605", "VL601", "VL604", "VL602"), "with shifted=True of the estimator", _ways)
