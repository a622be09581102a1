"""Two sides in pairs of real processes: a cell that breaks one takes nothing from the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rnncheck.bench.side_comparison import ComparisonRules, SideComparison
from rnncheck.bench.sides import here
from rnncheck.numerics.stopping import MIN_PAIRS, Measure, PairsAnswer
from rnncheck.results.cells import Cell, Phase
from rnncheck.results.variant import OWN

SPEC = """schema: 1
name: small
env: {use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}
policy: {factory: "mine:policy"}
"""
MINE = """import gc, os, signal
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.modules import LSTMModule

class Head(nn.Linear):
    def forward(self, x):
        if len(x) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if len(x) == 5 and not gc.isenabled():  # while a sample is taken
            raise RuntimeError("out of luck")
        return super().forward(x)

def policy(env):
    return TensorDictSequential(
        LSTMModule(input_size=4, hidden_size=4, in_key="observation", out_key="embed"),
        TensorDictModule(Head(4, 2), in_keys=["embed"], out_keys=["action"]),
    )
"""


@pytest.mark.slow
def test_a_cell_that_breaks_its_processes_leaves_the_others_their_pairs(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    cells = [Cell(Phase.ACT, OWN, batch, 1, 0.0) for batch in (3, 5, 4)]
    side = here(str(spec), ())
    both_sides = SideComparison(
        (side, replace(side, name="there")), cells, ComparisonRules(0.9, budget=0, timeout=100)
    )
    list(both_sides.run())
    killed, raised, healthy = both_sides.cells
    assert [*killed.end.values()] == ["the process ended with SIGKILL"]
    assert [*raised.end.values()] == ["RuntimeError: out of luck"]
    assert not healthy.end
    assert len(healthy.ratios[Measure.WALL]) == MIN_PAIRS
    assert both_sides.answer(healthy) is PairsAnswer.WITHIN
    for name in ("here", "there"):
        assert both_sides.about[name].files == (str(tmp_path / "mine.py"),)
        assert both_sides.about[name].environment.threads == 1
