"""Which rules a run asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.checks.engine.select import select_rules
from rnncheck.errors import UserError
from rnncheck.results.model import Stage
from rnncheck.spec.load import load_spec

SPEC = load_spec(Path(__file__).parents[3] / "fixtures" / "specs" / "cartpole_dqn.yaml")


def codes(*args: object, **kwargs: object) -> list[str]:
    return [rule.code for rule in select_rules(SPEC, *args, **kwargs)]  # type: ignore[arg-type]


def test_all_rules_in_the_order_of_the_families() -> None:
    every = codes()
    assert len(every) == len(set(every))
    assert [code[2:] for code in every] == sorted(code[2:] for code in every)


def test_prefixes_codes_and_names() -> None:
    assert codes(["WR101", "memory-dead"]) == ["WR101", "BD306"]
    assert set(codes(["eq"])) == {code for code in codes() if code.startswith("EQ")}
    assert codes(["EQ201"], ["EQ"]) == []


def test_ignore_and_stage_narrow_the_selection() -> None:
    everywhere = set(codes())
    assert everywhere - set(codes(ignore=["BD"])) == set(codes(["BD"]))
    collected = select_rules(SPEC, stages=[Stage.COLLECT])
    assert {rule.stage for rule in collected} == {Stage.COLLECT}


@pytest.mark.parametrize("argument", ["select", "ignore"])
def test_a_prefix_that_names_nothing_is_refused(argument: str) -> None:
    with pytest.raises(UserError, match="memory-ded") as caught:
        select_rules(SPEC, **{argument: ["memory-ded"]})
    assert "memory-dead" in str(caught.value)
