"""The report as one HTML file without anything from outside: the verdict, the chain of stages, the
cause with its evidence and pictures, tables, plots."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from rnncheck.report import gate, sweep, text
from rnncheck.report.causes import facts_of, findings_in_order, parted_facts, root_of, row_title
from rnncheck.report.chain import chain_of
from rnncheck.report.memory import memory_sections
from rnncheck.report.pictures.all import Gallery, gallery
from rnncheck.report.pictures.bounds import bounded
from rnncheck.report.pictures.memory_plots import memory_plots
from rnncheck.report.pictures.sweep_plots import all_plots
from rnncheck.report.printed import printed
from rnncheck.results.exhibits import FaultWay
from rnncheck.results.model import CheckResult, Finding, Outcome, Run, Source


def render_inside(run: Run) -> str:
    """The report with its style, to be put into another page."""
    page = render(run)
    style = page[page.index("<style>") : page.index("</style>")]
    body = page[page.index("<body>") + len("<body>") : page.index("</body>")]
    return f"{style}</style>{body}"


def render(run: Run) -> str:
    """The run as an HTML document."""
    return page("page.html.j2", content_of(run))


def page(template: str, content: dict[str, Any]) -> str:
    """A template of this folder with its content, all text of which is escaped."""
    from jinja2 import Environment, FunctionLoader

    here = files("rnncheck.report")
    loader = FunctionLoader(lambda name: here.joinpath(name).read_text(encoding="utf-8"))
    made = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=loader)
    return made.get_template(template).render(content)


def content_of(run: Run) -> dict[str, Any]:
    """What the page of a run says."""
    run = printed(run)
    plots = [*all_plots(sweep.results_of(run)), *memory_plots(run.memory)]
    shown = gallery(run.exhibits)
    failed = {check.code for check in run.checks if check.findings}
    return _content(run, shown) | {
        "plots": plots,
        "pictures": shown.others(failed),
        "untold": [text.clean(line) for line in shown.untold],
    }


def _content(run: Run, shown: Gallery) -> dict[str, Any]:
    return {
        "title": f"rnncheck: {text.verdict_word(run)}"
        if run.command not in ("bench", "memory")
        else f"rnncheck {run.command}",
        "header": text.header(run),
        "verdict": text.verdict_sentence(run),
        "failed": run.exit_code != 0,
        "guarantees": text.standings(run),
        "step": text.next_step(run),
        "chain": chain_of(run),
        "advice": [sweep.advice(found) for found in run.recommendations],
        "memory": memory_sections(run.memory) if run.memory is not None else [],
        "growth": [scaling.sentence for scaling in run.scalings],
        "claims": run.claims,
        "headings": sweep.HEADINGS,
        "groups": sweep.rows_by_group(run),
        "gate_headings": gate._HEADINGS,
        "gate": [
            (item.fails(strict=run.strict), gate.row(item))
            for items in gate.items_by_part(run).values()
            for item in items
        ],
        "families": {
            name: (text.passed_last(checks), text.family_line(checks))
            for name, checks in text.by_family(run.checks).items()
        },
        "root_of": lambda check: root_of(run, check),
        "findings": [
            (
                check,
                finding,
                parted_facts(facts_of(run, check, finding)),
                _frame(finding.source),
                shown.of(check.code) if number == 1 else [],
                _ways(run, check, finding),
            )
            for check, number, finding in findings_in_order(run)
        ],
        "raised": [
            (stage, text.clean(stage.detail.partition("\n")[0]), _frame(stage.source))
            for stage in run.stages
            if stage.outcome is Outcome.ERROR
        ],
        "broken_heading": text.broken_heading,
        "saw": text.saw,
        "outcome": text.outcome_word,
        "title_of": text.title,
        "row_title": lambda check: row_title(run, check),
        "notes": [n for n in (*text.broken_stages(run), text.unchecked(run), *run.notices) if n],
        "environment": _environment(run),
    }


def _ways(run: Run, check: CheckResult, finding: Finding) -> list[FaultWay]:
    """The ways of the fault, with the first finding of its check."""
    if run.exhibits is None or finding is not check.findings[0]:
        return []
    return [one for one in bounded(run.exhibits).ways if check.code in one.explains]


def _frame(source: Source | None) -> list[tuple[bool, str]]:
    """The lines around the one to change, each with its number, and whether it is that one."""
    frame = source.frame if source else ()
    width = len(str(max((number for number, _ in frame), default=0)))
    return [
        (source is not None and number == source.line, f"{number:>{width}} | {text.clean_code(c)}")
        for number, c in frame
    ]


def _environment(run: Run) -> list[tuple[str, str]]:
    env = run.environment
    pairs = [
        ("python", env.python),
        ("platform", env.platform),
        ("cpu", env.cpu),
        ("gpu", env.gpu),
        ("threads", str(env.threads)),
        *env.packages.items(),
        ("started", run.started),
    ]
    return [(name, text.clean(value)) for name, value in pairs if value]
