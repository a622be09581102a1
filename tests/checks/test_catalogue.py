"""The catalogue against the check files as they are, and its parser against written ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rnncheck.checks import catalogue
from rnncheck.errors import UserError
from rnncheck.results.families import BY_FOLDER, FAMILIES
from rnncheck.results.model import Severity, Stage

WRITTEN = '''"""The state after a reset depends on
what came before it.

Checks
    One row with two segments;
    the first is perturbed.

    - first point
    - second point

Why it matters
    Gradients are wrong.

Says nothing when
    There is one segment.

Fix
    Add InitTracker.

Example
    def f():
        return 1
"""

RULE = Rule(
    code="BD999", name="some-fault", severity=Severity.WARNING, stage=Stage.POLICY, run=run
)
'''


@pytest.mark.parametrize("entry", catalogue.entries(), ids=lambda entry: entry.code)
def test_every_check_explains_itself(entry: catalogue.Entry) -> None:
    assert entry.summary.count("\n") == 0
    assert entry.summary.endswith(".")
    assert [title for title, body in entry.sections.items() if not body.strip()] == []
    assert tuple(entry.sections) == catalogue.DOCSTRING_SECTIONS
    assert re.fullmatch(r"[a-z].{8,}[^.]", entry.holds)


@pytest.mark.parametrize("entry", catalogue.entries(), ids=lambda entry: entry.code)
def test_a_check_is_named_as_its_file(entry: catalogue.Entry) -> None:
    assert entry.file.stem == f"{entry.code.lower()}_{entry.name.replace('-', '_')}"
    assert re.fullmatch(r"[A-Z]{2}\d{3}", entry.code)
    assert entry.code.startswith(BY_FOLDER[entry.family].prefix)


def test_every_family_has_a_folder_with_checks_and_every_folder_a_family() -> None:
    assert {entry.family for entry in catalogue.entries()} == {one.folder for one in FAMILIES}
    assert len({one.prefix for one in FAMILIES}) == len(FAMILIES)


@pytest.mark.parametrize("entry", catalogue.entries(), ids=lambda entry: entry.code)
def test_code_is_marked_as_markdown_does(entry: catalogue.Entry) -> None:
    for text in (entry.summary, *entry.sections.values()):
        assert "``" not in text
        assert text.count("`") % 2 == 0


def test_there_are_checks_and_no_code_or_name_is_used_twice() -> None:
    found = catalogue.entries()
    assert found
    assert len({entry.code for entry in found}) == len(found)
    assert len({entry.name for entry in found}) == len(found)


def test_a_written_check_is_read(tmp_path: Path) -> None:
    file = tmp_path / "boundary" / "bd999_some_fault.py"
    file.parent.mkdir()
    file.write_text(WRITTEN)
    entry = catalogue.read(file, "some.module", "boundary")
    assert (entry.code, entry.name) == ("BD999", "some-fault")
    assert (entry.family, entry.module) == ("boundary", "some.module")
    assert (entry.severity, entry.stage) == (Severity.WARNING, Stage.POLICY)
    assert entry.summary == "The state after a reset depends on what came before it."
    assert entry.sections["Example"] == "def f():\n    return 1"
    assert catalogue.prose(entry.sections["Checks"]) == (
        "One row with two segments; the first is perturbed.\n\n- first point\n- second point"
    )


def test_a_check_without_a_rule_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bd999_some_fault.py"
    file.write_text('"""A fault."""\n')
    with pytest.raises(LookupError, match="bd999_some_fault"):
        catalogue.read(file, "some.module", "boundary")


def test_match_takes_prefixes_codes_and_names() -> None:
    everything = catalogue.entries()
    first = everything[0]
    family = tuple(entry for entry in everything if entry.code[:2] == first.code[:2])
    assert catalogue.builtin().match([first.code[:2].lower()]) == family
    assert catalogue.builtin().match([first.name, first.code]) == (first,)
    assert catalogue.builtin().match([]) == ()


@pytest.mark.parametrize("wrong", ["", "XX", "no-such-check"])
def test_a_selection_of_nothing_is_an_error(wrong: str) -> None:
    with pytest.raises(UserError, match="no check is called"):
        catalogue.builtin().match([wrong])
