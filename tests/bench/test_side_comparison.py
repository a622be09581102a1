"""Two sides in pairs of processes: a cell that breaks one takes nothing from the others. Simulated
workers say so at once; real ones, slowly, that processes break in these ways."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rnncheck.bench.process import AnyWorker
from rnncheck.bench.side_comparison import ComparisonRules, SideComparison
from rnncheck.bench.sides import Side, here
from rnncheck.numerics.stopping import MIN_PAIRS, Measure, PairsAnswer
from rnncheck.results.cells import Cell, Phase
from rnncheck.results.variant import OWN
from tests.bench.simulated import Clock, SimulatedWorker, cell

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


@dataclass(frozen=True)
class SimulatedSide(Side):
    """Its processes are simulated: they break in the cells of two variants. A call takes
    ``seconds``."""

    seconds: float = 0.01
    started: list[SimulatedWorker] = field(default_factory=list)

    def worker(self, import_folder: Path) -> AnyWorker:
        names = ("pad", "scan", "pad-compiled")
        prepare, call = dict.fromkeys(names, 1.0), dict.fromkeys(names, self.seconds)
        self.started.append(
            SimulatedWorker(Clock(), prepare, call, kills=["scan"], raises=["pad-compiled"])
        )
        return self.started[-1]


@pytest.mark.parametrize(
    ("seconds", "answer"), [(0.01, PairsAnswer.WITHIN), (0.012, PairsAnswer.SLOWER)]
)
def test_cells_that_break_simulated_processes_leave_the_other_its_pairs(
    seconds: float, answer: PairsAnswer
) -> None:
    sides = (SimulatedSide("here", "", "", seconds=seconds), SimulatedSide("there", "", ""))
    cells = [cell(name) for name in ("scan", "pad-compiled", "pad")]
    both_sides = SideComparison(sides, cells, ComparisonRules(0.05, budget=0, timeout=100))
    said = list(both_sides.run())
    killed, raised, healthy = both_sides.cells
    assert [*killed.end.values()] == ["the process ended with SIGKILL"]
    assert [*raised.end.values()] == ["RuntimeError: out of luck"]
    assert not killed.told
    assert not healthy.end
    assert len(healthy.ratios[Measure.WALL]) == len(healthy.ratios[Measure.CPU]) == MIN_PAIRS
    assert both_sides.answer(healthy) is answer
    assert set(both_sides.about) == {"here", "there"}
    # a broken pair is not counted, its processes are not used again, and its cell is left out
    assert [text.split(", ")[1] for text in said] == [
        "3 cells open", "2 cells open", *["1 cell open"] * MIN_PAIRS,
    ]  # fmt: skip
    for side in sides:
        assert len(side.started) == 2 + MIN_PAIRS
        judged = [one for worker in side.started for one in worker.judged]
        assert judged.count(healthy.cell) == 1  # numbers are judged once, in the first pair


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
