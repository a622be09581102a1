"""The terminal report: it fits, it hides nothing, and no string of the user's can break it."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from rnncheck.report.console import render, show_run
from rnncheck.report.ending import LAST
from rnncheck.report.formats import Target, write_reports
from rnncheck.report.formats import render as render_as
from rnncheck.report.progress import ConsoleProgress
from rnncheck.report.terminal import console_for
from rnncheck.report.text import explaining
from rnncheck.results.events import (
    CheckFinished,
    CheckStarted,
    Notice,
    RunStarted,
    StageFinished,
    StageStarted,
)
from rnncheck.results.model import Run, Stage
from tests.report.canned import BROKEN, CRASHED, HEALTHY, HOLDS, HOSTILE, HOSTILE_RUN, RUNS, SPREAD

WIDTHS = [40, 60, 80, 120]
NUMBER = re.compile(r"(?<![\w.])-?\d[\d.]*(?:e[+-]?\d+)?")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RUNS)
def test_no_line_is_wider_than_the_terminal(name: str, width: int, verbose: bool) -> None:
    lines = render(RUNS[name], width, verbose=verbose).splitlines()
    assert [line for line in lines if cell_len(line) > width] == []
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("width", WIDTHS[:-1])
def test_no_number_is_broken_by_the_width(width: int) -> None:
    wide, narrow = (NUMBER.findall(_facts(render(BROKEN, w, verbose=True))) for w in (400, width))
    assert narrow == wide


def _facts(out: str) -> str:
    """The findings without their code frames, which are cut and not wrapped."""
    told = out[out.index("WR103 missing-state-primer  error") :]
    return "\n".join(line for line in told.splitlines() if "│" not in line)


def test_a_finding_says_all_it_knows() -> None:
    out = render(BROKEN, 120, verbose=True)
    for said in (
        "max abs difference of features: 0.01834",
        "3 segments of 2 rows, 64 steps, float32",
        "0 = bitwise equal",
        "passes at  0.01835",
        "batch [0, 1], segment 1, step 21, feature [5]; differs from step 17 on",
        "the cell reads its state without looking at is_init",
        "zero the state where is_init is true, before the cell runs",
        "pipelines/own_cell.py:41 (make_policy)",
        "❯ 41 │ def make_policy(env, hidden_size=64, layers=2):",
        "next: rnncheck rule WR103",
        "not checked, since the spec leaves them out: replay, loss",
        "CL404, CL408: one batch",
    ):
        assert said in out


def test_measured_and_bound_never_look_equal_when_they_are_not() -> None:
    assert "measured   max abs error: 1.00001e-06" in render(BROKEN, verbose=True)


@pytest.mark.parametrize("name", [name for name in RUNS if name != "hostile"])
def test_the_last_lines_are_few_and_end_with_the_exit_code(name: str) -> None:
    out = render(RUNS[name], 80).rstrip("\n")
    last = out.rpartition("\n\n")[2].splitlines()
    assert len(last) <= LAST
    assert f"exit {int(RUNS[name].exit_code)} (" in " ".join(last)


def test_the_last_lines_say_the_first_cause_its_line_and_its_fix() -> None:
    last = render(BROKEN, 80).rstrip("\n").rpartition("\n\n")[2]
    assert "\ncause      WR103 missing-state-primer: a reset of the env has no" in last
    assert "\nat         configs/rnncheck.yaml:7:3 (env.transforms)\n" in last
    assert "\nfix        append lstm.make_tensordict_primer() to the env's transforms, or\n" in last
    assert "\nalso       BD301 state-crosses-reset and WR105 random-initial-state\n" in last


def test_a_stage_that_raised_ends_with_the_users_line_and_what_to_run() -> None:
    last = render(CRASHED, 80).rstrip("\n").rpartition("\n\n")[2]
    assert "raised     collect: ValueError: env is closed (own_env.py:12)" in last
    assert "\nat         own_env.py:12 (collect)\n    ❯ 12 │     raise ValueError\n" in last
    assert "next: mend what the collect stage raised, then rnncheck verify" in last


def test_what_follows_has_no_cause_and_no_fix_of_its_own() -> None:
    for form in ("console", "markdown", "html", "github"):
        out = render(SPREAD, 80, verbose=True) if form == "console" else render_as(SPREAD, form)
        assert out.count("append the primers") >= 1, form
        assert "steps shuffled" not in out, form
        assert "follows from WR103" in out, form


def test_a_proved_fix_says_what_passes_with_it() -> None:
    said = "proved     with the primers appended, WR103 and CL401 pass"
    last = render(SPREAD, 80).rstrip("\n").rpartition("\n\n")[2]
    assert said in last
    assert "follows    probably LS702" in last


def test_a_row_says_what_holds() -> None:
    known = replace(HEALTHY, rules=(HOLDS,))
    assert "passed         WR102 the env writes every start flag" in render(known, verbose=True)
    assert "wiring                 2 of 2 hold" in render(known)


def test_markup_and_control_characters_are_shown_as_text_or_not_at_all() -> None:
    out = render(HOSTILE_RUN, 120)
    assert "[red]x[/red] <b>" in out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200d\ufe0f]", out)
    assert "日本語" in out
    assert "[31m" not in out


def test_quiet_is_what_failed_and_the_verdict() -> None:
    said = "acting verified, training not checked: 3 passed, 1 could not look, 3 not applicable; "
    assert render(HEALTHY, quiet=True).startswith(said)
    assert len(render(HEALTHY, 120, quiet=True).splitlines()) == 1
    failed = render(BROKEN, quiet=True).splitlines()
    assert failed[:4] == [
        "failed WR103 missing-state-primer",
        "failed BD301 state-crosses-reset",
        "failed EQ201 modes-disagree",
        "failed WR105 random-initial-state",
    ]
    assert failed[4].startswith("failed: 3 failed, 1 warning")


def test_verbose_says_what_passed_checks_compared() -> None:
    said = "2 keys, 4 rows, 32 steps: 1.2e-07 <= 4.8e-07"
    assert said not in render(HEALTHY)
    assert said in render(HEALTHY, verbose=True)


def test_a_user_traceback_keeps_its_lines() -> None:
    assert "cannot be multiplied\n  in rnncheck/checks/oracle.py:12" in render(CRASHED)


def test_a_stream_that_knows_no_unicode_gets_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    show_run(HOSTILE_RUN, console_for(stream))
    show_run(BROKEN, console_for(stream))
    stream.flush()
    assert "> 41 | def make_policy" in raw.getvalue().decode("ascii")


def test_colours_only_on_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in _written(io.StringIO())
    assert re.search(r"\x1b\[[\d;]*31m", _written(Terminal()))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3\dm", _written(Terminal()))


def _written(stream: io.StringIO) -> str:
    write_reports(BROKEN, [Target("console")], stream)
    return stream.getvalue()


def test_the_width_of_the_terminal_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = _written(io.StringIO()).splitlines()
    assert max(map(cell_len, lines)) <= 60


def replay(run: Run, stream: io.StringIO, quiet: bool = False, verbose: bool = False) -> str:
    """The progress of a run, as it was written to ``stream``."""
    codes = tuple(check.code for check in run.checks)
    with ConsoleProgress(console_for(stream), quiet, verbose) as progress:
        progress(RunStarted(run.tool, "", run.spec, run.environment, 0, run.started, codes))
        for stage in run.stages:
            progress(StageStarted(stage.stage))
            progress(StageFinished(stage))
        for check in run.checks:
            progress(CheckStarted(check.code, check.name, check.stage))
            progress(CheckFinished(check))
        for notice in run.notices:
            progress(Notice(notice))
    return stream.getvalue()


def test_progress_is_plain_lines_where_there_is_no_terminal() -> None:
    out = replay(BROKEN, io.StringIO())
    assert "\x1b" not in out and "\r" not in out
    assert out.splitlines()[:4] == [
        "env:       GymEnv CartPole-v1, 1 worker (0.3 s)",
        "policy:    4 modules, 12,345 parameters (0.1 s)",
        "collect:   2 batches of 256 frames (0.8 s)",
        "replay:    not in the spec",
    ]
    assert "failed: BD301 state-crosses-reset" in out
    assert "passed: WR101" not in out
    assert "passed: WR101 no-recurrent-state" in replay(BROKEN, io.StringIO(), verbose=True)


def test_progress_says_nothing_when_quiet() -> None:
    assert replay(BROKEN, io.StringIO(), quiet=True) == ""
    assert replay(BROKEN, Terminal(), quiet=True) == ""


def test_progress_on_a_terminal_rewrites_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    out = replay(BROKEN, Terminal())
    assert "checks 10/11, 4 failed: GR805 short-horizon ..." in out
    assert out.rstrip().endswith("\x1b[2K")  # the line is gone at the end


def test_progress_says_how_long_a_check_has_been_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream, plain = Terminal(), io.StringIO()
    for one in (stream, plain):
        with ConsoleProgress(console_for(one)) as progress:
            progress.tick()
            progress(CheckStarted("GR804", "does-not-learn", Stage.LOSS))
            now[0] += 12.7
            progress.tick()
    assert "GR804 does-not-learn ... 12 s" in stream.getvalue()
    assert "GR804" not in plain.getvalue()


def test_progress_shows_hostile_strings_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" not in replay(HOSTILE_RUN, io.StringIO())
    assert HOSTILE[:12] in replay(HOSTILE_RUN, Terminal())
    assert "\x1b[31m\x00" not in replay(HOSTILE_RUN, Terminal())


def test_a_finding_names_what_explains_its_check() -> None:
    assert "more       rnncheck rule BD301\n" in render(BROKEN, 120, verbose=True)


def test_a_check_of_ones_own_is_explained_with_its_spec() -> None:
    assert explaining(BROKEN, "BD301") == "rnncheck rule BD301"
    assert explaining(BROKEN, "MY001") == f"rnncheck rule MY001 --spec {BROKEN.spec.path}"
    live = replace(BROKEN, spec=replace(BROKEN.spec, path="agent.py"))
    assert explaining(live, "MY001") == "rnncheck rule MY001"
