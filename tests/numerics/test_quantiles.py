"""The quantiles that intervals are made of are scipy's own, without its slow import."""

from __future__ import annotations

import subprocess
import sys

import pytest
from scipy.special import stdtrit
from scipy.stats import binom, t

from rnncheck.numerics.statistics import _quantile


@pytest.mark.parametrize("share", [0.1, 0.05, 0.025, 0.005, 0.0005, 0.00085])
def test_heads_of_fair_coins(share: float) -> None:
    counts = [*range(1, 200), 997, 4096, 20_001]
    assert [_quantile(share, n) for n in counts] == [int(binom.ppf(share, n, 0.5)) for n in counts]


@pytest.mark.parametrize("freedom", [1, 2, 3.5, 7, 100])
def test_student(freedom: float) -> None:
    assert stdtrit(freedom, 0.975) == t.ppf(0.975, freedom)


def test_a_sweep_imports_no_scipy_stats() -> None:
    program = (
        "import sys, rnncheck.bench.run, rnncheck.bench.scale; print('scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n"
