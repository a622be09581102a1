"""``rnncheck run`` of scripts whose collector's workers make the policy by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, run
from tests.watching.workers_script import LATE, SCRIPT, SENT

CODES = ("CL402", "CL404", "CL406", "RP5", "VL603", "VL604")
WEIGHTS = SENT.replace("actor", "TensorDict.from_module(actor).data.clone()")


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, dict[str, Any]]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, told


# Whether what is sent arrives before the first step is a matter of the machine's timing.
@pytest.mark.slow
def test_the_module_whose_weights_workers_are_sent_acts(
    rnncheck: Any, tmp_path: Path, forked_workers: None
) -> None:
    code, told = ran(rnncheck, tmp_path, SCRIPT, *CODES)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert {one["code"]: one["outcome"] for one in told["checks"]}["CL406"] == "passed"


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [SCRIPT.replace(SENT, WEIGHTS), SCRIPT.replace("sync=True", "sync=False")],
    ids=["weights alone", "in turns"],
)
def test_other_ways_to_send_them(
    rnncheck: Any, tmp_path: Path, forked_workers: None, text: str
) -> None:
    assert text != SCRIPT
    code, told = ran(rnncheck, tmp_path, text, *CODES)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_workers_that_are_sent_nothing(rnncheck: Any, tmp_path: Path, forked_workers: None) -> None:
    code, told = ran(rnncheck, tmp_path, SCRIPT.replace(SENT, "pass"), "WR")
    assert code == ExitCode.NOT_SHOWN
    begins = "the workers of a collector make their policy by `policy_factory`"
    (notice,) = (one for one in told["notices"] if one.startswith(begins))
    assert "call `collector.update_policy_weights_(policy)` before the first batch" in notice


# Whether they have arrived when it collects further batches is a matter of the machine's timing.
@pytest.mark.slow
def test_weights_that_arrive_behind_the_first_batch(
    rnncheck: Any, tmp_path: Path, forked_workers: None
) -> None:
    """Nobody can tell then what acted: no fault of the script is made of that."""
    code, told = ran(rnncheck, tmp_path, LATE, "CL", "LS702")
    assert code == ExitCode.NOT_SHOWN
    assert not failed(told)
    begins = "the workers of a collector acted with other weights than they were sent"
    assert [one for one in told["notices"] if one.startswith(begins)]


@pytest.mark.slow
def test_a_fault_of_who_acts_is_no_late_weight(
    rnncheck: Any, tmp_path: Path, forked_workers: None
) -> None:
    text = SCRIPT.replace("nn.Linear(8, 2)", "nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 2))")
    assert text != SCRIPT
    code, told = ran(rnncheck, tmp_path, text, "CL406", "EQ206")
    assert code == ExitCode.FAILED
    assert failed(told)
