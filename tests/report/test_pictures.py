"""What a report draws: every picture there with its numbers, whoever stored them; in a terminal as
text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hostile import harmless
from syrupy.assertion import SnapshotAssertion

from rnncheck.report.chain import Light, chain_line, chain_of
from rnncheck.report.console import render as render_console
from rnncheck.report.console import show_run
from rnncheck.report.ending import LAST, last_lines
from rnncheck.report.formats import FORMATS, render
from rnncheck.report.pictures.all import gallery
from rnncheck.report.terminal import text_console
from rnncheck.results import store
from rnncheck.results.exhibits import Line
from rnncheck.results.memory import InfluenceMatrix, MemoryResult, ReturnsUnder
from rnncheck.results.model import Outcome, Stage, StageResult
from tests.report.canned import BROKEN, HEALTHY
from tests.report.drawn import CAUSE, DRAWN, EXHIBITS, MAP, ODD, SHOWN_HEALTHY


def test_every_picture_is_in_the_page_with_its_numbers() -> None:
    page = render(DRAWN, "html")
    assert page.count("<svg") == page.count("<figure") == 3
    assert "row 0, step 6" in page  # the marked step in words
    assert ">0.125<" in page  # a number of the matrix
    assert "2 entries off the blocks" in page
    assert "they part at step 2" in page
    assert "the estimator: it raises" in page  # what could not be had is said


def test_pictures_stand_with_the_finding_that_they_explain() -> None:
    page = render(DRAWN, "html")
    cause, follower = page.index('<h2 class="bad">WR103'), page.index('<h2 class="bad">BD301')
    assert all(cause < found.start() < follower for found in re.finditer("<svg", page))
    assert cause < page.index("the way of the foreign value") < follower


def test_a_healthy_run_shows_its_batches_below() -> None:
    page = render(SHOWN_HEALTHY, "html")
    assert page.index("What the batches look like") < page.index("<svg")


def test_the_page_takes_nothing_from_outside() -> None:
    page = render(DRAWN, "html")
    addresses = set(re.findall(r'(?:src|href)="([^"#][^"]{0,30})', page))
    assert not {one for one in addresses if not one.startswith("data:image/png")}
    assert "<script" not in page


def test_colours_of_text_are_the_pages_own() -> None:
    page = render(DRAWN, "html")
    assert "currentColor" in page
    assert "#010203" not in page


def test_the_same_run_gives_the_same_page() -> None:
    assert render(DRAWN, "html") == render(DRAWN, "html")


@pytest.mark.parametrize("width", [60, 100])
def test_the_terminal_shows_the_cause_above_its_last_lines(
    width: int, snapshot: SnapshotAssertion
) -> None:
    shown = render_console(DRAWN, width)
    assert max(map(len, shown.splitlines())) <= width
    last = list(map(str, last_lines(BROKEN, text_console(width))))
    assert [line.rstrip() for line in shown.splitlines()[-len(last) :]] == last
    assert len(last) <= LAST
    assert shown == snapshot


def test_an_ascii_terminal_gets_ascii() -> None:
    console = text_console(80)
    console.file = open_ascii()
    show_run(DRAWN, console)
    console.file.seek(0)
    told = console.file.read()
    assert ">-]@==X-" in told
    assert "0:3       x # ." in told


def open_ascii() -> object:
    import io

    return io.TextIOWrapper(io.BytesIO(), encoding="ascii")


def test_quiet_shows_no_strip() -> None:
    assert "training batch 0" not in render_console(DRAWN, quiet=True)


@pytest.mark.parametrize("form", FORMATS)
def test_odd_exhibits_break_no_format(form: str) -> None:
    run = replace(DRAWN, exhibits=ODD)
    out = render(run, form)
    harmless(out, commands=form == "github")
    if form == "html":
        assert out.count("<svg") + out.count("could not be drawn") == 7


def test_lines_of_a_curve_are_told_apart_however_many_they_are() -> None:
    lines = tuple(Line(f"way {n}", (0.0, 1.0), (1.0, 2.0 + n)) for n in range(9))
    curves = (replace(EXHIBITS.curves[0], lines=lines),)
    shown = replace(EXHIBITS, strips=(), matrices=(), curves=curves)
    (picture,) = gallery(shown).pictures
    style = r'clip-path="[^"]+" style="fill: none; (stroke-dasharray: [^;]+;)?[^"]*?stroke: (\S+);'
    assert len(set(re.findall(style, picture.svg))) == 9 + 2  # the grid, and where they part
    assert all(f">way {n}<" in picture.svg for n in range(9))


def test_a_stored_run_keeps_its_exhibits() -> None:
    again = store.from_json(store.run_to_json(DRAWN))
    assert again.exhibits == EXHIBITS


def test_what_lies_off_the_blocks_is_counted() -> None:
    assert MAP.crossings == 2
    assert replace(MAP, values=((1.0, 0.0, 0.0),) * 3, borders=(0,)).crossings == 0
    later = ((1.0, 1.0), (0.0, 1.0))
    assert replace(MAP, values=later, borders=(0,), causal=True).crossings == 1


def test_off_the_blocks_is_no_fault_where_the_check_passed() -> None:
    (picture,) = gallery(replace(EXHIBITS, strips=(), curves=(), matrices=(PASSED,))).pictures
    assert "no finding (LS701 passed)" in picture.note
    assert "#d55e00" not in picture.svg.lower()


PASSED = replace(MAP, broken=False)


def test_a_stage_is_told_by_a_sign_and_a_word() -> None:
    lights = {one.name: one.light for one in chain_of(BROKEN)}
    assert lights["env"] is Light.BROKEN
    assert lights["loss"] is Light.NOT_ASKED
    assert chain_of(HEALTHY)[0].light is Light.HOLDS
    assert "env x" in chain_line(BROKEN, ascii_alone=True)


def test_a_run_without_checks_has_no_chain() -> None:
    assert chain_of(replace(HEALTHY, checks=())) == []
    script = (StageResult(Stage.TRAIN, Outcome.PASSED), *HEALTHY.stages)  # as `run` tells them
    assert [one.name for one in chain_of(replace(HEALTHY, stages=script))][-1] == "training"


def test_a_stage_that_raised_is_red() -> None:
    raised = StageResult(Stage.ENV, Outcome.ERROR, "ValueError: no")
    (env, *_) = chain_of(replace(HEALTHY, stages=(raised, *HEALTHY.stages[1:])))
    assert (env.light, env.why) == (Light.BROKEN, "ValueError: no")


def test_the_cause_of_the_canned_run_is_the_drawn_one() -> None:
    assert {CAUSE} == {code for one in EXHIBITS.strips for code in one.explains}


@pytest.mark.parametrize(
    "found",
    [
        MemoryResult(returns=(ReturnsUnder("own", ()),)),
        MemoryResult(matrix=InfluenceMatrix("logits", "nats", 1, ((1.0, 2.0), (1.0,)))),
        MemoryResult(matrix=InfluenceMatrix("logits", "nats", 7, ((1.0, 2.0), (1.0, 2.0)))),
        MemoryResult(matrix=InfluenceMatrix("logits", "nats", 0, ())),
    ],
    ids=["no returns", "ragged", "beyond", "empty"],
)
def test_a_study_that_no_run_stores_is_shown(found: MemoryResult) -> None:
    run = replace(HEALTHY, command="memory", memory=found)
    for name in ("html", "console"):
        assert render(run, name)
