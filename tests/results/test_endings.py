"""A stage whose process ended raised nothing, and is not told as if it had."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from rnncheck.report import html, markdown
from rnncheck.report.text import broken_heading, broken_stages, next_step
from rnncheck.results.endings import broke_off, raised
from rnncheck.results.model import Outcome
from rnncheck.supervisor.last_words import ending_of
from rnncheck.supervisor.process import Death
from rnncheck.supervisor.supervise import COPIED
from tests.report.canned import CRASHED

ENDINGS = {
    "exit": "stage env ended the process, with exit code 0",
    "killed": "stage env: its process was killed by SIGSEGV",
    "hung": "stage env did not end within its time-out",
    "forked": "stage env: its code forked the process",
}
DEATHS = {
    "exit": ending_of(Death(0, False, "")),
    "killed": ending_of(Death(-signal.SIGSEGV, False, "")),
    "hung": ending_of(Death(0, True, "")),
    "forked": COPIED,
}


@pytest.mark.parametrize("way", ENDINGS)
def test_how_a_process_ended_is_told_as_it_is(way: str) -> None:
    assert broke_off(DEATHS[way])
    assert raised("stage env", DEATHS[way]).startswith(ENDINGS[way])


def test_what_was_raised_is_told_as_raised() -> None:
    assert raised("stage env", "KeyError: 'h'") == "stage env raised: KeyError: 'h'"


def test_every_report_tells_of_the_end_and_of_no_exception() -> None:
    stages = tuple(
        replace(one, outcome=Outcome.ERROR, detail=DEATHS["exit"]) if one.stage == "env" else one
        for one in CRASHED.stages
    )
    run = replace(CRASHED, checks=(), causes=(), stages=stages)
    assert broken_stages(run)[0] == "stage env ended the process, with exit code 0"
    assert next_step(run).startswith("mend what ended the env stage, then rnncheck verify")
    page, document = html.render(run), markdown.render(run)
    assert all("stage env ended the process" in told for told in (page, document))
    assert broken_heading(stages[0]) in page
