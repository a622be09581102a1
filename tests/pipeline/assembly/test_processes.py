"""Collectors with worker processes: what they give, and that nothing of them is left."""

from __future__ import annotations

import multiprocessing
import shutil
from pathlib import Path

import pytest
import torch

from rnncheck.errors import ComponentError
from rnncheck.pipeline.keys import STEP_KEY
from rnncheck.results.model import Stage

HERE = Path(__file__).parent
pytestmark = pytest.mark.usefixtures("forked_workers")
MULTI = "use: MultiSyncCollector, workers: 2, frames_per_batch"
REPLAY = """
replay:
  storage: {use: LazyTensorStorage, max_size: 400}
  sampler: {use: SliceSampler, slice_len: 8, strict_length: false}
  batch_size: 32
loss: DQNLoss
"""


@pytest.fixture(autouse=True)
def user_module(bench, tmp_path: Path) -> None:
    shutil.copy(HERE / "training.py", tmp_path)


def several(text: str, use: str = MULTI) -> str:
    return text.replace("use: Collector, frames_per_batch", use)


def troubled(text: str, how: str, limit: int = 60) -> str:
    env = f'env: {{factory: "training:make_troubled_env", how: {how}}}\n'
    start, end = text.index("env:"), text.index("policy:")
    return several(text[:start] + env + text[end:]) + f"verify: {{timeout: {limit}}}\n"


def test_two_workers_give_two_rows(bench, dqn_text):
    pipeline = bench.build(several(dqn_text) + REPLAY)
    assert [batch.shape for batch in pipeline.batches] == [(2, 20), (2, 20)]
    first, second = pipeline.batches[0]["observation"]
    assert not torch.equal(first, second)  # each worker has a seed of its own
    assert pipeline.samples[0].get(STEP_KEY).max() <= 80
    bench.builders[-1].close()
    assert not multiprocessing.active_children()


def test_workers_of_an_asynchronous_collector_take_turns(bench, dqn_text):
    pipeline = bench.build(several(dqn_text).replace("MultiSync", "MultiAsync"))
    assert [batch.shape for batch in pipeline.batches] == [(40,), (40,)]


def test_workers_write_into_the_buffer(bench, dqn_text):
    pipeline = bench.build(several(dqn_text, f"replay_buffer: true, {MULTI}") + REPLAY)
    assert sum(batch.numel() for batch in pipeline.batches) == 80
    assert len(pipeline.samples) == 3


@pytest.mark.parametrize("how", ["start", "raise", "die"])
def test_a_worker_that_fails_is_an_outcome(bench, dqn_text, how):
    builder = bench.run(troubled(dqn_text, how))
    error = builder.failures[Stage.COLLECT]
    said = {"start": "no licence for workers", "raise": "late trouble", "die": "exit code 3"}
    assert said[how] in str(error) or how == "die"
    assert "Traceback" not in str(error)
    if how == "raise":
        assert error.place is not None and error.place.path == "training.py"
    builder.close()
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_a_worker_that_hangs_is_stopped(bench, dqn_text):
    builder = bench.run(troubled(dqn_text, "hang", limit=8))
    assert "did not finish within 8 s" in str(builder.failures[Stage.COLLECT])
    builder.close()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("count", ["0", "two", "true"])
def test_workers_must_be_a_number(bench, dqn_text, count):
    with pytest.raises(ComponentError, match="whole number"):
        bench.run(several(dqn_text, MULTI.replace("workers: 2", f"workers: {count}")))


def test_a_single_collector_has_no_workers(bench, dqn_text):
    with pytest.raises(ComponentError, match="takes no argument 'workers'"):
        bench.run(dqn_text.replace("use: Collector,", "use: Collector, workers: 2,"))
