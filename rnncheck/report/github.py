"""GitHub Actions: an annotation per finding and per item of a gate that matters, and the Markdown
report as the step summary."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from rnncheck.errors import OutputError, Place
from rnncheck.report import gate, markdown, text
from rnncheck.report.causes import facts_of, findings_in_order
from rnncheck.report.places import in_a_file, relative, working_folder
from rnncheck.report.printed import printed
from rnncheck.results.gate import GateItem, Ruling
from rnncheck.results.model import CheckResult, Finding, Outcome, Run, Source, Verdict
from rnncheck.results.verdict import fails

LISTED = 5  # items that one notice names: chosen, the job's summary lists them all
SUMMARY_LIMIT = 1024 * 1024  # bytes that GitHub takes per step; more and it shows none of them


def render(run: Run, root: Path | None = None) -> str:
    """Workflow commands, one per line; file names are relative to ``root``, the checkout."""
    base = root or Path(os.environ.get("GITHUB_WORKSPACE") or working_folder())
    return "".join(f"{line}\n" for line in _lines(printed(run), base))


def check_summary(environ: Mapping[str, str] = os.environ) -> None:
    """Raise an OutputError where GitHub asks for a step summary that cannot be written."""
    _append(b"", environ)


def append_summary(run: Run, environ: Mapping[str, str] = os.environ) -> None:
    """Append the Markdown report to the step summary, where GitHub asks for one."""
    content = markdown.render(run).encode()[:SUMMARY_LIMIT]
    _append(content.decode(errors="ignore").encode(), environ)  # no half character at the end


def _append(content: bytes, environ: Mapping[str, str]) -> None:
    if not (path := environ.get("GITHUB_STEP_SUMMARY")):
        return
    try:
        with Path(path).open("ab") as file:
            file.write(content)
    except OSError as error:
        problem = f"the step summary cannot be written: {error.strerror}"
        raise OutputError(problem, place=Place(path)) from error


def _lines(run: Run, root: Path) -> Iterator[str]:
    for check, _, found in findings_in_order(run):
        yield _annotation(run, check, found, root)
    for check in run.checks:
        yield from _without_finding(check, run.strict)
    yield from _guarantees(run)
    yield from _gate(run, root)
    for sentence in text.broken_stages(run):
        yield command("error", sentence, title="rnncheck")
    for notice in run.notices:
        yield command("notice", notice, title="rnncheck")
    level = "error" if run.exit_code else "notice"
    yield command(level, text.verdict_sentence(run), title="rnncheck")


def _guarantees(run: Run) -> Iterator[str]:
    """Those that are not shown, where that is the verdict: what is broken has its finding."""
    for one in run.guarantees if run.verdict is Verdict.NOT_SHOWN else ():
        if one.lacking:
            yield command("error", text.guarantee_line(one), title=f"guarantee: {one.name}")


def _gate(run: Run, root: Path) -> Iterator[str]:
    """What fails and what is unclear one by one, the rest that matters in a notice for each
    ruling."""
    for item in run.gate:
        if item.fails(strict=run.strict) or item.ruling is Ruling.UNCLEAR:
            level = "error" if item.fails(strict=run.strict) else "warning"
            place = _place(Source(item.path, item.line, item.column), root)
            yield command(
                level, gate.item_sentence(item), **place, title=f"gate: {text.word(item)}"
            )
    for ruling in (Ruling.INCOMPARABLE, Ruling.NOTED):
        if items := gate.ruled(run.gate, ruling):
            yield command("notice", _listed(items), title=f"gate: {ruling}")


def _listed(items: list[GateItem]) -> str:
    more = [f"and {len(items) - LISTED} more"] if len(items) > LISTED else []
    return "\n".join([*map(gate.item_sentence, items[:LISTED]), *more])


def _annotation(run: Run, check: CheckResult, found: Finding, root: Path) -> str:
    known = f"accepted: {check.accepted}\n" if check.accepted else ""
    told = [f"{label}: {value}" for label, value in facts_of(run, check, found) if label != "at"]
    message = known + "\n".join([text.clean(found.message), *told])
    place = _place(found.source, root)
    return command(_level(check, run.strict), message, **place, title=text.title(check))


def _without_finding(check: CheckResult, strict: bool) -> Iterator[str]:
    if check.outcome is Outcome.ERROR:
        yield command("error", f"the check crashed: {check.reason}", title=text.title(check))
    elif check.outcome is Outcome.FAILED and not check.findings:
        yield command(_level(check, strict), check.reason or "failed", title=text.title(check))


def _level(check: CheckResult, strict: bool) -> str:
    return "error" if fails(check, strict=strict) else "notice" if check.accepted else "warning"


def _place(source: Source | None, root: Path) -> dict[str, str]:
    if source is None or not in_a_file(source.path):
        return {}
    shown = relative(source.path, root) or source.path
    numbers = {"line": source.line, "col": source.column if source.line else 0}
    return {"file": shown, **{name: str(n) for name, n in numbers.items() if n}}


def command(level: str, message: str, **properties: str) -> str:
    """``::level file=...,title=...::message``, escaped as GitHub asks."""
    pairs = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {pairs}::{_data(text.clean_lines(message))}"


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(text.clean(value)).replace(":", "%3A").replace(",", "%2C")
