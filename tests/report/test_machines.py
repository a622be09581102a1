"""What the tools that read the machine formats ask for: SARIF, GitHub, Markdown, JSON."""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator, Draft202012Validator
from markdown_it import MarkdownIt
from markdown_it.token import Token

from rnncheck.report import github, markdown, sarif
from rnncheck.report.formats import FORMATS, Target, render, write_reports
from rnncheck.results.model import Run, Source
from rnncheck.results.schema import FILE
from tests.report.canned import BROKEN, EMPTY, HOSTILE_RUN, RUNS, SPEC, STRICT, WARNED

SARIF_SCHEMA = json.loads(Path(__file__).with_name("sarif-schema-2.1.0.json").read_text())


@pytest.mark.parametrize("name", RUNS)
def test_sarif_keeps_to_the_standard(name: str) -> None:
    validator = Draft4Validator(SARIF_SCHEMA, format_checker=Draft4Validator.FORMAT_CHECKER)
    validator.validate(json.loads(render(RUNS[name], "sarif")))


@pytest.mark.parametrize("name", RUNS)
def test_json_keeps_to_its_schema(name: str) -> None:
    Draft202012Validator(json.loads(FILE.read_text())).validate(
        json.loads(render(RUNS[name], "json"))
    )


def results(run: Run, root: Path | None = None) -> list[Any]:
    found: list[Any] = json.loads(sarif.render(run, root))["runs"][0]["results"]
    return found


def test_sarif_explains_a_rule_that_the_run_describes() -> None:
    rules = json.loads(sarif.render(BROKEN))["runs"][0]["tool"]["driver"]["rules"]
    told = {rule["id"]: rule for rule in rules}
    primer = told["WR103"]
    assert primer["fullDescription"]["text"].startswith("A carry key is absent")
    assert "Why it matters: A collector hands on" in primer["help"]["text"]
    assert "**Fix**\n\nAppend the primers" in primer["help"]["markdown"]
    assert "rnncheck rule WR103" in primer["help"]["text"]
    assert "fullDescription" not in told["BD301"]  # stored without its description
    assert "rnncheck rule BD301" in told["BD301"]["help"]["text"]


def test_sarif_places() -> None:
    physical = [one["locations"][0]["physicalLocation"] for one in results(BROKEN)]
    assert physical[0]["artifactLocation"] == {"uri": SPEC, "uriBaseId": "%SRCROOT%"}
    assert physical[0]["region"]["startLine"] == 7
    assert physical[0]["region"]["snippet"] == {"text": "  transforms: [InitTracker]"}
    assert physical[3] == {"artifactLocation": {"uri": SPEC, "uriBaseId": "%SRCROOT%"}}  # no source


def test_a_file_outside_the_root_is_absolute(tmp_path: Path) -> None:
    run = _with_source(BROKEN, Source(str(tmp_path / "lib" / "a b.py"), 3, kind="python"))
    inside, outside = (results(run, root)[0] for root in (tmp_path, tmp_path / "checkout"))
    assert _uri(inside) == "lib/a%20b.py"
    assert _uri(outside) == (tmp_path / "lib" / "a b.py").as_uri()


def test_what_the_command_line_set_is_in_no_file() -> None:
    run = _with_source(BROKEN, Source("--set env.primers=manual", name="env.primers"))
    assert _uri(results(run)[0]) == SPEC
    assert github.render(run).startswith("::error title=WR103 missing-state-primer::")


def _uri(result: Any) -> str:
    return str(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


def _with_source(run: Run, source: Source) -> Run:
    checks = tuple(
        replace(check, findings=tuple(replace(one, source=source) for one in check.findings))
        for check in run.checks
    )
    return replace(run, checks=checks)


def test_fingerprints_survive_a_move_and_tell_findings_apart() -> None:
    def prints(line: int) -> list[str]:
        moved = _with_source(BROKEN, Source(SPEC, line, name="env"))
        return [one["partialFingerprints"]["rnncheckFinding/v1"] for one in results(moved)]

    assert prints(3) == prints(30)
    assert len(set(prints(3))) == len(prints(3))


def test_the_level_follows_strict() -> None:
    assert [one["level"] for one in results(WARNED)] == ["warning"]
    assert [one["level"] for one in results(STRICT)] == ["error"]
    assert github.render(WARNED).startswith("::warning file=")
    assert github.render(STRICT).startswith("::error file=")


def test_annotations_are_relative_to_the_checkout(tmp_path: Path) -> None:
    run = _with_source(BROKEN, Source(str(tmp_path / "src" / "a.py"), 3, 5))
    first = github.render(run, tmp_path).splitlines()[0]
    assert first.startswith("::error file=src/a.py,line=3,col=5,title=WR103 missing-state-primer::")


def test_annotations_escape_what_github_reads() -> None:
    line = github.command("error", "50%\n::stop", title="a:b,c\nd")
    assert line == "::error title=a%3Ab%2Cc d::50%25%0A::stop"
    assert len(github.render(HOSTILE_RUN).splitlines()) == 4  # finding, crash, notice, verdict


def test_the_summary_is_appended(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    github.append_summary(BROKEN, {"GITHUB_STEP_SUMMARY": str(summary)})
    assert summary.read_text() == "before\n" + markdown.render(BROKEN)
    github.append_summary(BROKEN, {})


@pytest.mark.parametrize("name", RUNS)
def test_markdown_shows_markup_as_text(name: str) -> None:
    tokens = _tokens(markdown.render(RUNS[name]))
    tags = {token.content for token in tokens if token.type.startswith("html")}
    told = "".join(tags)  # the rest is our own
    assert not re.sub(r"</?(sub|details|summary)>|\d+ passed|measured|\n", "", told)
    assert not {"em_open", "link_open", "image"} & {token.type for token in tokens}


def test_markdown_keeps_hostile_strings_in_their_cells() -> None:
    rows = [token for token in _tokens(markdown.render(HOSTILE_RUN)) if token.type == "td_open"]
    assert len(rows) == 4 * len(HOSTILE_RUN.checks)


def _tokens(content: str) -> list[Token]:
    blocks = MarkdownIt("commonmark").enable("table").parse(content)
    return [*blocks, *(child for block in blocks for child in block.children or ())]


def test_a_code_span_holds_any_backticks() -> None:
    assert markdown.code("a`b``c") == "``` a`b``c ```"


def test_a_frame_cannot_close_its_fence() -> None:
    run = _with_source(BROKEN, Source(SPEC, 1, frame=((1, "````"), (2, "x"))))
    assert "`````\n> 1 | ````\n  2 | x\n`````" in markdown.render(run)


@pytest.mark.parametrize("form", sorted({*FORMATS} - {"benchmark"}))  # that one names no file
def test_a_file_name_that_is_not_utf8_breaks_no_format(form: str) -> None:
    run = _with_source(BROKEN, Source(os.fsdecode(b"caf\xe9.py"), 1))
    out = io.BytesIO()
    stream = io.TextIOWrapper(out, encoding="latin-1")
    write_reports(run, [Target(form)], stream)
    assert "WR103" in out.getvalue().decode("utf-8" if form != "console" else "latin-1")


def test_an_empty_run_is_a_whole_document() -> None:
    assert "no check ran" in markdown.render(EMPTY)
    assert results(EMPTY) == []
