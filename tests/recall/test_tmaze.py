"""A real one: the T-maze's agents as they were trained, through the command line's own steps."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import rnncheck
from rnncheck.recall.recommend import trained_on
from rnncheck.recall.write import write_advice
from rnncheck.report.formats import render
from rnncheck.results.changes import Change
from rnncheck.results.compare import compare_runs
from rnncheck.results.memory import Estimated, MemoryResult, ReplayCurve, ReturnEffect
from rnncheck.results.memory_changes import compared_memories
from rnncheck.results.model import Run
from rnncheck.spec.load import load_spec

FOLDER = Path(__file__).parents[2] / "fixtures" / "memory"
CORRIDOR = 8
QUICK = ("memory.recorded=8", "memory.episodes=128")


@pytest.fixture(scope="module")
def walked() -> Run:
    return rnncheck.memory(FOLDER / "tmaze.yaml", overrides=QUICK)


@pytest.fixture(scope="module")
def lost() -> Run:
    return rnncheck.memory(FOLDER / "tmaze_short_slices.yaml", overrides=QUICK)


def of(run: Run) -> MemoryResult:
    assert run.memory is not None
    return run.memory


def test_its_memory_matters_as_far_as_the_corridor(walked: Run) -> None:
    under = {one.treatment: one for one in of(walked).returns}
    lost = under["reset every step"].lost
    assert lost is not None
    assert lost.low > 0
    assert set(under["own state"].returns) == {1.0}
    curve = of(walked).main_curve
    assert curve is not None
    assert curve.horizon == CORRIDOR
    assert curve.lags[CORRIDOR].low > curve.lags[1].high  # the cue, of all that was seen
    assert of(walked).findings == ()


@pytest.mark.slow
def test_slices_shorter_than_the_corridor_are_the_reason_of_a_failure(lost: Run) -> None:
    found = {one.name: one for one in of(lost).findings}
    assert "gradients run through 4 steps (slice_len)" in found["memory-unused"].explained
    assert "episodes last up to 9" in found["memory-unused"].explained
    assert found["slices-short"].fix == "slices of 9 steps or more"
    effects = {one.treatment: one.effect for one in of(lost).returns}
    assert effects["reset every step"] is ReturnEffect.SAME


@pytest.mark.slow
def test_two_checkpoints_are_compared(walked: Run, lost: Run) -> None:
    changes = {one.label: one.change for one in compare_runs(lost, walked)}
    assert changes["return lost, reset every step"] is Change.MORE
    assert changes["horizon, action_value, replaced"] is Change.SAME
    same = compare_runs(walked, walked)
    assert {one.change for one in same} == {Change.SAME}


def test_a_figure_that_the_episodes_end_before_may_be_as_much_as_a_larger_one() -> None:
    def study(value: float, *, beyond: bool) -> MemoryResult:
        burn_in = Estimated(value, value, value, beyond)
        return MemoryResult(replay=(ReplayCurve("zero", "values", "", (), 0.05, burn_in),))

    def change(first: MemoryResult, second: MemoryResult) -> Change:
        (found,) = compared_memories(first, second)
        return found.change

    assert change(study(8, beyond=True), study(12, beyond=False)) is Change.UNCLEAR
    assert change(study(12, beyond=False), study(8, beyond=True)) is Change.UNCLEAR
    assert change(study(8, beyond=True), study(4, beyond=False)) is Change.LESS
    assert change(study(4, beyond=False), study(8, beyond=True)) is Change.MORE


def test_what_is_advised_is_written_into_the_spec(lost: Run, tmp_path: Path) -> None:
    for file in FOLDER.glob("tmaze*"):
        shutil.copy(file, tmp_path)
    path = tmp_path / "tmaze_short_slices.yaml"
    text = path.read_text(encoding="utf-8")
    told = write_advice(load_spec(path), of(lost).advice)
    assert any("slice_len = 9" in line for line in told)
    assert trained_on(load_spec(path)).slice_len == CORRIDOR + 1
    assert load_spec(path).replay is not None
    assert path.read_text(encoding="utf-8").splitlines()[0] == text.splitlines()[0]
    assert write_advice(load_spec(path), of(lost).advice)[0].endswith("the spec says so already")


def test_older_weights_cost_a_burn_in() -> None:
    """States that other weights stored are worth no more than none; these very weights' are."""
    run = rnncheck.memory(
        FOLDER / "tmaze.yaml", overrides=("memory.recorded=4", "memory.episodes=2"),
        older=FOLDER / "tmaze_short.pt",
    )  # fmt: skip
    first = {one.start: one.errors[0].mean for one in of(run).replay}
    assert first["stored"] < 1e-6 < first["stored by older weights"]


@pytest.mark.parametrize("form", ["html", "markdown", "csv", "json", "console"])
def test_every_format_has_the_measures(walked: Run, form: str) -> None:
    text = render(walked, form)
    assert "reset every step" in text
    if form == "html":
        assert text.count("<svg") == 4
        assert "influence of step on step" in text
        assert '<span class="row">own state' in text  # a bar does not wrap
    if form == "csv":
        lines = text.splitlines()
        assert sum(line.startswith("influence,action_value,replaced") for line in lines) == 9
