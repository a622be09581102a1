"""``rnncheck run``: a method that steps and makes the returns behind its steps, called by one of
another module, as in a library of algorithms with a class of its own for what they share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.collect_script import SCRIPT as WHOLE
from tests.watching.collect_script import UNCUT
from tests.watching.scripts import failed, run, written

BASE = """
class Callback:
    def __init__(self):
        self.names = globals()  # some libraries hand them to what they call back

    def on_start(self):
        self.begun = True

    def on_end(self):
        self.ended = True


class Runs:
    def learn(self):
        called = Callback()
        for number in range(8):
            going = self.collect(called, self.rollout, STEPS)
            if not going:
                break
            self.train()


STEPS = 24
"""
LEARNS = WHOLE[WHOLE.index("    def learn(self):") : WHOLE.index('if __name__ == "__main__":')]
NAMES = ("seen", "actions", "rewards", "starts", "logps", "values", "returns")
CHANGES = (
    ("import Categorical\n", "import Categorical\n\nfrom base import Runs\n"),
    ("class Runner:", "class Rollout:\n    pass\n\n\nclass Runner(Runs):"),
    ("        self.agent = Agent()", "        self.agent, self.rollout = Agent(), Rollout()"),
    ("def collect(self):", "def collect(self, called, rollout, count):\n        called.on_start()"),
    ("self.make_returns(behind)", "self.make_returns(rollout, behind)\n        called.on_end()"),
    ("def make_returns(self, behind):", "def make_returns(self, rollout, behind):"),
    ('getattr(self, name)', 'getattr(self.rollout, name)'),
    (LEARNS, ""),
)  # fmt: skip
ASKED = ("--select", "LS701", "--select", "LS703", "--select", "VL603")


def _script(folder: Path, *more: tuple[str, str]) -> Path:
    """What is kept is an attribute of an object that the method is handed."""
    (folder / "base.py").write_text(BASE)
    path = written(folder, WHOLE, *CHANGES, *more)
    text = path.read_text()
    inside = text.index("    def collect("), text.index("    def train(self)")
    part = text[inside[0] : inside[1]]
    for name in NAMES:
        part = part.replace(f"self.{name}", f"rollout.{name}")
    path.write_text(text[: inside[0]] + part + text[inside[1] :])
    return path


@pytest.mark.slow
def test_returns_that_it_makes_are_made_again_with_the_loss(rnncheck: Any, tmp_path: Path) -> None:
    kept = tmp_path / "seen.rnncheck"
    ended, found, _ = run(rnncheck, *ASKED, "--save", kept, _script(tmp_path))
    assert (ended, failed(found)) == (ExitCode.VERIFIED, [])
    again = rnncheck("verify", str(kept), *ASKED)
    assert again.returncode == ExitCode.VERIFIED, again.stdout


@pytest.mark.slow
def test_a_sum_that_it_does_not_cut_is_told(rnncheck: Any, tmp_path: Path) -> None:
    ended, found, _ = run(rnncheck, *ASKED, _script(tmp_path, UNCUT))
    assert ended == ExitCode.FAILED
    assert {"LS701", "VL603"} & set(failed(found))
