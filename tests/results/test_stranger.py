"""Results that somebody sent: read whole, or refused in one sentence."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import mutants
import pytest
from hostile import harmless
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rnncheck.errors import UserError
from rnncheck.results import store, stranger
from tests.report.canned import BROKEN, RUNS
from tests.report.gated import GATES
from tests.report.swept import SWEEP

BASES = [store.run_to_json(run) for run in (*RUNS.values(), *GATES.values(), SWEEP)]


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        store.read_run(path)
    said = str(caught.value)
    harmless(said)
    assert len(said) < 1000
    return said


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_any_mutant_is_read_or_refused_in_a_sentence(tmp_path: Path, seed: int) -> None:
    draw, path = random.Random(seed), tmp_path / "r.json"
    told = mutants.as_text(mutants.mutated(draw.choice(BASES), draw))
    path.write_text(mutants.cut(told, draw) if seed % 4 == 0 else told, errors="replace")
    try:
        run = store.read_run(path)
    except UserError as error:
        harmless(str(error))
        assert len(str(error)) < 1000
    else:
        again = store.run_to_json(run)
        assert again == store.run_to_json(store.from_json(again))


ODD: dict[str, tuple[str, Any, str]] = {
    "a time as text": ("seconds", "12", "seconds: 12.0 is meant, found '12'"),
    "a time that is none": ("seconds", "nan", "seconds: a run does not take nan s"),
    "a time before it began": ("seconds", -1.0, "a run does not take -1.0 s"),
    "a flag as text": ("strict", "yes", "strict: True is meant, found 'yes'"),
    "a number as a flag": ("seed", True, "seed: 1 is meant, found True"),
    "a long number": ("seed", 10**30, "longer than 64 bits"),
    "a number too large": ("seconds", 1e300, "a run does not take 1e+300 s"),
    "an object for a list": ("checks", {}, "checks: "),
    "no texts": ("notices", [1, None], "notices[0]: "),
    "half a pair": ("notices", ["\ud800"], "half of a surrogate pair"),
    "a cell that is none": ("cells", [{"cell": 3}], "cells[0]"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_does_not_fit_is_one_sentence(name: str, tmp_path: Path) -> None:
    field, value, said = ODD[name]
    (tmp_path / "r.json").write_text(json.dumps(store.run_to_json(BROKEN) | {field: value}))
    assert said in refusal(tmp_path / "r.json")


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_words_that_json_has_not_are_refused(word: str, tmp_path: Path) -> None:
    text = store.dumps(BROKEN).replace('"seconds": 4.21', f'"seconds": {word}')
    (tmp_path / "r.json").write_text(text)
    assert f"this is not JSON: it has no {word}" in refusal(tmp_path / "r.json")


@pytest.mark.parametrize("depth", [33, 900, 200_000])
def test_a_deep_nest_is_refused(depth: int, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"format": 2, "x": ' + "[" * depth + "]" * depth + "}")
    said = refusal(tmp_path / "r.json")
    assert "nested more than 32 levels" in said or "this JSON cannot be read" in said


def test_many_mistakes_are_one_sentence_with_their_count(tmp_path: Path) -> None:
    data = store.run_to_json(BROKEN) | {"checks": [{"x" * 1000: None}] * 2000}
    (tmp_path / "r.json").write_text(json.dumps(data))
    assert "(and 9999 more)" in refusal(tmp_path / "r.json")


def test_size_and_count_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write_run(BROKEN, tmp_path / "r.json")
    monkeypatch.setattr(stranger, "MAX_COUNT", 50)
    assert "holds more than 50 values" in refusal(tmp_path / "r.json")
    monkeypatch.setattr(stranger, "MAX_SIZE", 2**10)
    assert "this is larger than 0 MiB" in refusal(tmp_path / "r.json")


@pytest.mark.parametrize("place", [{"line": -1}, {"column": 2**40}, {"frame": [[-3, "x"]]}])
def test_a_place_that_no_file_has_is_refused(place: dict[str, Any], tmp_path: Path) -> None:
    data = store.run_to_json(BROKEN)
    failed = next(check for check in data["checks"] if check["findings"])
    failed["findings"][0]["source"] |= place
    (tmp_path / "r.json").write_text(json.dumps(data))
    assert "is no line, column or count" in refusal(tmp_path / "r.json")
