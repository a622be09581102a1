"""What becomes of a run where its outputs cannot be written: the others are, and the verdict
stands."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rnncheck.cli.app import app
from rnncheck.cli.outputs import Outputs
from rnncheck.errors import OutputError
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.store import default_store, prepare_store, store_run
from rnncheck.spec.load import load_spec
from rnncheck.spec.model import Spec
from tests.report.canned import BROKEN
from tests.small import PIPELINE

MOVED = """
import os, shutil
from pathlib import Path
from torchrl.envs import GymEnv, InitTracker, TransformedEnv

def make():
    {deed}
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    return TransformedEnv(env, InitTracker())
"""


@pytest.fixture(autouse=True)
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spec:
    """A spec in the working folder, named without it."""
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    Path("rnncheck.yaml").write_text(PIPELINE)
    return load_spec("rnncheck.yaml")


def prepared(spec: Spec, *reports: str) -> Outputs:
    return Outputs.prepared(spec, reports, quiet=False, verbose=False)


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(".rnncheck/runs/latest.json").read_text())
    return found


def test_a_store_that_is_gone_is_made_again(spec: Spec) -> None:
    outputs = prepared(spec)
    shutil.rmtree(".rnncheck")
    outputs.conclude(BROKEN)
    assert stored()["verdict"] == "failed"


def test_a_store_that_cannot_be_written_costs_nothing_else(
    spec: Spec, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = prepared(spec, "console", "junit=r.xml")
    shutil.rmtree(".rnncheck")
    Path(".rnncheck").write_text("a file")
    outputs.conclude(BROKEN)
    told = capsys.readouterr()
    assert told.err.startswith("error: the result is not written: ")
    assert len(told.err.splitlines()) == 1
    assert "exit 1 (a check failed)" in told.out
    assert "the result is not written" in " ".join(told.out.split())
    assert "WR103" in Path("r.xml").read_text()


def test_a_report_that_cannot_be_written_costs_nothing_else(
    spec: Spec, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = prepared(spec, "junit=r.xml", "json=r.json", "sarif=s.json")
    Path("r.json").mkdir()
    outputs.conclude(BROKEN)
    told = capsys.readouterr()
    assert told.err.startswith("error: the json report is not written: ")
    assert "WR103" in Path("r.xml").read_text() and "WR103" in Path("s.json").read_text()
    assert any("the json report is not written" in notice for notice in stored()["notices"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_under_one_report(spec: Spec, capsys: pytest.CaptureFixture[str]) -> None:
    prepared(spec, "json=/dev/full", "markdown=r.md").conclude(BROKEN)
    assert "No space left on device" in capsys.readouterr().err
    assert "WR103" in Path("r.md").read_text()
    assert stored()["verdict"] == "failed"


def test_another_working_folder_changes_no_path(spec: Spec, tmp_path: Path) -> None:
    outputs = prepared(spec, "json=r.json")
    (tmp_path / "b").mkdir()
    os.chdir(tmp_path / "b")
    outputs.conclude(BROKEN)
    assert Path.cwd() == tmp_path / "a"
    assert stored() == json.loads((tmp_path / "a" / "r.json").read_text())
    assert list((tmp_path / "b").iterdir()) == []
    assert spec.folder == tmp_path / "a"


def test_a_fault_of_ours_in_a_report_costs_no_other(
    spec: Spec, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = prepared(spec, "markdown=r.md", "console")
    outputs.conclude(replace(BROKEN, environment=None))  # type: ignore[arg-type]
    assert "please report it: AttributeError" in capsys.readouterr().err
    assert stored()["verdict"] == "failed"


# --- links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".rnncheck", ".rnncheck/runs"])
def test_a_folder_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).symlink_to(tmp_path / "other")
    with pytest.raises(OutputError, match="a link that leads out of the spec's folder"):
        prepare_store(default_store(Path("rnncheck.yaml")))
    done: Result = CliRunner().invoke(app, ["verify"])
    assert done.exit_code == ExitCode.USAGE
    assert "leads out of the spec's folder" in done.stderr
    assert [path for path in (tmp_path / "other").rglob("*") if path.is_file()] == []


def test_a_folder_that_leads_elsewhere_later_is_refused(spec: Spec, tmp_path: Path) -> None:
    outputs = prepared(spec)
    (tmp_path / "other").mkdir()
    shutil.rmtree(".rnncheck/runs")
    Path(".rnncheck/runs").symlink_to(tmp_path / "other")
    outputs.conclude(BROKEN)
    assert list((tmp_path / "other").iterdir()) == []


def test_files_that_are_links_are_not_followed(spec: Spec, tmp_path: Path) -> None:
    outputs = prepared(spec)
    Path(".rnncheck/.gitignore").unlink()
    for name in (".rnncheck/runs/latest.json", ".rnncheck/.gitignore"):
        Path(name).symlink_to(tmp_path / "precious")
    prepare_store(outputs.store)
    assert not (tmp_path / "precious").exists()
    (tmp_path / "precious").write_text("mine")
    store_run(BROKEN, outputs.store)
    assert (tmp_path / "precious").read_text() == "mine"
    assert not Path(".rnncheck/runs/latest.json").is_symlink()
    assert stored()["verdict"] == "failed"


def test_a_link_inside_the_folder_of_the_spec_is_fine(spec: Spec) -> None:
    Path("results").mkdir()
    Path(".rnncheck").symlink_to("results")
    prepared(spec).conclude(BROKEN)
    assert stored()["verdict"] == "failed"


# --- a whole run ---------------------------------------------------------------------------------

DEEDS = {
    "it changes the working folder": "os.chdir('/')",
    "it removes the store": "shutil.rmtree(Path(__file__).parent / '.rnncheck')",
}


def test_a_factory_that_moves_away(tmp_path: Path) -> None:
    Path("moved.py").write_text(MOVED.format(deed="; ".join(DEEDS.values())))
    head, _, tail = PIPELINE.partition("env:\n")
    own = f'{head}env: {{factory: "moved:make"}}\npolicy:{tail.partition("policy:")[2]}'
    Path("rnncheck.yaml").write_text(own)
    done = CliRunner().invoke(app, ["verify", "--select", "WR101", "--report", "json=r.json"])
    os.chdir(tmp_path / "a")
    assert done.exit_code == stored()["exit_code"], done.output
    assert {stage["stage"]: stage["outcome"] for stage in stored()["stages"]}["env"] == "passed"
    assert stored() == json.loads(Path("r.json").read_text())
