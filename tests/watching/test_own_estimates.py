"""``rnncheck run``: advantages and returns that the script's own lines make ahead of a loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.estimates_script import (
    FAULTS,
    GAE_OF_ONES_OWN,
    HEALTHY,
    REBOUND,
    UNREAD,
    UNREPEATED,
)
from tests.watching.next_values_script import changed
from tests.watching.scripts import failed, run


def ran(rnncheck: Any, folder: Path, text: str, *options: str) -> tuple[int, dict[str, Any]]:
    (folder / "train.py").write_text(text)
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, told


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("name", "code"),
    [pytest.param(*one, marks=[] if one[0] == "gae" else pytest.mark.slow) for one in FAULTS],
)
def test_their_faults_are_named(rnncheck: Any, tmp_path: Path, name: str, code: str) -> None:
    text = HEALTHY[name].replace(*FAULTS[name, code], 1)
    assert text != HEALTHY[name]
    ended, told = ran(rnncheck, tmp_path, text, "--select", code)
    assert (ended, failed(told)) == (ExitCode.FAILED, [code])


@pytest.mark.parametrize(
    "name",
    [one if one == "gae" else pytest.param(one, marks=pytest.mark.slow) for one in HEALTHY],
)
def test_healthy_ones_are_verified(rnncheck: Any, tmp_path: Path, name: str) -> None:
    ended, told = ran(rnncheck, tmp_path, HEALTHY[name], "--select", "VL", "--select", "LS")
    assert (ended, failed(told)) == (ExitCode.VERIFIED, [])
    said = next(one["detail"] for one in told["stages"] if one["stage"] == "advantage")
    assert said.startswith("your lines ahead of the loss (train.py:")


def test_what_cannot_be_made_again_is_not_taken_for_judged(rnncheck: Any, tmp_path: Path) -> None:
    """The loss itself is judged."""
    ended, told = ran(rnncheck, tmp_path, UNREPEATED, "--select", "VL601", "--select", "GR801")
    by_code = {one["code"]: one for one in told["checks"]}
    assert (ended, by_code["GR801"]["outcome"]) == (ExitCode.NOT_SHOWN, "passed")
    assert "the loss reads 'returns'" in by_code["VL601"]["reason"]


def test_what_a_generator_puts_into_its_batch_is_judged(rnncheck: Any, tmp_path: Path) -> None:
    """It stands elsewhere when the loss is called."""
    put = ('yield data.update({"returns": returns})', 'data["returns"] = returns\n    yield data')
    ended, told = ran(rnncheck, tmp_path, UNREPEATED.replace(*put), "--select", "VL601")
    assert (ended, failed(told)) == (ExitCode.VERIFIED, [])
    faulty = UNREPEATED.replace(*put).replace(" * (~done[:, t])", "")
    ended, told = ran(rnncheck, tmp_path, faulty, "--select", "VL601")
    assert (ended, failed(told)) == (ExitCode.FAILED, ["VL601"])


def test_what_is_made_otherwise_each_time_is_told(rnncheck: Any, tmp_path: Path) -> None:
    mixed = "returns[torch.randperm(len(returns))]"
    text = HEALTHY["rollout"].replace('data["returns"] = returns', f'data["returns"] = {mixed}')
    ended, told = ran(rnncheck, tmp_path, text, "--select", "VL601")
    (check,) = told["checks"]
    assert ended == ExitCode.NOT_SHOWN
    assert "make other numbers of the same batch" in check["reason"]


def test_what_no_loss_reads_is_not_asked_for(rnncheck: Any, tmp_path: Path) -> None:
    ended, told = ran(rnncheck, tmp_path, UNREAD, "--select", "VL601", "--select", "GR801")
    assert (ended, failed(told)) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_a_loop_that_binds_its_batch_anew_is_judged_whole(rnncheck: Any, tmp_path: Path) -> None:
    """With the lines that make the other batch; from a saved run as well."""
    saved = tmp_path / "seen.rnncheck"
    asked = ("--select", "LS701", "--save", str(saved))
    ended, told = ran(rnncheck, tmp_path, REBOUND, *asked)
    assert (ended, failed(told)) == (ExitCode.VERIFIED, [])
    assert rnncheck("verify", str(saved), "--select", "LS701").returncode == ExitCode.VERIFIED
    faulty = REBOUND.replace(" * (1 - dones[:, t])", "")
    ended, told = ran(rnncheck, tmp_path, faulty, *asked)
    assert (ended, failed(told)) == (ExitCode.FAILED, ["LS701"])
    assert rnncheck("verify", str(saved), "--select", "LS701").returncode == ExitCode.FAILED


VALUES_OF = """def values_of(steps):
    alone = steps.select("observation", "recurrent_state").reshape(-1)
    alone["is_init"] = torch.zeros(len(alone), 1, dtype=torch.bool)
    with torch.no_grad():
        return critic(gru(alone))["state_value"].reshape(*steps.shape, 1)


"""
VALUED_ALONE = changed(
    GAE_OF_ONES_OWN,
    ("def own_gae(", VALUES_OF + "def own_gae("),
    (
        "following = value[:, t + 1] if t + 1 < reward.shape[1] else last_value",
        "following = behind[:, t]",
    ),
    (
        '    reward, done = td["next", "reward"]',
        '    behind = values_of(td["next"])\n    reward, done = td["next", "reward"]',
    ),
    ("following * alive", 'following * (~td["next", "terminated"][:, t])'),
    ('td["advantage"]', 'td["adv"]'),
    ('td["value_target"]', 'td["ret"]'),
    ("rb = Tensor", 'loss_module.set_keys(advantage="adv", value_target="ret")\nrb = Tensor'),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param('td["next"]', (ExitCode.VERIFIED, []), id="the next steps"),
        pytest.param("td", (ExitCode.FAILED, ["VL604"]), id="the steps themselves"),
    ],
)
def test_each_step_valued_from_its_own_state(
    rnncheck: Any, tmp_path: Path, of: str, expected: tuple[int, list[str]]
) -> None:
    """Under names of the script's own."""
    text = VALUED_ALONE.replace('values_of(td["next"])', f"values_of({of})")
    ended, told = ran(rnncheck, tmp_path, text, "--select", "VL604")
    assert (ended, failed(told)) == expected
