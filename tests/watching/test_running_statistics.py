"""``rnncheck run``: networks that count running statistics of what they are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import statistics_script as scripts
from tests.watching.scripts import SCRIPTS, failed, judged, run
from tests.watching.statistics_script import AVERAGE, NORM, collected, plain

SLOW = pytest.mark.slow
EXPLORES = (
    (
        "        self.policy, ",
        "        self.register_buffer('eps', torch.tensor(0.5))\n        self.policy, ",
    ),
    (
        "        return Categorical(logits=logits).sample(), value, h\n",
        "        self.eps.mul_(0.999)\n        drawn = torch.rand(()) < self.eps\n"
        "        own = Categorical(logits=logits).sample()\n"
        "        action = torch.randint(2, (1,)) if drawn else own\n"
        "        return action, value, h\n",
    ),
)
FORGETS = ("action, _, h = net.act(x, h)", "action, _, _ = net.act(x, h)")
ASKED = ("EQ206", "BD301", "BD305", "CL402", "CL406")


def outcomes(rnncheck: Any, folder: Path, text: str) -> dict[str, str]:
    path = folder / "train.py"
    path.write_text(text)
    _, told, _ = run(rnncheck, "--select", ",".join(ASKED), path)
    for one in told["checks"]:
        if one["outcome"] == "could-not-look":
            assert "running statistics that moved" in one["reason"]
    return {one["code"]: one["outcome"] for one in told["checks"]}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(collected(NORM, scripts.STILL, scripts.BETWEEN), id="between batches"),
        pytest.param(plain(*scripts.BY_MODE), id="in training alone", marks=SLOW),
    ],
)
def test_those_that_are_still_while_it_acts_keep_nothing_untold(
    rnncheck: Any, tmp_path: Path, text: str
) -> None:
    assert set(outcomes(rnncheck, tmp_path, text).values()) == {"passed"}


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(collected(NORM), id="collector"),
        pytest.param(collected(AVERAGE), id="of another tensor", marks=SLOW),
        pytest.param(plain(), id="loop", marks=SLOW),
        pytest.param(plain(scripts.STILL, scripts.AT_EACH_STEP), id="by the loop itself"),
    ],
)
def test_those_that_move_keep_untold_what_was_recorded_and_nothing_else(
    rnncheck: Any, tmp_path: Path, text: str
) -> None:
    found = outcomes(rnncheck, tmp_path, text)
    untold = {"CL402": "could-not-look", "CL406": "could-not-look"}
    assert found == dict.fromkeys(ASKED, "passed") | untold


@SLOW
def test_a_loss_by_new_ones_weighs_no_other_rows(rnncheck: Any, tmp_path: Path) -> None:
    """Between acting and training they are counted on, over all rows."""
    path = tmp_path / "train.py"
    path.write_text(plain(scripts.STILL, scripts.BEHIND_ROLLOUTS))
    code, told, _ = run(rnncheck, "--select", "LS707", path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_a_fault_is_named_beside_them(rnncheck: Any, tmp_path: Path) -> None:
    text = plain(scripts.NOT_RESET)
    assert outcomes(rnncheck, tmp_path, text)["BD301"] == "failed"


@pytest.mark.parametrize(
    "norm",
    [
        pytest.param(scripts.OF_ROWS, id="of each row"),
        pytest.param(scripts.OF_THE_FIRST, id="of the first", marks=SLOW),
    ],
)
def test_a_memory_in_a_buffer_is_none(rnncheck: Any, tmp_path: Path, norm: str) -> None:
    assert outcomes(rnncheck, tmp_path, collected(norm))["EQ206"] == "failed"


@pytest.mark.slow
def test_what_is_explored_by_keeps_nothing_untold(rnncheck: Any, tmp_path: Path) -> None:
    """A rate in a buffer that every step shrinks changes nothing of what the policy says."""
    text = (SCRIPTS / "plain_single.py").read_text()
    code, found = judged(rnncheck, tmp_path, "CL4", text, *EXPLORES)
    assert (code, found) == (ExitCode.VERIFIED, [])
    code, found = judged(rnncheck, tmp_path, "CL401,CL406", text, *EXPLORES, FORGETS)
    assert (code, found) == (ExitCode.FAILED, ["CL401", "CL406"])
