"""``rnncheck run``: loops that put their state back by themselves where an episode begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

# Shorter than an episode: it begins in one rollout, and ends in a later one.
SHORT = ("= 64, 16, 0.98", "= 12, 16, 0.98")
LONGER = ("updates=8", "updates=40")
NOT_PUT_BACK = ("            h = torch.zeros_like(h)\n", "")
ENDLESS = (
    'gym.make("CartPole-v1")',
    'Endless(gym.make("CartPole-v1"))',
)
_MAIN = "def main("
CLASS = (
    _MAIN,
    f"""class Endless(gym.Wrapper):
    def step(self, action):
        seen, reward, _, _, told = self.env.step(action)
        return seen, reward, False, False, told


{_MAIN}""",
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="put back"),
        pytest.param((NOT_PUT_BACK,), (ExitCode.FAILED, ["CL403"]), id="not put back"),
    ],
)
def test_a_later_rollout_shows_it(
    rnncheck: Any,
    tmp_path: Path,
    changes: tuple[tuple[str, str], ...],
    expected: tuple[int, list[str]],
) -> None:
    path = planted(tmp_path, "plain_single.py", SHORT, LONGER, *changes)
    code, told, _ = run(rnncheck, "--select", "CL403", path)
    assert (code, failed(told)) == expected


def test_where_no_episode_ends_it_is_not_shown(rnncheck: Any, tmp_path: Path) -> None:
    """The first state of all says nothing of those behind an end."""
    path = planted(tmp_path, "plain_single.py", ENDLESS, CLASS)
    code, told, _ = run(rnncheck, "--select", "CL403", path)
    (check,) = told["checks"]
    assert code == ExitCode.NOT_SHOWN
    assert "no episode began behind another" in check["reason"]
