"""``rnncheck run``: slices that lines take of a rollout of pictures, which the script keeps as
whole numbers and computes with as floats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, run, written
from tests.watching.test_public_habits import OWN_VECTOR, UNMASKED, Change

SHOWN = """
class Pictures(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 255, (2, 4, 4), np.uint8)

    def observation(self, obs):
        picture = 128 + 30 * np.clip(np.outer(obs, [1, -1, 2, 0.5]), -4, 4)
        return np.stack([picture, 255 - picture]).astype(np.uint8)


class Model(nn.Module):"""
PICTURES = (
    ("import torch\n", "import numpy as np\nimport torch\n"),
    ("class Model(nn.Module):", SHOWN.lstrip()),
    ("self.rnn, self.actor", "self.conv = nn.Conv2d(2, 4, 2)\n        self.rnn, self.actor"),
    ("nn.LSTMCell(4, 8)", "nn.LSTMCell(36, 8)"),
    (
        "hidden = self.rnn(obs,",
        "x = torch.relu(self.conv((obs - 128) / 64)).flatten(1)\n        hidden = self.rnn(x,",
    ),
    ("torch.tensor(self.obs[0]).unsqueeze(0)", "torch.tensor(self.obs[0]).float().unsqueeze(0)"),
    ("obss[i] = preprocessed", "obss[i] = self.obs[0]"),
    ("return torch.cat(obss)", "return torch.tensor(np.array(obss), dtype=torch.float)"),
    ('Algo(gym.make("CartPole-v1"))', 'Algo(Pictures(gym.make("CartPole-v1")))'),
)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param((), set(), id="healthy"),
        pytest.param((UNMASKED,), {"LS701"}, id="states are not masked in training"),
    ],
)
def test_they_are_told(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], named: set[str]
) -> None:
    path = written(tmp_path, OWN_VECTOR, *PICTURES, *changes)
    ended, told, _ = run(rnncheck, "--select", "EQ201,BD301,LS701", path)
    assert ended == (ExitCode.FAILED if named else ExitCode.VERIFIED), told["checks"]
    assert named <= set(failed(told))
