"""``rnncheck run``: a worker that learns by way of a shared copy of its network, as in A3C: the
optimiser has the copy, and is handed the worker's gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, judged

SHARED = (
    (
        "    optim = torch.optim.Adam(net.parameters(), lr=1e-3)\n",
        "    shared = Recurrent()\n    optim = torch.optim.Adam(shared.parameters(), lr=1e-3)\n",
    ),
    (
        "        first = h\n",
        "        net.load_state_dict(shared.state_dict())\n        net.zero_grad()\n"
        "        first = h\n",
    ),
    (
        "        optim.step()\n",
        "        for name, own in net.named_parameters():\n"
        "            shared.get_parameter(name).grad = own.grad\n"
        "        optim.step()\n",
    ),
)
HEADS_ALONE = (
    "            shared.get_parameter(name).grad = own.grad\n",
    "            if not name.startswith('cell'):\n"
    "                shared.get_parameter(name).grad = own.grad\n",
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), [], id="all are handed over"),
        pytest.param((HEADS_ALONE,), ["GR806"], id="the memory's are not"),
    ],
)
def test_gradients_that_are_handed_over_train(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: list[str]
) -> None:
    text = (SCRIPTS / "plain_single.py").read_text()
    code, found = judged(rnncheck, tmp_path, "GR806,CL403", text, *SHARED, *changes)
    assert (code, found) == (ExitCode.FAILED if expected else ExitCode.VERIFIED, expected)
