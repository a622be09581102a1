"""All formats are made from the same run, and say the same of it."""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from junitparser import Error, JUnitXml, Properties, TestCase

from rnncheck.report import text
from rnncheck.report.console import render as render_console
from rnncheck.report.formats import FORMATS, render
from rnncheck.report.github import append_summary
from rnncheck.results.model import Run
from tests.report.canned import RUNS

Said = tuple[dict[str, str], int, str]
"""The outcome of every code, the number of findings, and the verdict."""

OUTCOMES = "passed|failed|could not look|deferred|not applicable|error"


def truth(run: Run) -> Said:
    outcomes = {check.code: str(check.outcome) for check in run.checks}
    return outcomes, len(run.findings), text.VERDICTS[run.verdict]


def from_json(out: str) -> Said:
    return _of_object(json.loads(out))


def from_jsonl(out: str) -> Said:
    events = [json.loads(line) for line in out.splitlines()]
    results = [event["result"] for event in events if event["event"] == "check-finished"]
    said = _of_object({"checks": results, "verdict": events[-1]["run"]["verdict"]})
    assert said == _of_object(events[-1]["run"])
    return said


def _of_object(run: dict[str, object]) -> Said:
    checks = run["checks"]
    assert isinstance(checks, list)
    outcomes = {check["code"]: check["outcome"] for check in checks}
    return outcomes, sum(len(check["findings"]) for check in checks), _verdict(str(run["verdict"]))


def _verdict(value: str) -> str:
    return {str(name): said for name, said in text.VERDICTS.items()}[value]


def from_junit(out: str) -> Said:
    xml = JUnitXml.fromstring(out.encode())
    outcomes, findings, verdict = {}, 0, ""
    for suite in xml:
        verdict = _verdict(next(one.value for one in suite.properties() if one.name == "verdict"))
        for case in suite:
            if noted := _noted(case):
                outcomes[case.name.split()[0]] = noted["outcome"]
                findings += int(noted["findings"])
    return outcomes, findings, verdict


def _noted(case: TestCase) -> dict[str, str]:
    properties = case.child(Properties)
    return {one.name: one.value for one in properties} if properties is not None else {}


def from_sarif(out: str) -> Said:
    (run,) = json.loads(out)["runs"]
    outcomes = {check["code"]: check["outcome"] for check in run["properties"]["checks"]}
    failed = {code for code, outcome in outcomes.items() if outcome == "failed"}
    assert {result["ruleId"] for result in run["results"]} == failed
    return outcomes, len(run["results"]), _verdict(run["properties"]["verdict"])


def from_markdown(out: str) -> Said:
    rows = [line.split("|") for line in _rows(out)]
    outcomes = {row[2].split()[0]: _outcome(line) for row, line in _with_lines(out, rows)}
    findings = re.findall(r"^## [A-Z]{2}\d{3} ", out, flags=re.MULTILINE)
    return outcomes, len(findings), _stored(out.splitlines()[0].removeprefix("# rnncheck: "))


def _with_lines(out: str, rows: list[list[str]]) -> list[tuple[list[str], str]]:
    return list(zip(rows, _rows(out), strict=True))


def _rows(out: str) -> list[str]:
    """The rows of both tables: of what passed, and of all else."""
    lines = out.splitlines()
    return [one for one in lines if one.startswith("| ") and not one.startswith("| family ")]


def _outcome(line: str) -> str:
    found = re.search(rf" \| \*{{0,2}}({OUTCOMES})\*{{0,2}} \| ", line)
    assert found, line
    return found[1].replace(" ", "-")


def _stored(word: str) -> str:
    """The verdict in a word, where a report says which half of the pipeline it is about."""
    return word.replace("acting verified, training not checked", "verified")


def from_console(out: str) -> Said:
    rows = re.findall(rf"^  ({OUTCOMES}) +([A-Z]{{2}}\d{{3}}) ", out, flags=re.MULTILINE)
    findings = re.findall(r"^[A-Z]{2}\d{3} .*  (?:error|warning), \w+", out, flags=re.MULTILINE)
    last = [line for line in out.splitlines() if re.search(r"; exit \d+", line)][-1]
    outcomes = {code: outcome.replace(" ", "-") for outcome, code in rows}
    return outcomes, len(findings), _stored(last.partition(":")[0])


def from_html(out: str) -> Said:
    page = html.unescape(re.sub(r"<script.*?</script>|<style.*?</style>", "", out, flags=re.DOTALL))
    rows = rf'<td class="c">([A-Z]{{2}}\d{{3}}).*?</td><td class="[^"]*">({OUTCOMES})</td>'
    findings = re.findall(r'<h2 class="bad">[A-Z]{2}\d{3} ', page)
    title = re.search(r"<h1>rnncheck: ([^<]*)</h1>", page)
    outcomes = {code: outcome.replace(" ", "-") for code, outcome in re.findall(rows, page)}
    return outcomes, len(findings), _stored(title[1]) if title else ""


READERS: dict[str, Callable[[str], Said]] = {
    "json": from_json,
    "jsonl": from_jsonl,
    "junit": from_junit,
    "sarif": from_sarif,
    "markdown": from_markdown,
    "console": from_console,
    "html": from_html,
}


def test_every_format_has_a_reader() -> None:
    assert set(READERS) | {"github", "csv", "benchmark"} == set(FORMATS)  # the last has cells alone


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("form", READERS)
def test_it_says_what_the_run_says(form: str, name: str) -> None:
    run = RUNS[name]  # a terminal has the whole table with --verbose
    out = render_console(run, verbose=True) if form == "console" else render(run, form)
    said = READERS[form](out)
    assert said == truth(RUNS[name])


@pytest.mark.parametrize("name", RUNS)
def test_csv_has_every_check_and_finding(name: str) -> None:
    rows = list(csv.DictReader(render(RUNS[name], "csv").splitlines()))
    outcomes, findings, _ = truth(RUNS[name])
    assert {row["code"]: row["outcome"] for row in rows} == outcomes
    assert sum(bool(row["message"]) for row in rows) == findings


@pytest.mark.parametrize("name", RUNS)
def test_github_says_it_in_annotations_and_summary(name: str, tmp_path: Path) -> None:
    run, summary = RUNS[name], tmp_path / "summary.md"
    append_summary(run, {"GITHUB_STEP_SUMMARY": str(summary)})
    assert from_markdown(summary.read_text()) == truth(run)

    annotations = render(run, "github").splitlines()
    about_checks = [line for line in annotations if re.search(r"title=[A-Z]{2}\d{3} ", line)]
    crashed = [line for line in about_checks if "::the check crashed" in line]
    outcomes, findings, verdict = truth(run)
    assert len(about_checks) - len(crashed) == findings
    assert len(crashed) == list(outcomes.values()).count("error")
    said = annotations[-1].partition("title=rnncheck::")[2]
    assert _stored(said).startswith(f"{verdict}:")


@pytest.mark.parametrize("name", RUNS)
def test_junit_is_red_exactly_when_the_exit_code_is(name: str) -> None:
    xml = JUnitXml.fromstring(render(RUNS[name], "junit").encode())
    assert bool(xml.failures or xml.errors) == bool(RUNS[name].exit_code)


def test_junit_tells_a_crashed_stage() -> None:
    xml = JUnitXml.fromstring(render(RUNS["crashed"], "junit").encode())
    cases = {case.name: case for suite in xml for case in suite}
    (error,) = cases["stage collect"].result
    assert isinstance(error, Error)
    assert error.text == "ValueError: env is closed (own_env.py:12)"
