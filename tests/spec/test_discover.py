"""The spec is found upward, and no further than the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.errors import SpecError
from rnncheck.spec.discover import discover


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository" / "a" / "b"
    folder.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", ["rnncheck.yaml", "rnncheck.yml"])
@pytest.mark.parametrize("up", [0, 1, 2])
def test_it_is_found_upward(deep: Path, name: str, up: int) -> None:
    folder = (deep, *deep.parents)[up]
    (folder / name).write_text("")
    assert discover(deep) == Path(*[".."] * up, name)


def test_the_nearest_one_counts(deep: Path) -> None:
    (deep / "rnncheck.yml").write_text("")
    (deep.parent / "rnncheck.yaml").write_text("")
    assert discover(deep) == Path("rnncheck.yml")


def test_the_repository_is_the_limit(deep: Path) -> None:
    (deep.parents[2] / "rnncheck.yaml").write_text("")
    with pytest.raises(SpecError, match=r"no rnncheck\.yaml here or above") as caught:
        discover(deep)
    assert "rnncheck init" in caught.value.hint
    assert str(deep.parents[1]) in caught.value.message


def test_a_worktree_has_a_git_file(deep: Path) -> None:
    (deep / ".git").write_text("gitdir: elsewhere\n")
    (deep.parent / "rnncheck.yaml").write_text("")
    with pytest.raises(SpecError):
        discover(deep)


def test_two_names_in_one_folder_are_refused(deep: Path) -> None:
    for name in ("rnncheck.yaml", "rnncheck.yml"):
        (deep / name).write_text("")
    with pytest.raises(SpecError, match="both"):
        discover(deep)


def test_a_folder_of_that_name_is_no_spec(deep: Path) -> None:
    (deep / "rnncheck.yaml").mkdir()
    with pytest.raises(SpecError, match="no rnncheck"):
        discover(deep)
