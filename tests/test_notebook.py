"""A run in a notebook or an interpreter: one line, the page, files by their endings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rnncheck.errors import FindingsError, OutputError, UserError
from rnncheck.notebook import ShownRun, in_notebook
from rnncheck.results import store
from rnncheck.results.exit_codes import ExitCode
from tests.report.canned import BROKEN, HEALTHY, HOSTILE
from tests.report.drawn import DRAWN

RUN = ShownRun.of(DRAWN)


def test_it_says_of_itself_in_a_line() -> None:
    assert repr(RUN) == (
        "<rnncheck rnncheck verify configs/rnncheck.yaml of 'cartpole-drqn': failed; cause WR103 at"
        " configs/rnncheck.yaml:7; 4 failed, 3 passed>"
    )
    assert "verified" in repr(ShownRun.of(HEALTHY))
    assert len(repr(replace(RUN, command=HOSTILE)).splitlines()) == 1


def test_a_notebook_shows_the_page_without_the_page_around_it() -> None:
    shown = RUN._repr_html_()
    assert shown.count("<svg") == 3
    assert "<html" not in shown and "<body" not in shown
    assert shown.startswith("<style>") and shown.rstrip().endswith("</div>")
    style = shown[: shown.index("</style>")]
    rules = [line for line in style.splitlines()[1:] if "{" in line and not line.startswith("@")]
    assert all(line.lstrip().startswith(".rnncheck") for line in rules)  # nothing else is styled


@pytest.mark.parametrize("name", ["a.html", "a.json", "A.MD", "a.txt", "a.csv", "a.xml", "a.sarif"])
def test_it_is_saved_as_its_ending_says(name: str, tmp_path: Path) -> None:
    RUN.save(tmp_path / name)
    text = (tmp_path / name).read_text()
    assert "WR103" in text
    if name.endswith("json"):
        assert store.from_json(json.loads(text)) == DRAWN


def test_an_ending_that_stands_for_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'\.pdf' stands for no report format"):
        RUN.save(tmp_path / "a.pdf")
    with pytest.raises(OutputError):
        RUN.save(tmp_path / "nowhere" / "a.html")


def test_it_is_shown_as_text_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert not in_notebook()
    RUN.show()
    assert "training batch 0, (2, 8)" in capsys.readouterr().out


def test_its_exception_names_cause_place_and_fix() -> None:
    assert BROKEN.exit_code is ExitCode.FAILED
    with pytest.raises(FindingsError) as caught:
        RUN.raise_for_findings()
    cause, at, fix = str(caught.value).splitlines()[1:4]
    assert cause.startswith("WR103 missing-state-primer: ")
    assert at == "  at: configs/rnncheck.yaml:7"
    assert fix.startswith("  fix: append lstm.make_tensordict_primer()")
