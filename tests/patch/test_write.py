"""Writing a patch, and importing what it would leave without writing it."""

from __future__ import annotations

import importlib
import stat
import sys
from pathlib import Path

import pytest

from rnncheck.errors import OutputError
from rnncheck.patch.imports import imported_from
from rnncheck.patch.write import write_patch
from rnncheck.results.patch import FileChange, Patch


def patch_of(*paths: Path) -> Patch:
    changes = (FileChange(p.name, str(p), "a: 1\nb: 2\n", "a: 1\nb: 3\n") for p in paths)
    return Patch(tuple(changes), ("WR102",), ("with more",))


def test_ends_of_lines_a_mark_and_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    path.chmod(0o750)
    write_patch(patch_of(path))
    assert path.read_bytes() == b"\xef\xbb\xbfa: 1\r\nb: 3\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"a: 1\nb: 9\n", "has changed since it was read; nothing is written"),
        (b"a: 1\r\nb: 2\n", "its lines end in several ways"),
        (b"\xff", "cannot be read"),
    ],
)
def test_a_file_that_is_another_one_is_refused_and_no_file_is_touched(
    tmp_path: Path, text: bytes, said: str
) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_bytes(b"a: 1\nb: 2\n")
    second.write_bytes(text)
    with pytest.raises(OutputError, match=said):
        write_patch(patch_of(first, second))
    assert (first.read_bytes(), second.read_bytes()) == (b"a: 1\nb: 2\n", text)


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file"):
        write_patch(patch_of(tmp_path / "gone.yaml"))


def test_a_diff_names_the_file_and_a_missing_last_newline() -> None:
    assert FileChange("spec.yaml", "/x/spec.yaml", "a: 1", "a: 2\n").diff == (
        "--- a/spec.yaml\n+++ b/spec.yaml\n@@ -1 +1 @@\n-a: 1\n"
        "\\ No newline at end of file\n+a: 2\n"
    )


def test_modules_are_made_of_the_patched_text_while_their_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "patched_module.py"
    path.write_text("VALUE = 1\n")
    with imported_from({path.resolve(): "VALUE = 2\n"}):
        assert importlib.import_module("patched_module").VALUE == 2
    del sys.modules["patched_module"]
    assert importlib.import_module("patched_module").VALUE == 1
    del sys.modules["patched_module"]
    assert path.read_text() == "VALUE = 1\n"


def test_a_module_that_the_patch_adds_is_imported_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path.resolve() / "added_module.py"
    with imported_from({path: "VALUE = 2\n"}):
        assert importlib.import_module("added_module").VALUE == 2
    del sys.modules["added_module"]
    assert not path.exists()
    added = Patch((FileChange(path.name, str(path), None, "VALUE = 2\n"),), ("LS701",), ())
    write_patch(added)
    assert path.read_text() == "VALUE = 2\n"
    with pytest.raises(OutputError, match="such a file by now"):
        write_patch(added)
