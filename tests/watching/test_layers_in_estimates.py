"""``rnncheck run``: estimates for which lines of the user's call a cell by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged
from tests.watching.segments_script import SEGMENTS

ESTIMATED = (
    (
        'data["gain"] = returns(data["next", "reward"], data["next", "done"])',
        "estimate(agent, data)",
    ),
    (
        "def main():",
        """def estimate(agent, data):
    h, found = data["memory"][:, 0], []
    with torch.no_grad():
        for t in range(T):
            h = agent.step(data["observation"][:, t], h, data["is_init"][:, t])
            found.append(h)
        left = torch.stack(found, 1)
        seen = data["next", "observation"].flatten(0, 1)
        after = agent.step(seen, left.flatten(0, 1), torch.zeros(len(seen), 1, dtype=torch.bool))
        worth = agent.worth(after).unflatten(0, (N, T)) * ~data["next", "terminated"]
        data["gain"] = data["next", "reward"] + 0.9 * worth


def main():""",
    ),
)
AHEAD = ("left.flatten(0, 1), torch", 'data["memory"].flatten(0, 1), torch')


@pytest.mark.slow
def test_next_values_go_on_from_the_steps(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, "VL604", SEGMENTS, *ESTIMATED)
    assert found == (ExitCode.VERIFIED, [])


def test_they_do_not_begin_ahead_of_them(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, "VL604", SEGMENTS, *ESTIMATED, AHEAD)
    assert found == (ExitCode.FAILED, ["VL604"])
