"""SARIF 2.1.0. Results are the findings and what fails a gate, since viewers show every result as a
problem; the outcome of each check is in the run's ``properties.checks``, every item of a gate in
``properties.gate``, a check that crashed also a notification of the invocation. An accepted finding
is a suppressed result.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rnncheck.printable import json_text
from rnncheck.report import gate, text
from rnncheck.report.causes import facts_of
from rnncheck.report.places import in_a_file, relative, working_folder
from rnncheck.results.addresses import check_address
from rnncheck.results.gate import GateItem, Part
from rnncheck.results.model import (
    CheckResult,
    Finding,
    Outcome,
    RuleInfo,
    Run,
    Severity,
    Source,
    Verdict,
)
from rnncheck.results.plain import plain_value
from rnncheck.results.verdict import fails

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
ROOT = "%SRCROOT%"
Json = dict[str, Any]


def render(run: Run, root: Path | None = None) -> str:
    """The run as a SARIF log; file names are relative to ``root``, the current folder where none is
    given."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(run, root or working_folder())]}
    return json_text(log, indent=2) + "\n"


def _run(run: Run, root: Path) -> Json:
    known = {info.code: info for info in run.rules}
    checks = {check.code: check for check in run.checks}.values()
    rules = [_rule(check, known.get(check.code)) for check in checks]
    rules += [
        _gate_rule(part) for part in dict.fromkeys(item.part for item in gate.failing_items(run))
    ]
    codes = [rule["id"] for rule in rules]
    return {
        "tool": {"driver": _driver(run, rules)},
        "invocations": [_invocation(run)],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The folder that rnncheck ran in."}}},
        "results": [*_results(run, codes, root), *_gate_results(run, codes, root)],
        "properties": {
            "verdict": str(run.verdict),
            "seed": run.seed,
            "spec": plain_value(run.spec),
            "environment": plain_value(run.environment),
            "checks": [_outcome(check) for check in run.checks],
            "guarantees": [plain_value(one) for one in run.guarantees],
            "gate": [plain_value(item) for item in run.gate],
        },
    }


def _driver(run: Run, rules: list[Json]) -> Json:
    return {"name": run.tool.name, "version": run.tool.version, "rules": rules}


def _rule(check: CheckResult, info: RuleInfo | None) -> Json:
    fault = text.clean(check.name).replace("-", " ")
    address = check_address(check.code)
    return {
        "id": check.code,
        "name": check.name,
        "shortDescription": {"text": f"{fault[:1].upper()}{fault[1:]}."},
        **({"fullDescription": {"text": text.clean(info.summary)}} if info else {}),
        "help": _help(check, info),
        **({"helpUri": address} if address else {}),
        "defaultConfiguration": {"level": _level(check.severity is Severity.ERROR)},
        "properties": {"tags": list(dict.fromkeys([text.family(check.code), str(check.stage)]))},
    }


def _help(check: CheckResult, info: RuleInfo | None) -> Json:
    explain = f"rnncheck rule {text.clean(check.code)}"
    if info is None:
        return {"text": f"Run `{explain}` for what is checked, why it matters and how to fix it."}
    parts = {"Why it matters": info.why, "Fix": info.fix}
    told = {title: text.clean_lines(body) for title, body in parts.items() if body}
    more = f"Run `{explain}` for the whole."
    return {
        "text": "\n\n".join([*(f"{title}: {body}" for title, body in told.items()), more]),
        "markdown": "\n\n".join(
            [*(f"**{title}**\n\n{body}" for title, body in told.items()), more]
        ),
    }


def _gate_id(part: Part) -> str:
    return f"GATE-{str(part).upper()}"


def _gate_rule(part: Part) -> Json:
    return {
        "id": _gate_id(part),
        "name": f"gate-{part}",
        "shortDescription": {"text": gate.RULES[part]},
        "help": {"text": "Run `rnncheck gate` with the same options to ask again."},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["gate", str(part)]},
    }


def _level(weighs: bool) -> str:
    return "error" if weighs else "warning"


def _outcome(check: CheckResult) -> Json:
    return {"code": check.code, "outcome": str(check.outcome), "reason": text.clean(check.reason)}


def _results(run: Run, codes: list[str], root: Path) -> list[Json]:
    seen: Counter[str] = Counter()
    results = []
    for check in run.checks:
        level = _level(fails(check, strict=run.strict))
        for finding in check.findings:
            identity = _identity(finding)
            seen[identity] += 1
            results.append(
                {
                    "ruleId": check.code,
                    "ruleIndex": codes.index(check.code),
                    "level": level,
                    "kind": "fail",
                    "message": {"text": _message(run, check, finding)},
                    "locations": [_location(finding.source, run, root)],
                    "partialFingerprints": {"rnncheckFinding/v1": f"{identity}:{seen[identity]}"},
                    **_suppressed(check),
                    "properties": plain_value(finding),
                }
            )
    return results


def _suppressed(check: CheckResult) -> Json:
    why = text.clean(check.accepted)
    return {"suppressions": [{"kind": "external", "justification": why}]} if why else {}


def _gate_results(run: Run, codes: list[str], root: Path) -> list[Json]:
    seen: Counter[str] = Counter()
    results = []
    for item in gate.failing_items(run):
        identity = _digest(item.part, item.name, Path(item.path).name)
        seen[identity] += 1
        results.append(
            {
                "ruleId": _gate_id(item.part),
                "ruleIndex": codes.index(_gate_id(item.part)),
                "level": "error",
                "kind": "fail",
                "message": {"text": f"{text.word(item)}: {gate.item_sentence(item)}"},
                "locations": [_location(_asked_at(item), run, root)],
                "partialFingerprints": {"rnncheckGate/v1": f"{identity}:{seen[identity]}"},
                "properties": plain_value(item),
            }
        )
    return results


def _asked_at(item: GateItem) -> Source:
    return Source(item.path, item.line, item.column)


def _message(run: Run, check: CheckResult, finding: Finding) -> str:
    facts = facts_of(run, check, finding)
    told = (f"{label}: {value}" for label, value in facts if label != "at")
    return "\n".join([text.clean(finding.message) or finding.code, *told])


def _identity(finding: Finding) -> str:
    """Stays the same when lines move and numbers change."""
    source = finding.source or Source("")
    return _digest(finding.code, finding.stage, finding.key, Path(source.path).name, source.name)


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]  # 128 bits: no two meet


def _location(found: Source | None, run: Run, root: Path) -> Json:
    """That place, or the spec: viewers drop a result without one."""
    source = found if found and in_a_file(found.path) else Source(run.spec.path)
    physical: Json = {"artifactLocation": _artifact(source.path, root)}
    if source.line:
        physical["region"] = _region(source)
    if source.line in dict(source.frame):
        physical["contextRegion"] = _context(source)
    location: Json = {"physicalLocation": physical}
    if source.name:
        location["logicalLocations"] = [{"fullyQualifiedName": text.clean(source.name)}]
    return location


def _artifact(path: str, root: Path) -> Json:
    inside = relative(path, root) if path else None
    if inside is not None:
        return {"uri": quote(inside, errors="surrogateescape"), "uriBaseId": ROOT}
    absolute = Path(path).is_absolute()
    return {"uri": Path(path).as_uri() if absolute else quote(path, errors="surrogateescape")}


def _region(source: Source) -> Json:
    region: Json = {"startLine": source.line}
    if source.column:
        region["startColumn"] = source.column
    if snippet := dict(source.frame).get(source.line):
        region["snippet"] = {"text": text.clean_code(snippet)}
    return region


def _context(source: Source) -> Json:
    lines = dict(source.frame)
    return {
        "startLine": min(lines),
        "endLine": max(lines),
        "snippet": {"text": "\n".join(text.clean_code(line) for line in lines.values())},
    }


def _invocation(run: Run) -> Json:
    invocation: Json = {
        "executionSuccessful": run.verdict not in (Verdict.ERROR, Verdict.INTERRUPTED),
        "exitCode": int(run.exit_code),
        "exitCodeDescription": text.exit_meaning(run),
        "commandLine": text.clean(run.command),
        "toolExecutionNotifications": _notifications(run),
    }
    return invocation | _times(run)


def _times(run: Run) -> Json:
    try:
        start = datetime.fromisoformat(run.started)
        end = start + timedelta(seconds=run.seconds)
    except (ValueError, OverflowError):
        return {}
    return {"startTimeUtc": _utc(start), "endTimeUtc": _utc(end)}


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _notifications(run: Run) -> list[Json]:
    crashed = [
        {
            "level": "error",
            "message": {"text": f"{text.title(check)} crashed: {text.clean(check.reason)}"},
            "associatedRule": {"id": check.code},
        }
        for check in run.checks
        if check.outcome is Outcome.ERROR
    ]
    stages = [_note("error", sentence) for sentence in text.broken_stages(run)]
    notes = [text.clean(note) for note in (text.unchecked(run), *run.notices)]
    return [*crashed, *stages, *(_note("note", note) for note in notes if note)]


def _note(level: str, message: str) -> Json:
    return {"level": level, "message": {"text": message}}
