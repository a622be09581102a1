"""A worker process, asked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.bench.process import WorkerProcess
from rnncheck.bench.sides import Side, open_command
from rnncheck.bench.worker import cell_fields
from rnncheck.results.cells import Cell, Phase
from rnncheck.results.variant import OWN

SPEC = """schema: 1
name: small
env: {use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}
policy: {factory: "mine:policy"}
"""
MINE = """from pathlib import Path
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.modules import LSTMModule

class Head(nn.Linear):
    def forward(self, x):
        with Path(__file__).with_name("calls").open("ab") as calls:
            calls.write(b"x")
        return super().forward(x)

def policy(env):
    return TensorDictSequential(
        LSTMModule(input_size=4, hidden_size=4, in_key="observation", out_key="embed"),
        TensorDictModule(Head(4, 2), in_keys=["embed"], out_keys=["action"]),
    )
"""


@pytest.mark.parametrize("repetitions", [3, None])
def test_a_round_takes_as_many_calls_as_it_is_told(tmp_path: Path, repetitions: int | None) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    spec, calls = tmp_path / "spec.yaml", tmp_path / "calls"
    spec.write_text(SPEC)
    cell = Cell(Phase.ACT, OWN, 4, 1, 0.0)
    worker = WorkerProcess()
    try:
        worker.ask("open", 100, **open_command(Side("here", "", str(spec)), None, 1))
        chosen = worker.ask("prepare", 100, cell=cell_fields(cell), judge=False)["repetitions"]
        before = calls.stat().st_size
        worker.send("round", keys=[cell.key], repetitions=repetitions)
        while (found := worker.reply(100))["is"] != "end":
            assert found["is"] in ("begin", "sample")
        taken = calls.stat().st_size - before
        assert taken == 3 if repetitions else taken in (chosen, chosen + 1)  # one to warm caches
    finally:
        worker.kill()
