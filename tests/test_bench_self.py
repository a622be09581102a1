"""The pipelines that `make bench-self` measures: healthy, and the same without rnncheck."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from ruamel.yaml import YAML

import rnncheck
from rnncheck.results.exit_codes import ExitCode

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def bench_self() -> ModuleType:
    path = BENCHMARKS / "bench_self.py"
    spec = importlib.util.spec_from_file_location("bench_self", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_row_has_its_files(bench_self: ModuleType) -> None:
    names = [pair.name for pair in bench_self.ALL]
    assert len(set(names)) == len(names)
    for pair in bench_self.ALL:
        collect = YAML(typ="safe").load(pair.spec.read_text())["collect"]
        assert pair.bare is None or pair.bare.exists()
        assert pair.bare is None or str(collect["frames_per_batch"]) in bench_self.without(pair)


def test_the_budget_is_that_of_the_bare_process(bench_self: ModuleType) -> None:
    def line(cpu: float) -> str:
        verify, bare = (bench_self.Cost(1.0, seconds, 1.0) for seconds in (cpu, 5.0))
        return str(bench_self.budget_line([(verify, bare)]))

    assert line(25.0).endswith("= 25.0 s cpu: met")
    assert line(25.1).endswith("NOT met")


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["scan", "pixels", "sac", "agents"])
def test_a_shape_is_healthy_and_runs_bare(bench_self: ModuleType, shape: str) -> None:
    (pair,) = [one for one in bench_self.ALL if one.shape == shape]
    run = rnncheck.verify(pair.spec, overrides=["verify.timeout=600"])
    assert run.exit_code is ExitCode.VERIFIED
    subprocess.run(bench_self.without(pair), check=True, timeout=300)
