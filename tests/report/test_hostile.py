"""Whoever wrote a result: every format stays a whole document, and nothing in it acts."""

from __future__ import annotations

import csv
import html.parser
import json
import random
from pathlib import Path
from typing import Any

import mutants
import pytest
from hostile import harmless
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft202012Validator
from junitparser import JUnitXml
from markdown_it import MarkdownIt

from rnncheck.report import sarif
from rnncheck.report.comparison import as_json, show_comparison
from rnncheck.report.formats import FORMATS, render
from rnncheck.report.terminal import text_console
from rnncheck.results import schema, store
from rnncheck.results.compare import compare_runs
from rnncheck.results.model import Run
from tests.report.canned import RUNS
from tests.report.gated import GATES
from tests.report.swept import SWEEP

BASES = [store.run_to_json(run) for run in (*RUNS.values(), *GATES.values(), SWEEP)]
SARIF = Draft4Validator(
    json.loads(Path(__file__).with_name("sarif-schema-2.1.0.json").read_text()),
    format_checker=Draft4Validator.FORMAT_CHECKER,
)
RESULT = Draft202012Validator(json.loads(schema.FILE.read_text()))
SEEDS = st.integers(0, 2**32)


def stranger(seed: int) -> Run:
    """A result with a share of its texts made hostile."""
    draw = random.Random(seed)
    data = mutants.texts_changed(draw.choice(BASES), draw, draw.choice([0.05, 0.5]))
    return store.from_json(data)


class Page(html.parser.HTMLParser):
    """The elements of a page, their attributes and whether each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def whole(form: str, out: str, run: Run) -> None:
    """Parse ``out`` back, as its readers do."""
    match form:
        case "json":
            RESULT.validate(json.loads(out))
            assert store.run_to_json(store.from_json(json.loads(out))) == store.run_to_json(run)
        case "jsonl":
            assert json.loads(out.splitlines()[-1])["run"] == store.run_to_json(run)
        case "sarif":
            SARIF.validate(json.loads(out))
        case "junit":
            cases = [case for suite in JUnitXml.fromstring(out.encode()) for case in suite]
            assert len(cases) >= len(run.checks) + len(run.guarantees) + len(run.gate)
        case "html":
            page = Page()
            page.feed(out)
            assert not page.tags & {"script", "img", "a", "iframe", "object", "form"}
            assert not {name for name in page.attributes if name.startswith("on")}
        case "markdown":
            tokens = MarkdownIt("commonmark").enable("table").parse(out)
            inside = [child for token in tokens for child in token.children or ()]
            assert not {"link_open", "image"} & {token.type for token in inside}
        case "csv":
            _inert(out)
        case "github":
            assert all(line.startswith("::") for line in out.splitlines())
        case "benchmark":
            assert all(entry["unit"] for entry in json.loads(out))


def _inert(out: str) -> None:
    for row in csv.reader(out.splitlines()):
        for cell in row:
            assert cell[:1] not in ("=", "@", "+", "\t") and (cell[:1] != "-" or float(cell) < 0)


@settings(max_examples=15)
@given(SEEDS)
def test_any_texts_in_any_format(seed: int) -> None:
    run = stranger(seed)
    for form in FORMATS:
        out = render(run, form)
        harmless(out, commands=form == "github")
        whole(form, out, run)


@settings(max_examples=10)
@given(SEEDS)
def test_any_texts_compared(seed: int) -> None:
    first, second = stranger(seed), stranger(seed + 1)
    changes = compare_runs(first, second)
    harmless(as_json(changes))
    console = text_console(80)
    show_comparison(first, second, changes, console, everything=True)
    harmless(console.file.getvalue())  # type: ignore[attr-defined]


def test_a_formula_is_text_in_a_spreadsheet() -> None:
    data = store.run_to_json(RUNS["broken"])
    data["checks"][0]["reason"] = '=HYPERLINK("http://x","y")'
    row = next(csv.DictReader(render(store.from_json(data), "csv").splitlines()))
    assert row["reason"] == '\'=HYPERLINK("http://x","y")'


@pytest.mark.parametrize("name", ["seconds", "started"])
def test_sarif_manages_without_a_time(name: str) -> None:
    odd: dict[str, Any] = {"seconds": 1e300, "started": "9999-12-31T23:59:59+00:00"}
    data = store.run_to_json(RUNS["broken"]) | odd
    data["started"] = odd["started"] if name == "started" else "yesterday"
    assert "startTimeUtc" not in json.loads(sarif.render(store.from_json(data)))["runs"][0]
