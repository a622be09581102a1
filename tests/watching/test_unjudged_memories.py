"""A loss that nothing judges: said, and where it trains a memory, isolation is not shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.seams.graphs import runs_over_steps
from tests.watching.scripts import OTHERS, failed, run, written

WITHOUT_MEMORY = (
    "h = self.rnn(torch.cat([o, a], -1), h)",
    "h = self.rnn(torch.cat([o, a], -1), torch.zeros_like(h))",
)
CODES = "BD301,LS701"


def test_a_memory_of_its_own_beside_the_loss(rnncheck: Any, tmp_path: Path) -> None:
    """A forward model with a GRU, trained by lines of its own."""
    path = written(tmp_path, (OTHERS / "curiosity.py").read_text())
    kept = tmp_path / "seen.rnncheck"
    code, told, _ = run(rnncheck, "--select", CODES, "--save", kept, path)
    (isolation,) = [one for one in told["guarantees"] if one["name"] == "isolation"]
    line = path.read_text().splitlines().index("        err.backward()") + 1
    assert (code, failed(told)) == (ExitCode.NOT_SHOWN, [])
    assert f"train.py:{line}: a network with a memory of its own" in isolation["because"]
    again = rnncheck("verify", "--select", CODES, str(kept))
    assert again.returncode == ExitCode.NOT_SHOWN
    assert "network with a" in again.stdout  # wrapped behind it


def test_a_network_without_memory_beside_the_loss(rnncheck: Any, tmp_path: Path) -> None:
    path = written(tmp_path, (OTHERS / "curiosity.py").read_text(), WITHOUT_MEMORY)
    code, told, _ = run(rnncheck, "--select", CODES, path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert [one for one in told["notices"] if "the rest is not judged" in one]


ROWS = torch.ones(5, 7, 3)


def unrolled(cell: nn.Module, steps: int = 4) -> Tensor:
    h = torch.zeros(5, 4)
    for step in range(steps):
        h = cell(ROWS[:, step], h)
        h = h[0] if isinstance(h, tuple) else h
    return h.sum()


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.x, self.h = nn.Linear(3, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(self.x(x) + self.h(h))


def ensemble() -> Tensor:
    weights = nn.Parameter(torch.ones(2, 3, 3))

    def one(weight: Tensor) -> Tensor:
        h = torch.zeros(5, 3)
        for step in range(3):
            h = torch.tanh(nn.functional.linear(h, weight) + ROWS[:, step])
        return h.sum()

    return torch.vmap(one)(weights).sum()


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lambda: nn.LSTM(3, 4)(ROWS)[0].sum(), id="torch's LSTM"),
        pytest.param(lambda: nn.GRU(3, 4)(ROWS)[0].sum(), id="torch's GRU"),
        pytest.param(lambda: unrolled(nn.GRUCell(3, 4)), id="a cell in a loop"),
        pytest.param(lambda: unrolled(Cell()), id="a cell of its own"),
        pytest.param(ensemble, id="an ensemble"),
    ],
)
def test_a_memory_is_told_by_the_graph(loss: Any) -> None:
    assert runs_over_steps(loss(), ())


def twice() -> Tensor:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4))
    return (net(ROWS) - net(ROWS + 1)).pow(2).mean() + net[2].weight.pow(2).sum()


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(twice, id="two calls side by side"),
        pytest.param(lambda: unrolled(Cell(), 1), id="one step"),
        pytest.param(lambda: nn.Conv1d(3, 4, 3)(ROWS.mT).sum(), id="a convolution over time"),
        pytest.param(lambda: ROWS.sum(), id="no graph"),
    ],
)
def test_what_has_no_memory_is_none(loss: Any) -> None:
    assert not runs_over_steps(loss(), ())
