"""How a gate is read: every format shows every item, is red exactly when the exit code is, and says
why."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest
from jsonschema import Draft4Validator, Draft202012Validator
from junitparser import Failure, JUnitXml, Skipped, TestCase
from rich.cells import cell_len

from rnncheck.report import gate, github, markdown, text
from rnncheck.report.console import render as render_console
from rnncheck.report.formats import render
from rnncheck.results.gate import GateItem, Part, Ruling
from rnncheck.results.model import Run
from rnncheck.results.schema import FILE
from tests.report.gated import (
    ACCEPTED,
    GATED,
    GATES,
    HEAVY,
    HOSTILE_GATE,
    KNOWN,
    NEAR,
    PASSED,
    SLOW,
    SLOWER,
    STRICT,
)
from tests.report.gated import gate as gated
from tests.report.swept import SWEEP
from tests.report.test_machines import SARIF_SCHEMA

READABLE = ("console", "markdown", "html", "junit", "csv", "json", "jsonl")


def test_a_number_is_said_with_its_interval_and_limit() -> None:
    assert gate.item_numbers(SLOWER) == "1.052 [1.041, 1.063] x, at most 1.03, 4 fresh pairs"
    assert (
        gate.item_numbers(NEAR) == "40.0001 [39.2, 40.9] ms, at most 40"
    )  # not "40 ms, at most 40"
    assert gate.item_numbers(GateItem(Part.BASELINE, "x", Ruling.FAILED)) == ""
    missing = GateItem(Part.BUDGET, "x", Ruling.FAILED, limit=40.0, kind="max", unit="ms")
    assert gate.item_numbers(missing) == "at most 40 ms"


@pytest.mark.parametrize("form", READABLE)
def test_every_item_is_there(form: str) -> None:
    shown = render(GATED, form)
    wrapped = " ".join(shown.replace("\\_", "_").split())  # Markdown escapes
    for item in GATED.gate:
        assert item.name in wrapped
        assert item.reason in wrapped


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (GATED, "failed: 1 accepted, 3 passed, 1 could not look, 3 not applicable"),
        (GATED, "gate: 1 failed, 1 slower, 1 over, 1 unclear, 1 not comparable, 1 noted, 1 passed"),
        (GATED, "exit 1 (the gate failed)"),
        (SLOW, "slower than allowed: 3 passed"),
        (SLOW, "2 cells: 2 ok; gate: 1 slower, 1 passed; 4.2 s; exit 5 (slower than allowed)"),
        (HEAVY, "exit 5 (over budget)"),
        (STRICT, "unclear under --strict: "),
        (STRICT, "exit 5 (unclear under --strict)"),
        (PASSED, "acting verified, training not checked: "),
        (PASSED, "exit 0 (verified)"),
        (ACCEPTED, "acting verified, training not checked: 1 accepted, 3 passed"),
    ],
)
def test_the_verdict_says_why(run: Run, said: str) -> None:
    assert said in text.verdict_sentence(run)


@pytest.mark.parametrize("name", GATES)
def test_junit_is_red_exactly_when_the_exit_code_is(name: str) -> None:
    xml = JUnitXml.fromstring(render(GATES[name], "junit").encode())
    assert bool(xml.failures or xml.errors) == bool(GATES[name].exit_code)
    cases = {case.name: case for suite in xml if suite.name == "gate" for case in suite}
    assert len(cases) == len(GATES[name].gate)


def _gate_case(run: Run, item: GateItem) -> TestCase:
    xml = JUnitXml.fromstring(render(run, "junit").encode())
    return next(case for suite in xml for case in suite if case.name == item.name)


def test_unclear_is_skipped_and_fails_under_strict() -> None:
    (skipped,), (failed,) = (_gate_case(run, NEAR).result for run in (PASSED, STRICT))
    assert isinstance(skipped, Skipped) and "the interval holds the budget" in skipped.message
    assert isinstance(failed, Failure) and failed.message.startswith("unclear: train_ms")
    assert _annotations(PASSED, NEAR)[0].startswith("::warning file=configs/rnncheck.yaml,line=32")
    assert _annotations(STRICT, NEAR)[0].startswith("::error file=configs/rnncheck.yaml,line=32")


def _annotations(run: Run, item: GateItem) -> list[str]:
    return [line for line in github.render(run).splitlines() if item.name in line]


@pytest.mark.parametrize("name", GATES)
def test_machine_formats_keep_to_their_schemas(name: str) -> None:
    Draft4Validator(SARIF_SCHEMA).validate(json.loads(render(GATES[name], "sarif")))
    schema = json.loads(FILE.read_text())
    Draft202012Validator(schema).validate(json.loads(render(GATES[name], "json")))


def test_sarif_has_what_fails_alone() -> None:
    (run,) = json.loads(render(GATED, "sarif"))["runs"]
    found = {one["ruleId"]: one for one in run["results"] if one["ruleId"].startswith("GATE-")}
    assert set(found) == {"GATE-BUDGET", "GATE-BASELINE", "GATE-AGAINST"}
    slower = found["GATE-AGAINST"]
    assert slower["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 28,
        "startColumn": 3,
    }
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])
    assert len(run["properties"]["gate"]) == len(GATED.gate)


def test_notices_do_not_flood() -> None:
    many = tuple(
        GateItem(Part.BASELINE, f"cell {n}", Ruling.INCOMPARABLE, "another machine")
        for n in range(30)
    )
    run = replace(PASSED, gate=many)
    notices = [line for line in github.render(run).splitlines() if "not comparable" in line]
    assert len([line for line in notices if line.startswith("::notice title=gate")]) == 1
    assert "cell 4: another" not in notices[0] and "cell 4; another" in notices[0]
    assert "and 25 more" in notices[0]


def test_an_accepted_failure_is_no_failure_anywhere() -> None:
    assert ACCEPTED.exit_code == 0
    (result,) = json.loads(render(ACCEPTED, "sarif"))["runs"][0]["results"]
    assert result["suppressions"] == [{"kind": "external", "justification": KNOWN.accepted}]
    assert "::notice file=" in github.render(ACCEPTED) and "::error" not in github.render(ACCEPTED)
    xml = JUnitXml.fromstring(render(ACCEPTED, "junit").encode())
    (case,) = (case for suite in xml for case in suite if case.name == "EQ201 modes-disagree")
    assert case.result[0].message == f"accepted: {KNOWN.accepted}"
    shown = render_console(ACCEPTED, 120)
    assert f"  accepted       EQ201 modes-disagree  {KNOWN.accepted}" in shown
    assert "oracle" not in shown and "measured" in render_console(ACCEPTED, 120, verbose=True)
    assert "| accepted |" in markdown.render(ACCEPTED)
    assert "next:" not in shown


def test_an_unaccepted_failure_stays_one() -> None:
    failed = gated(checks=(replace(KNOWN, accepted=""),))
    assert failed.exit_code == 1
    assert "suppressions" not in render(failed, "sarif")
    assert "::error file=" in github.render(failed)


def test_what_fails_stands_beside_the_verdict_and_is_all_that_quiet_prints() -> None:
    *failing, verdict = render_console(SLOW, 160, quiet=True).splitlines()
    assert failing == [
        "slower own, train, 32 x 64: 1.052 [1.041, 1.063] x, at most 1.03, 4 fresh pairs; clear"
        " after 4 pairs"
    ]
    assert verdict.startswith("slower than allowed")
    assert render_console(SLOW, 160).splitlines()[-2:] == [*failing, verdict]
    assert render_console(PASSED, 200, quiet=True).count("\n") == 1


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("name", GATES)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    lines = render_console(replace(GATES[name], cells=()), width, verbose=True).splitlines()
    assert [line for line in lines if cell_len(line) > width] == []
    assert [line for line in lines if line != line.rstrip()] == []


def test_hostile_text_breaks_no_format() -> None:
    assert len(github.render(HOSTILE_GATE).splitlines()) == 3  # the finding, the item, the verdict
    assert "<b>" not in render(HOSTILE_GATE, "html")
    assert "\x1b" not in render_console(HOSTILE_GATE)
    (row,) = csv.DictReader(render(HOSTILE_GATE, "csv").splitlines())
    assert row["ruling"] == "failed"


def test_csv_has_the_items_of_a_gate() -> None:
    rows = list(csv.DictReader(render(GATED, "csv").splitlines()))
    assert [row["ruling"] for row in rows] == [str(item.ruling) for item in GATED.gate]
    slower = rows[5]
    assert (slower["value"], slower["limit"], slower["kind"]) == ("1.052", "1.03", "max")


def test_jsonl_tells_the_items_as_events() -> None:
    events = [json.loads(line) for line in render(GATED, "jsonl").splitlines()]
    found = [one["item"]["ruling"] for one in events if one["event"] == "gate-decided"]
    assert found == [str(item.ruling) for item in GATED.gate]


def test_the_benchmark_format_is_what_the_action_reads() -> None:
    entries = json.loads(render(SWEEP, "benchmark"))
    assert [
        entry for entry in entries if not set(entry) <= {"name", "unit", "value", "range", "extra"}
    ] == []
    assert all(isinstance(entry["value"], (int, float)) for entry in entries)
    names = [entry["name"] for entry in entries]
    assert len(set(names)) == len(names) == 9  # pad, scan-compiled, auto: time, memory, error
    time, memory, error = entries[:3]
    assert time["name"] == "cartpole-drqn | pad | train, 32 x 64, 0.03 resets | time"
    assert (time["value"], time["unit"], time["range"]) == (28.0, "ms", "± 0.28")
    assert (memory["value"], memory["unit"]) == (12.0, "MiB")
    assert (error["value"], error["unit"]) == (1e-7, "relative")
    assert not any("| scan |" in name for name in names)  # fast and wrong: no number to chart
