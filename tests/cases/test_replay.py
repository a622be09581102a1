"""A failing case is stored, run again and removed; what is in the way costs no verdict."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save
from typer.testing import CliRunner, Result

import rnncheck
from rnncheck.cases.store import CASES
from rnncheck.cli.app import app
from rnncheck.results.exit_codes import ExitCode

FIXTURE = (
    Path(__file__).parents[2] / "fixtures" / "broken" / "wr102_missing_init_tracker.yaml"
).read_text(encoding="utf-8")
BROKEN = FIXTURE.partition("collect:")[0]  # the fault is there before anything is collected
FIXED = BROKEN.replace("transforms:\n", "transforms:\n    - InitTracker\n")
SPEC = Path("rnncheck.yaml")


def cli(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def verified(*args: str) -> Result:
    return cli("verify", "--select", "WR102", "--no-repair", "--cases", "20", *args)


def latest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(".rnncheck/runs/latest.json").read_text())
    return found


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the broken spec and its case."""
    folder = tmp_path_factory.mktemp("stored")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        SPEC.write_text(BROKEN)
        assert verified().exit_code == ExitCode.FAILED
    return folder


@pytest.fixture
def case(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the case in a copy of all that, which is the working folder."""
    shutil.copytree(stored, tmp_path / "a")
    monkeypatch.chdir(tmp_path / "a")
    (found,) = CASES.iterdir()
    return found


def test_the_finding_names_its_case(case: Path) -> None:
    (cause,) = latest()["causes"]
    assert (cause["code"], cause["case"]) == ("WR102", case.name)
    told = cli("report").output
    assert f"rnncheck replay {case.name}" in " ".join(told.split())


def test_a_case_is_json_and_numbers(case: Path) -> None:
    assert {file.name for file in case.iterdir()} == {"case.json", "tensors.safetensors"}
    found = json.loads((case / "case.json").read_text())
    assert found["repeats"] is True
    assert found["environment"]["packages"]["torchrl"]
    assert found["seen"]["message"] == latest()["checks"][0]["findings"][0]["message"]


def test_what_is_unchanged_still_fails(case: Path) -> None:
    done = cli("replay", case.name)
    assert done.exit_code == ExitCode.FAILED
    assert "WR102 missing-init-tracker: still failing" in done.output


def test_what_is_mended_is_fixed_and_what_was_stored_is_not(case: Path) -> None:
    SPEC.write_text(FIXED)
    done = cli("replay", case.name)
    assert done.exit_code == ExitCode.VERIFIED, done.output
    assert ": fixed" in done.output
    done = cli("replay", case.name, "--stored")
    assert done.exit_code == ExitCode.FAILED, done.output


def test_a_spec_that_is_gone_is_taken_from_the_case(case: Path) -> None:
    SPEC.unlink()
    done = cli("replay", case.name)
    assert done.exit_code == ExitCode.FAILED
    assert "the stored spec: rnncheck.yaml is gone" in done.output


def test_a_spec_that_cannot_be_built_cannot_run_here(case: Path) -> None:
    SPEC.write_text(BROKEN.replace("CartPole-v1", "NoSuchPole-v1"))
    done = cli("replay", case.name)
    assert done.exit_code == ExitCode.NOT_SHOWN, done.output
    assert "cannot run here" in done.output
    assert "NoSuchPole" in done.output


def test_the_command_ends_without_a_trace(case: Path, rnncheck: Any) -> None:
    done = rnncheck("replay", case.name, cwd=Path.cwd())
    assert done.returncode == ExitCode.FAILED
    assert "still failing" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format": 7}', "this case has format 7; this rnncheck runs format 2"),
        ('{"format": 1}', "this case has format 1; this rnncheck runs format 2"),
        ('{"a": 1}', "this is no stored case: `format` is missing"),
        ('{"format": 2}', "id: field required"),
        ("{", "this is not JSON"),
    ],
)
def test_a_case_of_another_kind_is_refused(case: Path, text: str, said: str) -> None:
    (case / "case.json").write_text(text)
    done = cli("replay", case.name)
    assert done.exit_code == ExitCode.USAGE
    assert said in done.output
    assert said in cli("replay", "--list").output


OTHERS = save({f"t{number}": torch.zeros(2, dtype=torch.int16) for number in range(99)})


@pytest.mark.parametrize(
    "data",
    [b"", b"\x10\0\0\0\0\0\0\0{}", pickle.dumps([1]), OTHERS],
    ids=["empty", "cut", "a pickle", "of others"],
)
def test_broken_tensors_cannot_run(case: Path, data: bytes) -> None:
    (case / "tensors.safetensors").write_bytes(data)
    done = cli("replay", case.name, "--stored")
    assert done.exit_code == ExitCode.NOT_SHOWN
    assert "the case's tensors cannot be read" in done.output
    assert cli("replay", case.name).exit_code == ExitCode.FAILED  # which needs none of them


def test_an_unknown_id_gets_the_known_ones(case: Path) -> None:
    done = cli("replay", "wr102-00000000")
    assert done.exit_code == ExitCode.USAGE
    assert "there is no case 'wr102-00000000'" in done.output
    assert case.name in done.output
    assert cli("replay").exit_code == ExitCode.USAGE


def test_cases_are_listed_and_removed(case: Path) -> None:
    assert f"{case.name}  " in cli("replay", "--list").output
    assert "1 case removed" in cli("replay", case.name, "--prune").output
    assert list(CASES.iterdir()) == []
    assert "0 cases removed" in cli("replay", "--prune").output


def test_a_folder_of_the_users_is_never_removed(case: Path) -> None:
    shutil.copytree(case, "mine")
    Path("mine", "notes.txt").write_text("precious")
    done = cli("replay", "--prune", "mine")
    assert done.exit_code == ExitCode.USAGE
    assert "nothing is removed" in done.output
    assert Path("mine", "notes.txt").read_text() == "precious"


def test_a_case_that_was_put_elsewhere_is_run(case: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(case, tmp_path / "moved")
    done = cli("replay", str(moved))
    assert done.exit_code == ExitCode.FAILED, done.output
    assert "the stored spec: rnncheck.yaml is gone" in done.output


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("x" * 5000,), "there is no case 'xxx"),
        (("",), "there is no case ''"),
        (("--list", "--prune"), "--list and --prune ask for different things"),
        (("wr102", "--list"), "leave the id out"),
    ],
    ids=["long", "empty", "two", "list"],
)
def test_a_wrong_call_gets_one_sentence(case: Path, args: tuple[str, ...], said: str) -> None:
    done = cli("replay", *args)
    assert done.exit_code == ExitCode.USAGE, done.output
    assert said in done.output


def test_the_same_fault_has_the_same_case(case: Path) -> None:
    before = json.loads((case / "case.json").read_text())
    assert verified().exit_code == ExitCode.FAILED
    (again,) = CASES.iterdir()
    after = json.loads((again / "case.json").read_text())
    assert again.name == case.name
    assert (after["smaller"], after["seen"]) == (before["smaller"], before["seen"])


def test_none_is_stored_on_demand(case: Path) -> None:
    shutil.rmtree(CASES)
    assert verified("--cases", "0").exit_code == ExitCode.FAILED
    assert not CASES.exists()
    assert latest()["causes"][0]["case"] == ""


def test_a_folder_that_cannot_be_written_costs_no_verdict(case: Path) -> None:
    shutil.rmtree(CASES)
    CASES.write_text("in the way")
    done = verified()
    assert done.exit_code == ExitCode.FAILED
    assert "no case of WR102 is stored" in " ".join(latest()["notices"])


def test_a_gate_stores_one_too(case: Path) -> None:
    shutil.rmtree(case)
    assert cli("gate", "--select", "WR102", "--cases", "20").exit_code == ExitCode.FAILED
    assert latest()["command"] == "gate"
    assert latest()["causes"][0]["case"] == case.name
    assert cli("replay", case.name).exit_code == ExitCode.FAILED


def test_so_does_python_of_a_spec(case: Path) -> None:
    shutil.rmtree(case)
    run = rnncheck.verify(SPEC, select=["WR102"], cases=20)
    assert [one.case for one in run.causes] == [case.name]
    assert cli("replay", case.name).exit_code == ExitCode.FAILED


def test_one_below_the_working_folder_is_found(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("replay", case.name).exit_code == ExitCode.FAILED
    assert cli("replay", "wr102-00000000").exit_code == ExitCode.USAGE


def test_a_link_out_of_the_folder_is_not_followed(case: Path, tmp_path: Path) -> None:
    shutil.rmtree(CASES)
    outside = tmp_path / "outside"
    outside.mkdir()
    CASES.symlink_to(outside)
    assert verified().exit_code == ExitCode.FAILED
    assert list(outside.iterdir()) == []
    assert "is a link that leads out" in " ".join(latest()["notices"])


def test_a_check_without_a_program_says_so(case: Path) -> None:
    stored = json.loads((case / "case.json").read_text())
    (case / "case.json").write_text(json.dumps({**stored, "code": "EQ203"}))
    done = cli("replay", case.name, "--script", "repro.py")
    assert done.exit_code == ExitCode.USAGE
    said = " ".join(done.output.split())
    assert "EQ203 has no program: it is judged against the cell's equations in float64" in said
    assert "These have one: BD301 to BD307" in said
    assert not Path("repro.py").exists()
