"""``rnncheck run``: plain loops whose numbers are alike by chance, and objects that answer to any
name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

# The rate of exploration is 0.0 at every step, as the action of a greedy policy is by chance.
ALWAYS_LEFT = (
    ("    def act(self, x, h):\n", "    def act(self, x, h, rate):\n"),
    ("Categorical(logits=logits).sample(), value", "0 * logits.argmax(-1).item(), value"),
    ("action, _, h = net.act(x, h)", "action, _, h = net.act(x, h, 0.0)"),
    ("env.step(action.item())", "env.step(action)"),
    ("kept = (x, start, action,", "kept = (x, start, torch.tensor([action]),"),
)
SILENT_LOGGER = (
    (
        "def rollout(env, net, x",
        """class Silent:
    def __getattr__(self, name):
        return lambda *args, **kwargs: None


class Trainer:
    def __init__(self, net):
        self.net, self.log = net, Silent()

    def act(self, x, h):
        self.log.step(1)
        return self.net.act(x, h)


def rollout(env, trainer, x""",
    ),
    ("net.act(x, h)\n        seen", "trainer.act(x, h)\n        seen"),
    ("rollout(env, net, x, h, start)", "rollout(env, Trainer(net), x, h, start)"),
)


def test_a_number_that_stays_is_no_state(rnncheck: Any, tmp_path: Path) -> None:
    script = planted(tmp_path, "plain_single.py", *ALWAYS_LEFT)
    code, told, done = run(rnncheck, "--select", "WR104", script)
    assert (code, failed(told)) == (ExitCode.VERIFIED, []), done.stderr


@pytest.mark.slow
def test_a_logger_that_answers_to_any_name_is_copied(rnncheck: Any, tmp_path: Path) -> None:
    script = planted(tmp_path, "plain_single.py", *SILENT_LOGGER)
    code, told, done = run(rnncheck, "--select", "BD3,LS701", script)
    assert (code, failed(told)) == (ExitCode.VERIFIED, []), done.stderr
