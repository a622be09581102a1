"""A page and a document are read from the top: the verdict, what is broken, the cause, its line."""

from __future__ import annotations

import pytest

from rnncheck.report.formats import render
from tests.report.canned import BROKEN


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_the_cause_comes_before_its_line_and_its_fix_and_these_before_all_else(form: str) -> None:
    told = render(BROKEN, form)
    parts = [
        "exit 1 (a check failed)",  # the verdict
        "acting carries state from step to step",  # a guarantee
        "WR103 missing-state-primer",
        "collection runs without memory",
        "configs/rnncheck.yaml:7:3",
        "transforms: [InitTracker]",
        "append lstm.make",
        "BD301 state-crosses-reset",
        "what it saw",  # the table of checks
    ]
    places = [told.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_what_passed_is_folded(form: str) -> None:
    told = render(BROKEN, form)
    assert told.count("<details>") == told.count("</details>") > 0
    before = told[: told.index("LSTMModule carries h and c")]
    assert before.count("<details>") == before.count("</details>") + 1
