"""Whose code the other side runs: an environment that has the project from elsewhere, and what is
shared nevertheless."""

from __future__ import annotations

import json
import os
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from rnncheck.bench.messages import PipelineContents
from rnncheck.bench.sides import Side
from rnncheck.errors import UserError
from rnncheck.gate.code import Other, copies, importable_from
from rnncheck.gate.installed import distribution_of, side_of_python
from rnncheck.results.gate import Ruling
from rnncheck.results.model import Environment

HERE, THERE = "LIMIT = 1\n", "LIMIT = 2\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a package at its root and a spec in a folder of its own."""
    folder = tmp_path / "here"
    for path, text in {
        "pyproject.toml": '[project]\nname = "my-agent"\n',
        "my_agent/__init__.py": HERE,
        "configs/spec.yaml": "",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """The site-packages of an environment that has nothing."""
    venv.create(tmp_path / "env", symlinks=os.name != "nt")
    (found,) = (tmp_path / "env").rglob("site-packages")
    return found


def install(environment: Path, *, direct: Path | None = None, code: str | None = None) -> None:
    """What pip would leave of my-agent."""
    told = environment / "my_agent-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: my-agent\nVersion: 1\n")
    (told / "RECORD").write_text("" if code is None else "my_agent/__init__.py,,\n")
    if direct is not None:
        about = {"url": direct.as_uri(), "dir_info": {"editable": True}}
        (told / "direct_url.json").write_text(json.dumps(about))
    if code is not None:
        (environment / "my_agent").mkdir()
        (environment / "my_agent" / "__init__.py").write_text(code)


def other(project: Path, environment: Path) -> Other:
    python = str(next(environment.parents[2].glob("bin/python")))
    return side_of_python(python, project / "configs" / "spec.yaml", ())


def said(other: Other, *ran: Path, torchrl: str = "old") -> list[tuple[Ruling, str]]:
    """Of the code; the other side has another TorchRL."""
    machine = Environment("3.11", "Linux", {"torchrl": "new"}, "cpu", 1)
    mine, here = Side("here", "", other.side.spec), PipelineContents((), machine)
    there = PipelineContents(tuple(map(str, ran)), replace(machine, packages={"torchrl": torchrl}))
    items = list(other.items(mine, here, there))
    assert any(item.name == "libraries" for item in items) is (torchrl == "old")
    return [(item.ruling, item.reason) for item in items if item.name != "libraries"]


def test_what_is_not_installed_there_is_shared(project: Path, environment: Path) -> None:
    found = other(project, environment)
    assert found.side.spec == str(project / "configs" / "spec.yaml")
    assert not said(found, project / "my_agent" / "__init__.py")


@pytest.mark.parametrize("code", [None, HERE])
def test_the_same_checkout_or_the_same_text_is_shared(
    project: Path, environment: Path, code: str | None
) -> None:
    install(environment, direct=project if code is None else None, code=code)
    found = other(project, environment)
    assert found.side.folder is None
    assert not said(found, project / "my_agent" / "__init__.py")


def test_an_installation_of_another_checkout_is_a_side_of_its_own(
    project: Path, environment: Path, tmp_path: Path
) -> None:
    checkout = tmp_path / "base"
    install(environment, direct=checkout)
    with pytest.raises(UserError, match=r"there is no configs.spec\.yaml"):
        other(project, environment)
    for path, text in {"configs/spec.yaml": "", "my_agent/__init__.py": THERE}.items():
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text(text)
    found = other(project, environment)
    assert found.side.spec == str(checkout / "configs" / "spec.yaml")
    assert found.side.folder == checkout
    assert found.side.importable[0] == str(checkout)
    assert [one for one, _ in said(found, checkout / "my_agent" / "__init__.py")] == [Ruling.NOTED]
    told = said(found, project / "my_agent" / "__init__.py")
    assert [one for one, _ in told] == [Ruling.NOTED, Ruling.FAILED]
    assert "was not compared" in told[1][1]


def test_an_installed_package_of_another_version_is_hidden_by_nothing_that_is_inherited(
    project: Path, environment: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(environment, code=THERE)
    monkeypatch.chdir(project)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = other(project, environment)
    assert found.side.importable == (str(tmp_path),)
    assert [one for one, _ in said(found)] == [Ruling.NOTED]
    told = said(found, project / "my_agent" / "__init__.py")
    assert [one for one, _ in told] == [Ruling.NOTED, Ruling.UNCLEAR]


def test_a_side_that_is_this_one_again_is_told(project: Path, environment: Path) -> None:
    found = other(project, environment)
    assert [one for one, _ in said(found, torchrl="new")] == [Ruling.NOTED]
    assert not said(found, project / "my_agent" / "__init__.py", torchrl="new")


def test_a_package_in_a_folder_that_only_the_path_names(
    project: Path, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "lib").mkdir()
    (project / "my_agent").rename(project / "lib" / "my_agent")
    install(environment, code=THERE)
    assert not said(other(project, environment))  # nobody knows of it
    monkeypatch.setenv("PYTHONPATH", str(project / "lib"))
    found = other(project, environment)
    assert str(project / "lib") not in found.side.importable
    assert [one for one, _ in said(found)] == [Ruling.NOTED]


def test_an_interpreter_is_asked_for_what_it_has(environment: Path) -> None:
    python = str(next(environment.parents[2].glob("bin/python")))
    assert distribution_of(python, "my-agent") is None
    install(environment, code=THERE)
    found = distribution_of(python, "my_agent")
    assert found is not None
    assert found.checkout is None
    assert found.files == {
        "my_agent/__init__.py": (environment / "my_agent" / "__init__.py").resolve()
    }


@pytest.mark.parametrize("answer", ["exit 3", "echo what", "true"])
def test_an_interpreter_that_cannot_say_has_none(tmp_path: Path, answer: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{answer}\n")
    python.chmod(0o755)
    assert distribution_of(str(python), "my-agent") is None
    python.write_text(f'#!/bin/sh\necho loaded\nexec {sys.executable} "$@"\n')
    assert distribution_of(str(python), "pytest") is not None


@pytest.mark.parametrize("text", ["project = 1\n", "[project", "[tool.ruff]\n"])
def test_a_project_that_has_no_name_is_shared(project: Path, environment: Path, text: str) -> None:
    install(environment, code=THERE)
    (project / "pyproject.toml").write_text(text)
    assert not said(other(project, environment), project / "my_agent" / "__init__.py")


def test_a_folder_of_the_path_is_looked_for_in_the_other_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, tree, away = tmp_path / "root", tmp_path / "root" / ".trees" / "base", tmp_path / "away"
    for folder in (root / "libs" / "nets", tree / "libs" / "nets", tree / "src", away):
        folder.mkdir(parents=True)
    inside = tree / "lib" / "python3" / "site-packages"
    inside.mkdir(parents=True)
    monkeypatch.chdir(root)
    monkeypatch.setenv("PYTHONPATH", f"{root / 'libs' / 'nets'}{os.pathsep}{away}")
    path = [str(root / "lib" / "python3" / "site-packages"), *sys.path]
    found = importable_from(tree, tree, root, path)
    assert found == tuple(map(str, (tree / "src", tree, tree / "libs" / "nets", away)))


def test_a_file_that_is_alike_or_lacking_there_is_no_matter(tmp_path: Path) -> None:
    root, tree = tmp_path / "root", tmp_path / "root" / ".trees" / "base"
    tree.mkdir(parents=True)
    own = copies(root, tree)
    assert own(tree / "a.py") is None
    assert own(tmp_path / "a.py") is None
    assert own(root / "a.py") == tree / "a.py"
    for folder, text in ((root, HERE), (tree, HERE)):
        (folder / "a.py").write_text(text)
    (root / "new.py").write_text(HERE)
    side = side_of_python(sys.executable, root / "spec.yaml", ()).side
    assert not said(Other(side, own), root / "a.py", root / "new.py", tree / "a.py")
    (root / "a.py").write_text(THERE)
    assert [one for one, _ in said(Other(side, own), root / "a.py")] == [Ruling.FAILED]
    about = PipelineContents((str(root / "a.py"),), Environment("3.11", "Linux", {}, "cpu", 1))
    (item,) = Other(side, own).items(side, about, about)  # nor is it called the same code
    assert item.ruling is Ruling.FAILED


@pytest.mark.parametrize("told", ["", "hello", "3", '{"files": 3}', '{"files": {}, "direct": 3}'])
def test_an_interpreter_that_answers_nonsense_has_no_such_project(
    tmp_path: Path, told: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nprint({told!r})\n")
    python.chmod(0o755)
    assert distribution_of(str(python), "my-agent") is None
