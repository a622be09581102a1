"""``rnncheck run``: advantages of several agents that are summed over the agents of a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

TEAM = "team_ppo.py"
CALL = "        estimator(data)\n"
ALONG = "        estimator(data, time_dim={})\n"
# The critic has run before: the estimator sums what stands in the batch.
WITHOUT_NETWORK = """        data.update(critic(data.select(("agents", "observation"))))
        after = critic(data["next"].select(("agents", "observation")))
        data["next", "agents", "state_value"] = after["agents", "state_value"]
        data = data.detach()
        estimator(data, time_dim={})
"""
NO_NETWORK = ("value_network=critic)", "value_network=None)")


def asked(rnncheck: Any, folder: Path, lines: str, *more: tuple[str, str]) -> tuple[int, Any]:
    script = planted(folder, TEAM, (CALL, lines), *more)
    code, told, _ = run(rnncheck, "--select", "VL601", script)
    return code, told


def test_sums_over_agents_are_named(rnncheck: Any, tmp_path: Path) -> None:
    code, told = asked(rnncheck, tmp_path, WITHOUT_NETWORK.format(2), NO_NETWORK)
    assert (code, failed(told)) == (ExitCode.FAILED, ["VL601"])
    message = told["checks"][0]["findings"][0]["message"]
    assert "the reward of one agent changes the" in message


@pytest.mark.parametrize(
    ("lines", "changes"),
    [(ALONG.format(1), ()), (WITHOUT_NETWORK.format(1), (NO_NETWORK,))],
    ids=["with its network", "without one"],
)
def test_sums_over_steps_are_left_alone(
    rnncheck: Any, tmp_path: Path, lines: str, changes: tuple[tuple[str, str], ...]
) -> None:
    code, told = asked(rnncheck, tmp_path, lines, *changes)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
