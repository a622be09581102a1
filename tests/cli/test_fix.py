"""``verify --fix``: what is shown, what is written, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Runner

BROKEN = Path(__file__).parents[2] / "fixtures" / "broken"
NO_TRACKER = """
from torchrl.envs import Compose, GymEnv, TransformedEnv
from torchrl.modules import LSTMModule


def make_env():
    memory = LSTMModule(input_size=4, hidden_size=24, in_key="observation", out_key="embed")
    return TransformedEnv(GymEnv("CartPole-v1"), Compose(memory.make_tensordict_primer()))
"""


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copy(BROKEN / f"{name}.yaml", folder / "spec.yaml"))


def test_a_patch_is_shown_and_written_and_then_there_is_nothing_to_patch(
    rnncheck: Runner, tmp_path: Path
) -> None:
    spec = copied("wr102_missing_init_tracker", tmp_path)
    before = spec.read_text()
    asked = ("verify", "spec.yaml", "--select", "WR102", "--no-repair", "--fix")
    shown = rnncheck(*asked, cwd=tmp_path)
    assert shown.returncode == 1
    assert "patch for WR102, with InitTracker among" in shown.stdout
    assert "+++ b/spec.yaml\n" in shown.stdout and "\n+    - InitTracker\n" in shown.stdout
    assert spec.read_text() == before
    written = rnncheck(*asked, "--write", cwd=tmp_path)
    assert written.returncode == 1 and "written: spec.yaml" in written.stdout
    added = set(spec.read_text().splitlines()) - set(before.splitlines())
    assert added == {"    - InitTracker"}
    green = rnncheck(*asked, cwd=tmp_path)
    assert green.returncode == 0 and "no patch: no check failed" in green.stdout


def test_a_factory_is_patched_and_a_report_on_standard_output_stays_whole(
    rnncheck: Runner, tmp_path: Path
) -> None:
    spec = copied("wr102_missing_init_tracker", tmp_path)
    head, _, rest = spec.read_text().partition("env:")
    spec.write_text(
        f'{head}env: {{factory: "mine:make_env"}}\npolicy:{rest.partition("policy:")[2]}'
    )
    (tmp_path / "mine.py").write_text(NO_TRACKER)
    asked = ("verify", "spec.yaml", "--select", "WR102", "--no-repair", "--fix")
    done = rnncheck(*asked, "--report", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["exit_code"] == done.returncode == 1
    assert "make_tensordict_primer(), InitTracker()))" in done.stderr
    assert (tmp_path / "mine.py").read_text() == NO_TRACKER


@pytest.mark.slow
def test_where_no_patch_is_known_that_is_said(rnncheck: Runner, tmp_path: Path) -> None:
    spec = copied("wr108_env_breaks_its_specs", tmp_path)
    shutil.copy(BROKEN / "wr108_env_breaks_its_specs.py", tmp_path)
    before = spec.read_text()
    done = rnncheck(
        "verify", "spec.yaml", "--select", "WR108", "--no-repair", "--fix", "--write", cwd=tmp_path
    )
    assert done.returncode == 1 and "no patch: none is known for WR108" in done.stdout
    assert spec.read_text() == before


def test_write_alone_is_refused(rnncheck: Runner) -> None:
    done = rnncheck("verify", str(BROKEN / "wr102_missing_init_tracker.yaml"), "--write")
    assert done.returncode == 2
    assert done.stderr == "error: --write writes a patch\n  use it with --fix\n"


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["\r\n", "\n"])
def test_the_files_ends_of_lines_stay(rnncheck: Runner, tmp_path: Path, ends: str) -> None:
    spec = copied("wr105_random_initial_state", tmp_path)
    shutil.copy(BROKEN / "plain_cell.py", tmp_path)
    spec.write_text(spec.read_text(), newline=ends)
    asked = ("--select", "WR105", "--no-repair", "--fix", "--write")
    done = rnncheck("verify", "spec.yaml", *asked, cwd=tmp_path)
    assert "written: spec.yaml" in done.stdout
    raw = spec.read_bytes()
    assert b"random:" not in raw and raw.count(b"\r\n") == (raw.count(b"\n") if ends != "\n" else 0)
