"""The case of what Python handed to `rnncheck.verify`: the parts, run again with the code as it is
now."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import rnncheck
from rnncheck.cases.store import CASES
from rnncheck.cli.app import app
from rnncheck.results.exit_codes import ExitCode

MODULE = """\
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymEnv, InitTracker, TransformedEnv
from torchrl.modules import LSTMModule, QValueModule

import rnncheck

memory = LSTMModule(input_size=4, hidden_size=4, in_key="observation", out_key="embed")


def make_env():
    return TransformedEnv(GymEnv("CartPole-v1"), Compose(InitTracker()))


def make_policy(env):
    head = TensorDictModule(nn.Linear(4, 2), ["embed"], ["action_value"])
    return TensorDictSequential(memory, head, QValueModule(spec=env.action_spec))


def verified(env, policy, **more):
    return rnncheck.verify(env=env, policy=policy, select=["WR103"], collector=False, **more)
"""
FUNCTIONS = "verified(make_env, make_policy, cases=1)"
OBJECTS = "verified(make_env(), make_policy(make_env()), cases=1)"
LAMBDAS = "verified(lambda: make_env(), lambda env: make_policy(env), cases=1)"
MADE = "verified(make_env, eval('lambda env: make_policy(env)'), cases=1)"  # is in no file
GUARD = "if __name__ == '__main__':\n    "


def program(line: str, folder: Path) -> Any:
    """The run that a program of the module and this line made."""
    (folder / "parted.py").write_text(MODULE + line)
    return runpy.run_path(str(folder / "parted.py"), run_name="__main__")["run"]


def replayed(case: str) -> Result:
    return CliRunner().invoke(app, ["replay", case])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "line", [FUNCTIONS, LAMBDAS, OBJECTS], ids=["functions", "lambdas", "objects"]
)
def test_parts_are_run_again_with_the_code_of_now(here: Path, line: str) -> None:
    run = program(f"{GUARD}run = {line}", here)
    (case,) = (cause.case for cause in run.causes)
    assert {file.name for file in (CASES / case).iterdir()} == {"case.json", "tensors.safetensors"}
    done = replayed(case)
    assert done.exit_code == ExitCode.FAILED, done.output
    assert "still failing" in done.output
    mended = "InitTracker(), memory.make_tensordict_primer())"
    (here / "parted.py").write_text(
        MODULE.replace("InitTracker())", mended) + GUARD + f"run = {line}"
    )
    now = replayed(case).exit_code  # an env that was an object is made again as it was
    assert now == (ExitCode.FAILED if line is OBJECTS else ExitCode.VERIFIED)
    (here / "parted.py").unlink()
    done = replayed(case)
    if line is FUNCTIONS:
        assert done.exit_code == ExitCode.NOT_SHOWN
        assert "there is no module parted in" in done.output


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{GUARD}run = {MADE}", "<lambda> has no name that it can be imported by"),
        (f"run = {FUNCTIONS}", "is the script's, and importing parted.py would run it (line 22)"),
    ],
    ids=["in no file", "not guarded"],
)
def test_what_cannot_be_kept_is_told(here: Path, line: str, said: str) -> None:
    run = program(line, here)
    assert run.exit_code == ExitCode.FAILED
    assert [cause.case for cause in run.causes] == [""]
    (told,) = (one for one in run.notices if one.startswith("no case of WR103 is stored: "))
    assert said in told
    assert not CASES.exists()


def test_none_is_stored_on_demand(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(f"{GUARD}run = {FUNCTIONS.replace('cases=1', 'cases=0')}", here)
    program(f"{GUARD}run = {FUNCTIONS.replace(', cases=1', '')}", here)  # RNNCHECK_CASES is 0
    assert not CASES.exists()
    monkeypatch.setenv("RNNCHECK_CASES", "soon")
    with pytest.raises(rnncheck.UserError, match="RNNCHECK_CASES is 'soon'"):
        program(f"{GUARD}run = {FUNCTIONS.replace(', cases=1', '')}", here)


def test_parts_that_are_cut_off_cannot_run(here: Path) -> None:
    run = program(f"{GUARD}run = {OBJECTS}", here)
    file = CASES / run.causes[0].case / "case.json"
    told = json.loads(file.read_text())
    told["parts"]["nodes"] = told["parts"]["nodes"][:2]
    file.write_text(json.dumps(told))
    done = replayed(run.causes[0].case)
    assert done.exit_code == ExitCode.NOT_SHOWN, done.output
    assert "cannot run here" in done.output
