"""The pages of the checks: each fault is drawn, and what a page says of its two pipelines is so.

The pages of `SAMPLE` are tried in every run of the tests, all of them where the slow ones run.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

import rnncheck
from rnncheck.checks.catalogue import entries
from rnncheck.results.model import Outcome
from website.check_pages import check_pages
from website.drawing import Drawing, drawings, svg

ROOT = Path(__file__).parent.parent
PAGES = check_pages(ROOT)
SAMPLE = {"WR103", "RP501"}
CODES = [
    pytest.param(entry.code, id=entry.code, marks=[] if entry.code in SAMPLE else pytest.mark.slow)
    for entry in entries()
]


def shown(code: str) -> list[str]:
    """The broken pipeline of a page, and the healthy one."""
    text = PAGES[f"checks/{code.lower()}.md"]
    names = re.findall(r"`(fixtures/[\w/]+\.yaml)`", text)
    assert len(names) == 2
    return names


def outcome(spec: str, code: str) -> Outcome:
    run = rnncheck.verify(ROOT / spec, select=[code])
    (check,) = run.checks
    return check.outcome


@pytest.mark.parametrize("code", CODES)
def test_the_broken_pipeline_fails_and_the_healthy_one_does_not(code: str) -> None:
    broken, healthy = shown(code)
    assert f"`rnncheck verify {broken} --select {code}`" in PAGES[f"checks/{code.lower()}.md"]
    assert outcome(broken, code) is Outcome.FAILED
    assert outcome(healthy, code) in (Outcome.PASSED, Outcome.NOT_APPLICABLE)


def test_every_fault_is_drawn() -> None:
    assert set(drawings()) == {entry.code for entry in entries()}


@pytest.mark.parametrize("code", sorted(drawings()))
def test_a_drawing_marks_what_is_wrong(code: str) -> None:
    drawing = drawings()[code]
    cells = [cell for _, row in drawing.lanes for cell in row]
    wrong = sum(cell.endswith("!") for cell in cells)
    assert wrong
    assert drawing.leak is None or max(drawing.leak) < len(drawing.columns)
    picture = ElementTree.fromstring(PAGES[f"checks/{code.lower()}.svg"])
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert len(texts) == len(drawing.columns) + len(drawing.lanes) + len(cells) + wrong
    assert texts.count("✗") == wrong
    assert picture.get("aria-label") == drawing.says
    assert f"]({code.lower()}.svg)" in PAGES[f"checks/{code.lower()}.md"]


def test_a_drawing_escapes_its_words() -> None:
    drawing = Drawing('a < "b"', (("x & y", ("<", "0!")),), ("0", "1"), (0, 1))
    texts: list[Any] = [element.text for element in ElementTree.fromstring(svg(drawing)).iter()]
    assert {"x & y", "<", "0", "✗"} <= set(texts)
