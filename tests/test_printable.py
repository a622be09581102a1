"""Texts that would act are shown, and do nothing."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hostile import PIECES, harmless
from hypothesis import given
from hypothesis import strategies as st

from rnncheck.errors import Place, UserError
from rnncheck.printable import (
    LONGEST,
    MOST_LINES,
    clean,
    clean_code,
    clean_lines,
    counted,
    json_text,
)

UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
SOUP = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join)


@given(st.text() | SOUP)
def test_clean_leaves_one_safe_line(value: str) -> None:
    cleaned = clean(value)
    assert cleaned == clean(cleaned)
    assert len(cleaned.splitlines()) <= 1
    assert all(unicodedata.category(c) not in UNSAFE for c in cleaned)
    harmless(cleaned)


@given(SOUP, st.integers(0, 40))
def test_it_is_harmless_wherever_a_line_is_wrapped(value: str, at: int) -> None:
    cleaned = clean(value)
    harmless(cleaned[:at] + "\n  " + cleaned[at:])


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("\x9b31mred", "31mred"),
        ("a\tb\r\nc", "a b  c"),
        ("\u202eabc\u2066", "<U+202E>abc<U+2066>"),
        ("\ud800x", "x"),
        ("x ::error file=a::b", "x : :error file=a::b"),
        (":\u200b:Stop-Commands::x", ": :Stop-Commands::x"),
        ("##[error]x ##vso[task]", "# #[error]x # #vso[task]"),
        ("a.yaml::BD301 ## b", "a.yaml::BD301 ## b"),
    ],
)
def test_clean(value: str, cleaned: str) -> None:
    assert clean(value) == cleaned


def test_code_keeps_its_indentation() -> None:
    assert clean_code("\t  x = 1\x07") == "      x = 1"


def test_texts_are_bounded() -> None:
    cleaned = clean("x" * 10_000_000)
    assert len(cleaned) <= LONGEST
    assert cleaned.endswith(" more characters)")
    lines = clean_lines("a\n" * 1000).splitlines()
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == "... (800 more lines)"
    assert len(clean_code(" " * 10_000_000 + "x")) <= 2 * LONGEST


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | SOUP.map(lambda text: text.replace("\ud800", "")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SOUP, inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_json_reads_back_and_is_harmless(value: object) -> None:
    for indent in (None, 2):
        told = json_text(value, indent)
        assert json.loads(told) == value
        harmless(told)


def test_an_error_is_harmless() -> None:
    said = str(
        UserError(
            "unknown key '\x1b[2J\n::error::x'",
            place=Place("a\n::warning::\u202e.yaml", 1),
            accepted="\x07##[x]",
            hint="h\n::group::",
        )
    )
    harmless(said)
    assert said.splitlines()[0] == "a : :warning::<U+202E>.yaml:1: unknown key ' : :error::x'"


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (counted(1, "slice", "run on past an end"), "1 slice runs on past an end"),
        (counted(2, "slice", "run on past an end"), "2 slices run on past an end"),
        (counted(1, "step", "are isolated"), "1 step is isolated"),
        (counted(0, "entry", "hold numbers"), "0 entries hold numbers"),
        (counted(3, "batch"), "3 batches"),
        (counted(2, "join of rows", "go on"), "2 joins of rows go on"),
        (counted(1, "join of rows", "go on"), "1 join of rows goes on"),
        (counted(1, "key"), "1 key"),
        (counted(2, "key", "have no spec"), "2 keys have no spec"),
        (counted(1, "key", "have no spec"), "1 key has no spec"),
    ],
)
def test_what_is_counted_is_one_or_many(told: str, says: str) -> None:
    assert told == says
