"""The house style of what users read, as far as it can be tested: see CONTRIBUTING, Words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rnncheck.checks.catalogue import entries, prose
from website.drawing import drawings

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FOLDERS = "start", "tutorials", "guides", "concepts"
PAGES = sorted(
    [ROOT / "README.md", DOCS / "index.md", DOCS / "faq.md", DOCS / "commands.md"]
    + [ROOT / "SECURITY.md"]
    + [file for name in FOLDERS for file in (DOCS / name).glob("*.md")]
)
LONGEST = 30  # words of a sentence on a page: chosen, what is understood at one reading
LONGEST_OF_A_CHECK = 45  # ... of a check's text, which has lists in it
SUMMARY = 25  # words of the fault that a check is named after
TERMS = DOCS / "concepts" / "glossary.md"

FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
NO_PROSE = re.compile(r"^(?:\||#|!\[).*$", re.MULTILINE)  # tables, headings, drawings
TERM = re.compile(r"\{term\}`(?:[^`<]*<)?([^`<>]+)>?`")


def sentences(text: str) -> list[str]:
    """The sentences of Markdown prose; a list's item is one at least."""
    plain = NO_PROSE.sub("\n", FENCED.sub("\n", text))
    plain = re.sub(r"`[^`]*`", "code", plain)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    parts = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s+", plain)
    found = [one for part in parts for one in re.split(r"(?<=[.!?:;])\s+", " ".join(part.split()))]
    return [one for one in found if one]


def too_long(text: str, most: int) -> list[str]:
    return [one for one in sentences(text) if len(one.split()) > most]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sentences_of_a_page_are_short(page: Path) -> None:
    assert too_long(page.read_text("utf-8"), LONGEST) == []


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.code)
def test_sentences_of_a_check_are_short(entry: Any) -> None:
    assert len(entry.summary.split()) <= SUMMARY
    told = [body for title, body in entry.sections.items() if title != "Example"]
    assert [one for body in told for one in too_long(prose(body), LONGEST_OF_A_CHECK)] == []


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.code)
def test_backticks_of_a_check_come_in_pairs(entry: Any) -> None:
    for text in (entry.summary, entry.holds, *entry.sections.values()):
        assert "``" not in text
        assert text.count("`") % 2 == 0


@pytest.mark.parametrize("code", sorted(drawings()))
def test_a_drawing_is_told_in_a_short_sentence(code: str) -> None:
    assert too_long(drawings()[code].says, SUMMARY) == []
    assert drawings()[code].says.endswith(".")


def test_every_term_that_a_page_links_is_in_the_glossary() -> None:
    glossary = TERMS.read_text("utf-8").split("```{glossary}\n")[1].split("\n```")[0]
    defined = {line for line in glossary.splitlines() if line and not line.startswith(" ")}
    used = {term for page in PAGES for term in TERM.findall(page.read_text("utf-8"))}
    assert len(used) > 10
    assert {term.lower() for term in used} <= defined
    assert sorted(defined) == [line for line in glossary.splitlines() if line in defined]


def test_a_long_sentence_is_seen() -> None:
    long = " ".join(["word"] * 31) + "."
    assert too_long(f"Short. {long}\n\n```text\n{long}\n```\n", 30) == [long]
