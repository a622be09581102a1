"""What a run collects for its report, through the CLI: for the cause alone, or all of it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from rnncheck.checks.engine.guarded import guarded
from rnncheck.checks.rule import CouldNotLook
from rnncheck.exhibits.collect import Illustration
from rnncheck.results.exhibits import MOST_ROWS, MOST_STEPS
from tests.conftest import ROOT, Runner

FIXTURES = ROOT / "fixtures"


def verified(rnncheck: Runner, tmp_path: Path, spec: str, *more: str) -> dict[str, Any]:
    """The stored run of a fixture, asked for the given checks."""
    path = FIXTURES / spec
    shutil.copytree(path.parent, tmp_path / "specs")
    out = tmp_path / "run.json"
    done = rnncheck(
        "verify", str(tmp_path / "specs" / path.name), "--no-repair", *more,
        "--report", f"json={out}", "--report", "console",
    )  # fmt: skip
    assert done.returncode in (0, 1, 4), done.stderr
    stored: dict[str, Any] = json.loads(out.read_text()) | {"told": done.stdout}
    return stored


def test_a_leak_is_shown_by_segment_and_by_its_way(rnncheck: Runner, tmp_path: Path) -> None:
    run = verified(rnncheck, tmp_path, "broken/bd301_state_crosses_reset.yaml", "--select", "BD301")
    shown, (finding,) = run["exhibits"], run["checks"][0]["findings"]
    assert not shown["whole"]
    (strip,), (moves,), (way,) = shown["strips"], shown["matrices"], shown["ways"]
    (mark,) = strip["marks"]
    assert mark["position"] == finding["where"]["first_step"]
    assert mark["position"] in strip["rows"][0]["starts"]
    size = len(moves["values"])
    later = [moves["values"][i][j] for i in range(size) for j in range(size) if j > i]
    earlier = [moves["values"][i][j] for i in range(size) for j in range(i)]
    assert not any(later) and all(earlier)  # the state runs on, and never back
    assert (way["points"][0]["stage"], way["points"][0]["key"]) == ("policy", "embed")
    assert way["points"][0]["at"] == f"row 0, step {mark['position']}"
    assert "OneLongSequence" in way["points"][0]["said"]
    assert "× ■" in run["told"]


def test_nothing_is_collected_where_nothing_failed_and_no_page_asks() -> None:
    nothing: Any = None
    assert list(Illustration(whole=False)([], nothing)) == []


def test_a_page_shows_a_healthy_run(rnncheck: Runner, tmp_path: Path) -> None:
    spec = "broken/bd301_state_crosses_reset_near_miss.yaml"
    page = tmp_path / "run.html"
    more = ("--select", "BD301", "--report", f"html={page}")
    shown = verified(rnncheck, tmp_path, spec, *more)["exhibits"]
    assert shown["whole"]
    assert len(shown["strips"]) == len(shown["matrices"]) == len(shown["curves"]) == 1
    assert shown["untold"] == []
    _isolated(shown["matrices"][0])
    (fading,) = shown["curves"][0]["lines"]
    assert fading["y"][0] > fading["y"][-1] >= 0
    assert page.read_text().count("<svg") == 3


def _isolated(matrix: dict[str, Any]) -> None:
    """Every segment moves with itself and with what came before alone."""
    borders, values = matrix["borders"], matrix["values"]
    assert len(borders) > 1 and len(values) <= MOST_STEPS
    block = [sum(one <= i for one in borders) for i in range(len(values))]
    for i, line in enumerate(values):
        assert line[i] > 0
        assert not any(v for j, v in enumerate(line) if j > i or block[j] != block[i])


@pytest.mark.slow
def test_the_first_module_whose_modes_part_is_named(rnncheck: Runner, tmp_path: Path) -> None:
    run = verified(rnncheck, tmp_path, "broken/eq201_modes_disagree.yaml", "--select", "EQ201")
    (way,) = run["exhibits"]["ways"]
    (point,) = way["points"]
    assert point["key"] == "embed"
    assert "TwoImplementations" in point["said"] and "first module" in point["said"]
    assert point["at"] == f"step {run['checks'][0]['findings'][0]['where']['first_step']}"


@pytest.mark.slow
def test_a_state_that_is_lost_is_seen_to_part(rnncheck: Runner, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    run = verified(
        rnncheck, tmp_path, "broken/cl404_carry_broken_between_batches.yaml",
        "--select", "CL404", "--report", f"html={page}",
    )  # fmt: skip
    named = {one["of"]: one for one in run["exhibits"]["curves"]}
    recorded = named["recorded against replayed, next.h"]
    one, other = (dict(zip(line["x"], line["y"], strict=True)) for line in recorded["lines"])
    at = recorded["parts_at"]
    assert at > 0 and one[at] != pytest.approx(other[at], rel=1e-3)
    assert all(one[x] == pytest.approx(other[x], rel=1e-3) for x in one if x < at)
    points = [(p["stage"], p["key"]) for p in run["exhibits"]["ways"][0]["points"]]
    assert points == [("collect", "h"), ("replay", "h")]


@pytest.mark.slow
def test_the_error_of_each_backend_is_drawn_with_what_it_is_held_to(
    rnncheck: Runner, tmp_path: Path
) -> None:
    page, asked = tmp_path / "run.html", ["pad", "scan", "pad-bfloat16"]
    run = verified(
        rnncheck, tmp_path, "broken/eq207_backends_disagree.yaml", "--select", "EQ207",
        "--backends", ",".join(asked), "--report", f"html={page}",
    )  # fmt: skip
    (drawn,) = [one for one in run["exhibits"]["curves"] if one["explains"] == ["EQ207"]]
    lines = {line["name"]: line["y"] for line in drawn["lines"]}
    assert list(lines) == [*asked, "held to, float32", "held to, bfloat16"]
    for name, limit in ("pad", "float32"), ("pad-bfloat16", "bfloat16"):
        pairs = zip(lines[name], lines[f"held to, {limit}"], strict=True)
        assert all(error <= most for error, most in pairs)
    beyond = [e > m for e, m in zip(lines["scan"], lines["held to, float32"], strict=True)]
    (finding,) = run["checks"][0]["findings"]
    assert beyond.index(True) == drawn["parts_at"] == finding["where"]["first_step"]
    written = page.read_text()
    assert "<th>held to, bfloat16</th>" in written  # the table beside it
    assert written.index("EQ207 backends-disagree") < written.index("Error of output by backend")


@pytest.mark.slow
def test_a_leak_of_the_loss_is_followed_to_its_target(rnncheck: Runner, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    run = verified(
        rnncheck, tmp_path, "training/ls701_loss_crosses_boundary.yaml",
        "--select", "LS701", "--report", f"html={page}",
    )  # fmt: skip
    shown = run["exhibits"]
    names = [point["key"] for point in shown["ways"][0]["points"]]
    assert names[-2:] == ["next value", "target"]
    loss = [one for one in shown["matrices"] if one["of"] == "loss"]
    assert all(one["broken"] and one["judged_by"] == ["LS701"] for one in loss)
    (module,) = [one for one in shown["matrices"] if one["of"] != "loss"]
    _isolated(module)  # the policy's own pass is right
    assert all(len(one["rows"]) <= MOST_ROWS for one in shown["strips"])


@pytest.mark.slow
def test_an_unmarked_join_is_seen_in_the_module(rnncheck: Runner, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    run = verified(
        rnncheck, tmp_path, "training/rp501_slice_start_unmarked.yaml",
        "--select", "RP501", "--report", f"html={page}",
    )  # fmt: skip
    (module,) = [one for one in run["exhibits"]["matrices"] if one["of"] != "loss"]
    assert module["broken"] and module["judged_by"] == ["RP501"]
    second, third = module["borders"][1:3]
    assert any(module["values"][i][j] for i in range(second, third) for j in range(second))
    points = run["exhibits"]["ways"][0]["points"]
    assert [one["stage"] for one in points] == ["collect", "collect", "replay"]


def test_what_cannot_be_had_is_a_sentence() -> None:
    def raising() -> int:
        raise RuntimeError("no room")

    def leaving() -> int:
        raise SystemExit(3)

    def unanswered() -> int:
        raise CouldNotLook("nothing was collected")

    def slow() -> int:
        time.sleep(5)
        return 1

    assert guarded("the strip", 5.0, lambda: 3) == (3, "")
    assert guarded("the strip", 5.0, raising) == (None, "the strip: RuntimeError: no room")
    assert guarded("the strip", 5.0, unanswered) == (None, "the strip: nothing was collected")
    assert guarded("the strip", 5.0, leaving)[0] is None
    assert guarded("it", 0.05, slow) == (None, "it: it takes longer than 0.05 s")
