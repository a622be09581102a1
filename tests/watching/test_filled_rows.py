"""``rnncheck run``: steps that are no data, where no mask in the batch says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.extent import rows
from tests.watching.filled_script import FAULTS, HEALTHY
from tests.watching.scripts import failed, planted, run


def ran(
    rnncheck: Any, folder: Path, text: str, *codes: str
) -> tuple[int, list[str], dict[str, str]]:
    """Exit code, codes that failed, and what each check says."""
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    ended, told, _ = run(rnncheck, *options, folder / "train.py")
    said = {one["code"]: one["reason"] for one in told["checks"] if one["outcome"] == "passed"}
    return ended, failed(told), said


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("name", "code"),
    [pytest.param(*one, marks=pytest.mark.slow if one[0] == "embedded" else ()) for one in FAULTS],
)
def test_what_counts_them_is_named(rnncheck: Any, tmp_path: Path, name: str, code: str) -> None:
    text = HEALTHY[name].replace(*FAULTS[name, code], 1)
    assert text != HEALTHY[name]
    assert ran(rnncheck, tmp_path, text, code)[:2] == (ExitCode.FAILED, [code])


@pytest.mark.parametrize("name", rows(HEALTHY, ["embedded"]))
def test_what_leaves_them_out_is_verified(rnncheck: Any, tmp_path: Path, name: str) -> None:
    """There are such steps in the batches, and the pass over the others is compared."""
    ended, names, said = ran(rnncheck, tmp_path, HEALTHY[name], "RP505", "RP507")
    assert (ended, names) == (ExitCode.VERIFIED, [])
    assert "padded steps are left out" in said["RP505"]
    assert "replayed outputs are the trajectory's" in said["RP507"]


INSIDE = (
    ("        data = split_trajectories(", "        rows = split_trajectories("),
    (
        'out = network(data.select("observation", "h", "is_init"))',
        'out = {"heads": memory(rows["observation"], rows["h"], rows["is_init"])[0]}',
    ),
    ("loss = actor_critic_loss(out, data)", "loss = actor_critic_loss(out, rows)"),
)
COUNTED = ("advantage.square()[mask].mean()", "advantage.square().mean()")


@pytest.mark.slow
def test_rows_of_a_layer_of_torch_alone(rnncheck: Any, tmp_path: Path) -> None:
    """No module there says what it carries: what its cell is given at each step is looked at."""
    code, told, _ = run(
        rnncheck, "--select", "RP505", planted(tmp_path, "padded_switch.py", *INSIDE)
    )
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    path = planted(tmp_path, "padded_switch.py", *INSIDE, COUNTED)
    code, told, _ = run(rnncheck, "--select", "RP505", path)
    assert (code, failed(told)) == (ExitCode.FAILED, ["RP505"])


ADVANTAGE = "    advantage = target - value\n"
OVER_ALL = (
    ADVANTAGE,
    f"{ADVANTAGE}    target = (target - target.mean()) / target.std()\n"
    "    advantage = target - value\n",
)
OVER_DATA = (ADVANTAGE, OVER_ALL[1].replace("target.", "target[mask]."))
SHARED = (
    ("advantage.square()[mask].mean()", "(advantage.square() * mask).mean()"),
    ("(chosen * advantage.detach())[mask].mean()", "(chosen * advantage.detach() * mask).mean()"),
)


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param((OVER_ALL,), ["RP505"], id="a mean over rows that zeros fill up"),
        pytest.param((OVER_DATA,), [], id="over the data"),
        pytest.param(SHARED, [], id="padding scales the loss, no more"),
    ],
)
def test_more_padding_changes_nothing_that_is_learnt(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], named: list[str]
) -> None:
    _, told, _ = run(rnncheck, "--select", "RP505", planted(tmp_path, "padded_switch.py", *changes))
    assert failed(told) == named
    assert [one["outcome"] for one in told["checks"]] == ["failed" if named else "passed"]
