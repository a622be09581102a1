"""JUnit XML: a suite per family, a test case per check; suites ``guarantees`` and ``gate`` with a
test case for each of theirs.

A warning that does not fail the run is no failure here either: it is told in ``system-out``. The
exact outcome and the number of findings are properties of every test case. A run that verified
nothing, crashed or was interrupted has a suite ``run`` with an error, so that CI does not show it
as green.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from junitparser import (
    Error,
    Failure,
    JUnitXml,
    Properties,
    Property,
    Skipped,
    TestCase,
    TestSuite,
)

from rnncheck.report import gate, text
from rnncheck.report.causes import facts_of
from rnncheck.report.printed import printed
from rnncheck.results.gate import GateItem, Ruling
from rnncheck.results.model import (
    CheckResult,
    GuaranteeResult,
    Outcome,
    Run,
    StageResult,
    Standing,
    Verdict,
)
from rnncheck.results.verdict import fails


def render(run: Run) -> str:
    """The run as JUnit XML."""
    run = printed(run)
    xml = JUnitXml(f"rnncheck {text.clean(run.spec.name)}".strip())
    for name, checks in text.by_family(run.checks).items():
        xml.append(_suite(run, name, [_case(run, check) for check in checks]))
    if run.guarantees:
        xml.append(_suite(run, "guarantees", map(_guarantee, run.guarantees)))
    if run.gate:
        xml.append(_suite(run, "gate", [_item(item, run.strict) for item in run.gate]))
    if trouble := [*_stages(run.stages), *_verdict(run)]:
        xml.append(_suite(run, "run", trouble))
    xml.update_statistics()
    return _indented(xml)


def _indented(xml: JUnitXml) -> str:
    root = ElementTree.fromstring(xml.tostring())
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(run: Run, name: str, cases: Iterable[TestCase]) -> TestSuite:
    suite = TestSuite(name)
    suite.timestamp = text.clean(run.started)
    for key, value in _properties(run).items():
        suite.add_property(key, text.clean(value))
    for case in cases:
        suite.add_testcase(case)
    return suite


def _properties(run: Run) -> dict[str, str]:
    return {
        "verdict": str(run.verdict),
        "exit_code": str(int(run.exit_code)),
        "spec": run.spec.path,
        "spec_hash": run.spec.hash,
        "seed": str(run.seed),
        "device": run.environment.device,
        **run.environment.packages,
    }


def _case(run: Run, check: CheckResult) -> TestCase:
    case = TestCase(text.title(check), f"rnncheck.{check.stage}", check.seconds)
    noted = {
        "outcome": str(check.outcome),
        "severity": str(check.severity),
        "findings": str(len(check.findings)),
    }
    noted |= {"accepted": text.clean(check.accepted)} if check.accepted else {}
    case.append(_case_properties(noted))
    _tell(case, run, check)
    return case


def _case_properties(pairs: dict[str, str]) -> Properties:
    properties = Properties()
    for name, value in pairs.items():
        properties.add_property(Property(name, value))
    return properties


def _tell(case: TestCase, run: Run, check: CheckResult) -> None:
    match check.outcome:
        case Outcome.FAILED if fails(check, strict=run.strict):
            failure = Failure(text.saw(check), check.code)
            case.result = [_with_text(failure, _findings(run, check))]
        case Outcome.FAILED if check.accepted:
            case.result = [Skipped(f"accepted: {text.clean(check.accepted)}")]
            case.system_out = _findings(run, check)
        case Outcome.FAILED:
            case.system_out = f"warning: {_findings(run, check) or text.saw(check)}"
        case Outcome.ERROR:
            trouble = Error(text.clean(check.reason), check.code)
            case.result = [_with_text(trouble, text.clean_lines(check.reason))]
        case outcome if outcome in text.UNANSWERED:
            case.result = [Skipped(f"{text.spelled(outcome)}: {text.clean(check.reason)}")]
        case Outcome.PASSED if check.reason:
            case.system_out = text.clean(check.reason)


def _guarantee(one: GuaranteeResult) -> TestCase:
    case, told = TestCase(one.name, "rnncheck.guarantee"), text.guarantee_line(one)
    if one.standing is Standing.BROKEN:
        case.result = [Failure(told, str(one.standing))]
    elif one.lacking:
        case.result = [Error(told, str(one.standing))]
    elif one.standing is Standing.SHOWN:
        case.system_out = told
    else:
        case.result = [Skipped(told)]
    return case


def _item(item: GateItem, strict: bool) -> TestCase:
    case = TestCase(gate.name(item), f"rnncheck.gate.{item.part}")
    case.append(_case_properties({"ruling": str(item.ruling), "at": gate.item_place(item)}))
    told = gate.item_sentence(item)
    if item.fails(strict=strict):
        content = "\n".join(filter(None, [told, gate.pairs(item), gate.item_place(item)]))
        case.result = [_with_text(Failure(f"{text.word(item)}: {told}", str(item.ruling)), content)]
    elif item.ruling is Ruling.PASSED:
        case.system_out = told
    else:
        case.result = [Skipped(f"{item.ruling}: {told}")]
    return case


def _with_text(result: Failure | Error, content: str) -> Failure | Error:
    result.text = content
    return result


def _findings(run: Run, check: CheckResult) -> str:
    blocks = (
        [text.clean(found.message), *(f"  {k}: {v}" for k, v in facts_of(run, check, found))]
        for found in check.findings
    )
    return "\n\n".join("\n".join(lines) for lines in blocks)


def _stages(stages: Iterable[StageResult]) -> list[TestCase]:
    broken = [stage for stage in stages if stage.outcome is Outcome.ERROR]
    return [_error(f"stage {stage.stage}", stage.detail, stage.seconds) for stage in broken]


def _verdict(run: Run) -> list[TestCase]:
    decided = run.verdict in (Verdict.VERIFIED, Verdict.FAILED, Verdict.SLOWER)
    return [] if decided else [_error("verdict", text.verdict_sentence(run), run.seconds)]


def _error(name: str, detail: str, seconds: float) -> TestCase:
    case = TestCase(name, "rnncheck.run", seconds)
    case.result = [_with_text(Error(text.clean(detail)), text.clean_lines(detail))]
    return case
