"""GitHub-flavoured Markdown, also used as the step summary of a GitHub job."""

from __future__ import annotations

import re

from rnncheck.report import gate, sweep, text
from rnncheck.report.causes import facts_of, findings_in_order, parted_facts, row_title
from rnncheck.report.memory import memory_sections
from rnncheck.report.printed import printed
from rnncheck.results.gate import GateItem
from rnncheck.results.model import CheckResult, Finding, Outcome, Run, Source

SPECIAL = re.compile(r"([\\`*_\[\]<>#|~$&])")


def render(run: Run) -> str:
    """The run as a Markdown document."""
    run = printed(run)
    sections = [
        f"# rnncheck: {escape(text.verdict_word(run))}",
        escape(text.header(run)),
        f"**{escape(text.verdict_sentence(run))}**",
        _guarantees(run),
        _gate(run),
        *_sweep(run),
        *_memory(run),
        *_findings(run),
        *_raised(run),
        _table(run),
        *_reasons(run),
        *_rest(run),
        _environment(run),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _guarantees(run: Run) -> str:
    """The sentences that the verdict consists of, by how they stand and why."""
    told = []
    for word, found, why in text.standings(run):
        if why and len(found) > 1:
            told.append(
                f"- **{', '.join(escape(one.name) for one in found)}** {word}: {escape(why)}"
            )
            continue
        because = f" ({escape(why)})" if why else ""
        told += [f"- **{escape(x.name)}** {word}: {escape(x.sentence)}{because}" for x in found]
    return "\n".join(["## Guarantees", "", *told]) if told else ""


def escape(value: str) -> str:
    """``value`` shown literally: no markup, no HTML, no mention, on one line."""
    return SPECIAL.sub(r"\\\1", text.clean(value))


def code(value: str) -> str:
    """``value`` as an inline code span, whatever backticks it has."""
    shown = text.clean(value)
    longest = _longest_run(shown)
    fence = "`" * (longest + 1)
    pad = " " if longest or not shown else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _longest_run(value: str) -> int:
    """The length of the longest run of backticks."""
    return max((len(run) for run in re.findall("`+", value)), default=0)


def _sweep(run: Run) -> list[str]:
    """A table for each group of cells, and what is recommended."""
    if not run.cells:
        return []
    advice = [f"- {escape(line)}" for found in run.recommendations for line in sweep.advice(found)]
    sections = ["\n".join(["## What to run", "", *advice])] if advice else []
    growth = [f"- {escape(scaling.sentence)}" for scaling in run.scalings]
    sections += ["\n".join(["## How cost grows", "", *growth])] if growth else []
    told = [f"- **{c.answer}**: {escape(f'{c.text}: {c.why}')}" for c in run.claims]
    sections += ["\n".join(["## What the documentation says", "", *told])] if told else []
    for name, rows in sweep.rows_by_group(run).items():
        head = [f"| {' | '.join(sweep.HEADINGS)} |", "|" + "---|" * len(sweep.HEADINGS)]
        lines = [f"| {' | '.join(escape(cell) for cell in row.texts)} |" for row in rows]
        sections.append("\n".join([f"## {escape(name)}", "", *head, *lines]))
    return sections


def _memory(run: Run) -> list[str]:
    """The answers of a study, each in a fence that its lines cannot close."""
    sections = []
    for heading, lines in memory_sections(run.memory, verbose=True) if run.memory else ():
        fence = "`" * max(3, _longest_run("".join(lines)) + 1)
        sections.append("\n".join([f"## {heading.capitalize()}", "", fence, *lines, fence]))
    return sections


def _gate(run: Run) -> str:
    """A table of the gate's items."""
    if not run.gate:
        return ""
    head = [f"| {' | '.join(gate._HEADINGS)} |", "|" + "---|" * len(gate._HEADINGS)]
    items = [item for group in gate.items_by_part(run).values() for item in group]
    return "\n".join(
        ["## Gate", "", *head, *(_item(item, item.fails(strict=run.strict)) for item in items)]
    )


def _item(item: GateItem, fails: bool) -> str:
    part, name, ruling, *rest = (escape(value) for value in gate.row(item))
    cells = [part, name, f"**{ruling}**" if fails else ruling, *rest]
    return f"| {' | '.join(cells)} |"


def _findings(run: Run) -> list[str]:
    """Causes first, each with what follows from it."""
    return [_finding(run, *one) for one in findings_in_order(run)]


def _raised(run: Run) -> list[str]:
    """The stages that raised, each with the user's line."""
    sections = []
    for stage in run.stages:
        if stage.outcome is Outcome.ERROR and stage.source is not None:
            at = f"- at: {code(text.source_place(stage.source))}"
            told = text.clean_lines(stage.detail).partition("\n")[0]
            head = [f"## {text.broken_heading(stage)}", "", escape(told), "", at]
            sections.append("\n".join([*head, *_frame(stage.source)]))
    return sections


def _finding(run: Run, check: CheckResult, number: int, finding: Finding) -> str:
    count = f" ({number} of {len(check.findings)})" if len(check.findings) > 1 else ""
    at, led, more = parted_facts(facts_of(run, check, finding))
    lines = [
        f"## {escape(text.title(check))}{count}",
        "",
        f"{check.severity}, {finding.stage}: {escape(finding.message)}",
        "",
        *([f"- accepted: {escape(check.accepted)}"] if check.accepted else []),
        *map(_fact, at),
        *([*frame, ""] if (frame := _frame(finding.source)) else []),
        *map(_fact, led),
        *_measured(more),
    ]
    return "\n".join(lines).rstrip()


def _measured(facts: list[tuple[str, str]]) -> list[str]:
    """What was measured, folded."""
    if not facts:
        return []
    folded = ["<details>", "<summary>measured</summary>", "", *map(_fact, facts), "", "</details>"]
    return ["", *folded]


def _fact(pair: tuple[str, str]) -> str:
    label, value = pair
    return f"- {escape(label)}: {code(value) if label in ('key', 'at') else escape(value)}"


def _frame(source: Source | None) -> list[str]:
    """The marked lines in a fence that they cannot close."""
    if source is None or not source.frame:
        return []
    width = len(str(max(number for number, _ in source.frame)))
    lines = [
        f"{'>' if number == source.line else ' '} {number:>{width}} | "
        f"{text.clean_code(line)}".rstrip()
        for number, line in source.frame
    ]
    fence = "`" * max(3, _longest_run("".join(lines)) + 1)
    return ["", fence, *lines, fence]


def _table(run: Run) -> str:
    """What did not pass, and below it, folded, what did."""
    if not run.checks:
        return ""
    loud, quiet = text.passed_last(
        check for checks in text.by_family(run.checks).values() for check in checks
    )
    folded = ["<details>", f"<summary>{len(quiet)} passed</summary>", "", *_rows(run, quiet), ""]
    return "\n".join(
        ["## Checks", "", *_rows(run, loud), *([""] * bool(loud)), *folded, "</details>"]
        if quiet
        else ["## Checks", "", *_rows(run, loud)]
    )


def _rows(run: Run, checks: list[CheckResult]) -> list[str]:
    if not checks:
        return []
    head = ["| family | check | outcome | what it saw |", "|---|---|---|---|"]
    return head + [
        f"| {escape(text.family(check.code))} | {escape(row_title(run, check))} |"
        f" {_outcome(check)} | {escape(text.saw(check))} |"
        for check in checks
    ]


def _outcome(check: CheckResult) -> str:
    outcome = text.outcome_word(check)
    return f"**{outcome}**" if outcome in (Outcome.FAILED, Outcome.ERROR) else outcome


def _reasons(run: Run) -> list[str]:
    sections = []
    for outcome in text.UNANSWERED:
        groups = text.by_reason(run, outcome)
        lines = [
            f"- {escape(', '.join(codes))}: {escape(reason)}" for reason, codes in groups.items()
        ]
        sections += (
            ["\n".join([f"## {text.spelled(outcome).capitalize()}", "", *lines])] if lines else []
        )
    return sections


def _rest(run: Run) -> list[str]:
    notes = [*text.broken_stages(run), text.unchecked(run), *run.notices]
    listed = "\n".join(f"- {escape(note)}" for note in notes if note)
    step = text.next_step(run)
    return [f"## Notes\n\n{listed}" if listed else "", f"Next: {code(step)}" if step else ""]


def _environment(run: Run) -> str:
    env = run.environment
    packages = ", ".join(f"{name} {version}" for name, version in env.packages.items())
    parts = [
        f"python {env.python}",
        env.platform,
        env.cpu,
        env.gpu,
        f"{env.threads} threads",
        packages,
        run.started,
    ]
    return f"<sub>{escape(', '.join(part for part in parts if part))}</sub>"
