"""``rnncheck run``: loops that begin with random actions, and train on these as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged
from tests.watching.test_default_states import SCRIPT, SHUFFLED

RANDOM = (
    (
        "            action, hidden = act(net, seen, hidden, 0.9, env)\n",
        "            if episode <= 12:\n"
        "                action = env.action_space.sample()\n"
        "            else:\n"
        "                action, hidden = act(net, seen, hidden, 0.1, env)\n",
    ),
    (
        "            if episode > 12:\n                train(net, target, memory, optimizer)\n",
        "        if episode >= 12:\n"
        "            for _ in range(4):\n"
        "                train(net, target, memory, optimizer)\n",
    ),
)
CARRIED = (
    ("    for episode in range(40):", "    hidden = None\n    for episode in range(40):"),
    ("seen, hidden, done = whole[::2], None, False", "seen, done = whole[::2], False"),
)
FOR_EVER = ("if episode <= 12:", "if episode <= 1000:")
ASKED = "CL403,CL406,RP502,LS701"


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="the policy acts later"),
        pytest.param((SHUFFLED,), (ExitCode.FAILED, ["RP502"]), id="rows in another order"),
        pytest.param(CARRIED, (ExitCode.FAILED, ["CL403", "CL406"]), id="never reset"),
        pytest.param((FOR_EVER,), (ExitCode.NOT_SHOWN, []), id="nobody acts"),
    ],
)
def test_who_acts_is_waited_for(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    """Its weights are those that it had in its second episode, behind the first updates."""
    assert judged(rnncheck, tmp_path, ASKED, SCRIPT, *RANDOM, *changes) == expected
