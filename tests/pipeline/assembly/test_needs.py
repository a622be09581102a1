"""Numbers that no machine has the memory for are refused with what they would need."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.api import verify
from rnncheck.errors import UserError
from rnncheck.pipeline.assembly import needs
from rnncheck.spec.load import spec_from_text
from tests.small import PIPELINE

SPEC = PIPELINE + "collect: {use: Collector, frames_per_batch: 40, batches: 2}\n"
ABSURD = [
    ("policy.modules.0.hidden_size=1000000000", "the weights of LSTMModule with hidden_size"),
    ("policy.modules.1.num_cells=[1000000, 1000000]", "the weights of MLP with num_cells"),
    ("policy.modules.1.num_cells=1000000000000", "the weights of MLP with num_cells"),
    ("collect.batches=1000000000", "1000000000 batches of 40 frames would need"),
    ("collect.frames_per_batch=1000000000000", "2 batches of 1000000000000 frames would need"),
    ("collect={use: MultiSyncCollector, workers: 100000, frames_per_batch: 100000}",
     "100000 worker processes would need 12.2 TiB of memory, this machine has"),
]  # fmt: skip


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "rnncheck.yaml").write_text(SPEC)
    return tmp_path / "rnncheck.yaml"


@pytest.mark.parametrize(("override", "said"), ABSURD)
def test_it_is_refused_before_it_is_made(override: str, said: str, spec: Path) -> None:
    with pytest.raises(UserError) as caught:
        verify(spec, overrides=[override], select=["WR101"])
    assert said in str(caught.value)
    assert "of memory, this machine has" in str(caught.value)
    assert caught.value.place is not None


def test_parallel_envs_are_processes(spec: Path) -> None:
    many = ["env.workers=1000", "env.vectorize=parallel"]
    machine = needs.machine_memory()
    assert machine is not None
    if machine < 1000 * needs.WORKER:
        with pytest.raises(UserError, match="1000 worker processes would need 125 GiB"):
            verify(spec, overrides=many, select=["WR101"])


@pytest.mark.parametrize("needed", [0, 2**20])
def test_what_fits_is_not_refused(needed: int) -> None:
    needs.refuse_beyond_memory(spec_from_text(SPEC, "s.yaml"), ("env",), needed, "it")


def test_large_and_real_sizes_are_made(spec: Path) -> None:
    sizes = ["policy.modules.0.hidden_size=512", "policy.modules.1.num_cells=[256, 256]"]
    assert verify(spec, overrides=sizes, select=["WR101"]).exit_code == 0
