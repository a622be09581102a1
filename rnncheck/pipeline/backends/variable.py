"""The environment variable from which TorchRL takes the precision of recurrent products."""

from __future__ import annotations

import os

from rnncheck.errors import UserError, did_you_mean
from rnncheck.results.variant import MATMUL_PRECISIONS

VARIABLE = "TORCHRL_RNN_PRECISION"


def given() -> str:
    """What it says, as TorchRL reads it; empty where it says nothing."""
    value = os.environ.get(VARIABLE, "").strip().lower()
    return "" if value == "auto" else value


def check_variable() -> None:
    """Raise UserError for a value with which TorchRL cannot be imported."""
    value = given()
    if value and value not in MATMUL_PRECISIONS:
        raise UserError(
            f"{VARIABLE}={value} is no precision of recurrent products",
            accepted=", ".join(MATMUL_PRECISIONS),
            hint=did_you_mean(value, MATMUL_PRECISIONS) or f"unset {VARIABLE}",
        )
