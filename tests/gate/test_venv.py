"""The environment of another revision: when it is needed, whose files say what is in it, and in
what order."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from rnncheck.gate.venv import HARNESS, differ, installations, project_of

PROJECT = '[project]\nname = "mine"\nversion = "1"\ndependencies = ["torchrl"]\n'


@pytest.mark.parametrize(
    ("changed", "different"),
    [
        (PROJECT, False),
        (PROJECT + "[tool.ruff]\nline-length = 100\n", False),
        (PROJECT.replace('"1"', '"2"'), False),
        (PROJECT.replace("torchrl", "torchrl==0.12.0"), True),
        (PROJECT + '[dependency-groups]\ndev = ["pytest"]\n', True),
        (PROJECT + "[tool.uv]\nindex = []\n", True),
        ("[project", True),
    ],
)
def test_a_pyproject_differs_where_it_asks_for_other_packages(
    tmp_path: Path, changed: str, different: bool
) -> None:
    one, other = tmp_path / "one" / "pyproject.toml", tmp_path / "other" / "pyproject.toml"
    for file, text in ((one, PROJECT), (other, changed)):
        file.parent.mkdir()
        file.write_text(text)
    assert differ(one, other) is different
    other.unlink()
    assert differ(one, other)


def test_other_files_differ_by_their_text(tmp_path: Path) -> None:
    assert differ(tmp_path / "requirements.txt", tmp_path / "requirements.txt")


def test_the_project_of_a_spec_is_the_nearest_that_says_what_it_installs(tmp_path: Path) -> None:
    spec = tmp_path / "agents" / "specs" / "rnncheck.yaml"
    assert project_of(spec, tmp_path) == tmp_path
    spec.parent.mkdir(parents=True)
    (tmp_path / "agents" / "requirements-dev.txt").touch()
    assert project_of(spec, tmp_path) == tmp_path / "agents"


def test_torch_comes_first_then_the_project_then_what_the_harness_lacks(tmp_path: Path) -> None:
    here = f"torch=={version('torch').partition('+')[0]}"
    assert installations(tmp_path) == [[here], list(HARNESS)]
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "requirements.txt").write_text("torchrl\ntorchvision==0.1\n")
    assert installations(tmp_path) == [
        [here],
        ["--requirement", str(tmp_path / "requirements.txt")],
        ["--editable", str(tmp_path)],
        list(HARNESS),
    ]
    pins = tmp_path / "constraints.txt"
    pins.write_text("numpy==2.0\ntorch==2.9.1  # the one with our fix\n")
    torch, *others = installations(tmp_path)
    assert torch == ["--constraint", str(pins), "torch==2.9.1"]
    assert all(one[:2] == ["--constraint", str(pins)] for one in others)
