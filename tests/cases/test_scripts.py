"""The case of a script that `rnncheck run` watched: the script is run again, or what was seen of it
is judged again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from rnncheck.cases.store import CASES
from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, planted

NAME = "step_loop.py"
FAULT = ("td = env.reset() if ended else step_mdp(td)", "td = env.reset()")
OWN_CLASS = (
    (
        "    torch.manual_seed(7)",
        "    class Head(nn.Linear):\n        pass\n\n    torch.manual_seed(7)",
    ),
    ("nn.Linear(16, 2)", "Head(16, 2)"),
)

Done = CompletedProcess[str]
Replay = Callable[..., Done]


def stored_in(folder: Path, run: Callable[..., Done], *args: str) -> tuple[Path, Done]:
    """The case of CL401 that `rnncheck run` stores in ``folder/scripts``, and what it printed."""
    where = ["--select", "CL401", "--cases", "5", *args]
    done = run("run", *where, f"scripts/{NAME}", cwd=folder)
    assert done.returncode == ExitCode.FAILED, done.stderr
    (case,) = (folder / "scripts" / CASES).iterdir()
    return case, done


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    planted(tmp_path / "scripts", NAME, FAULT)
    return tmp_path


def test_a_script_is_run_again(rnncheck: Replay, broken: Path) -> None:
    case, done = stored_in(broken, rnncheck)
    assert f"rnncheck replay {case.name}" in " ".join(done.stdout.split())
    assert {file.name for file in case.iterdir()} == {"case.json", "seen.zip"}
    done = rnncheck("replay", case.name, cwd=broken)  # where the script was started
    assert done.returncode == ExitCode.FAILED, done.stderr
    assert f"{NAME} as it is now" in done.stdout
    shutil.copy(SCRIPTS / NAME, broken / "scripts")
    done = rnncheck("replay", case.name, cwd=broken / "scripts")
    assert done.returncode == ExitCode.VERIFIED, done.stderr
    done = rnncheck("replay", case.name, "--stored", cwd=broken)
    assert done.returncode == ExitCode.FAILED, done.stderr
    assert f"what was seen of {NAME} then" in done.stdout


@pytest.mark.slow
def test_what_was_seen_stands_in_for_a_script_that_is_gone(rnncheck: Replay, broken: Path) -> None:
    case, _ = stored_in(broken, rnncheck)
    (broken / "scripts" / NAME).unlink()
    done = rnncheck("replay", case.name, cwd=broken)
    assert done.returncode == ExitCode.FAILED, done.stderr
    assert f"what was seen of {NAME} then: {NAME} is gone" in done.stdout
    done = rnncheck("replay", case.name, "--script", "repro.py", cwd=broken)
    assert done.returncode == ExitCode.USAGE
    assert "the case of a script has no program yet" in done.stderr


@pytest.mark.slow
def test_a_case_runs_no_script_outside_its_folder(rnncheck: Replay, broken: Path) -> None:
    case, _ = stored_in(broken, rnncheck)
    told = json.loads((case / "case.json").read_text())
    inside = broken / "scripts"
    (inside / NAME).rename(inside / "mine.py")
    (broken / "theirs.py").write_text("open('ran', 'w')\n")
    for change in (
        {"name": "../theirs.py"},
        {"name": "timeit", "module": True, "arguments": ["open('ran', 'w')"]},
    ):
        (case / "case.json").write_text(json.dumps(told | {"script": told["script"] | change}))
        done = rnncheck("replay", case.name, cwd=inside)
        assert "what was seen of" in done.stdout, done.stderr
    assert not list(broken.rglob("ran"))


@pytest.mark.slow
def test_what_cannot_be_kept_is_told_and_the_script_still_runs(
    rnncheck: Replay, broken: Path
) -> None:
    planted(broken / "scripts", NAME, FAULT, *OWN_CLASS)
    case, _ = stored_in(broken, rnncheck)
    done = rnncheck("replay", case.name, cwd=broken)
    assert done.returncode == ExitCode.FAILED, done.stderr
    done = rnncheck("replay", case.name, "--stored", cwd=broken)
    assert done.returncode == ExitCode.NOT_SHOWN
    assert f"what was seen of {NAME} is not stored: " in done.stdout
    assert "Head" in done.stdout
