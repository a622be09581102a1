"""The workload of bench_peers under pytest-benchmark, with its default settings; PEERS_SHAPE says
which."""

from __future__ import annotations

import json
import os
from typing import Any

from peers import workload


def test_call(benchmark: Any) -> None:
    benchmark(workload(*json.loads(os.environ["PEERS_SHAPE"])))
