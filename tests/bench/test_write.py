"""``--write``: the recommendation goes into the spec, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.bench.write import write_recommendation
from rnncheck.errors import UserError
from rnncheck.results.recommendation import Recommendation
from rnncheck.spec.load import load_spec

SPEC = Path("fixtures/specs/cartpole_dqn.yaml")


def recommended(**arguments: str) -> Recommendation:
    return Recommendation("training", "train, 4 x 8", "scan", None, arguments, "eager")


def test_only_the_module_changes_and_a_later_answer_takes_back_the_earlier(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC.read_text(encoding="utf-8"), encoding="utf-8")
    before = path.read_text(encoding="utf-8").splitlines()
    full = recommended(recurrent_backend="scan", recurrent_recompute="full")
    write_recommendation(load_spec(path, []), full)
    changed = [line for line in path.read_text(encoding="utf-8").splitlines() if line not in before]
    assert len(changed) == 1
    assert "recurrent_backend: scan, recurrent_recompute: full}" in changed[0]
    told = write_recommendation(load_spec(path, []), recommended(recurrent_backend="pad"))
    assert any("recurrent_recompute removed" in line for line in told)
    load_spec(path, [])
    told = write_recommendation(load_spec(path, []), recommended(recurrent_backend="pad"))
    assert told[0].endswith("the spec says so already")


def test_a_policy_from_a_factory_is_told_where_to_put_it() -> None:
    spec = load_spec(Path("fixtures/bench/troubled.yaml"), [])
    with pytest.raises(UserError, match="names no LSTMModule or GRUModule"):
        write_recommendation(spec, recommended(recurrent_backend="scan"))
