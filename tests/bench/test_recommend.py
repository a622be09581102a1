"""What is recommended: the fastest right row, and never noise or a wrong one."""

from __future__ import annotations

from dataclasses import replace

from rnncheck.bench.group import SPENT
from rnncheck.bench.recommend import recommendations
from rnncheck.results.cells import Phase, Status
from rnncheck.spec.settings import BenchSpec
from tests.bench.rows import row

BENCH = BenchSpec()


def test_the_fastest_right_row_is_recommended_with_its_gain_and_arguments() -> None:
    rows = [
        row("pad", 1.0),
        row("scan", 0.9, against=1.0),
        row("scan-recompute-compiled", 0.5, against=1.0),
        row("auto", 0.1, against=1.0, status=Status.WRONG),
    ]
    (found,) = recommendations(rows, BENCH)
    assert found.variant == "scan-recompute-compiled"
    assert found.gain is not None
    assert found.gain.value == 2.0
    assert found.arguments == {"recurrent_backend": "scan", "recurrent_recompute": "full"}
    assert found.compile == "default"
    assert "2.00 times as fast as pad" in found.sentence


def test_a_gain_that_is_unclear_is_none() -> None:
    (found,) = recommendations([row("pad", 1.0), row("scan", 0.995, against=1.0)], BENCH)
    assert found.variant == "pad"
    assert "nothing that was measured is clearly faster" in found.sentence


def test_the_memory_limit_binds() -> None:
    rows = [row("pad", 1.0), row("scan", 0.5, against=1.0, peak=2**30)]
    (found,) = recommendations(rows, BENCH.model_copy(update={"memory_limit": 100}))
    assert found.variant == "pad"


def test_acting_and_training_have_answers_of_their_own_and_say_where_they_change() -> None:
    rows = [
        row("pad", 1.0, steps=64),
        row("scan", 0.5, steps=64, against=1.0),
        row("pad", 0.1, steps=8),
        row("scan", 0.2, steps=8, against=0.1),
        row("pad", 0.01, phase=Phase.ACT, steps=1),
        row("scan", 0.01, phase=Phase.ACT, steps=1, against=0.01),
    ]
    training, acting = recommendations(rows, BENCH)
    assert (training.purpose, training.variant) == ("training", "scan")
    assert training.changes == ("at train, 4 x 8, 0.03 resets: pad",)
    assert (acting.purpose, acting.variant) == ("acting", "pad")


def test_nothing_measured_recommends_nothing() -> None:
    assert recommendations([row("pad", 1.0, status=Status.CRASHED)], BENCH) == []


def test_what_is_not_settled_and_what_more_time_would_buy_is_said() -> None:
    (found,) = recommendations([row("pad", 1.0), row("scan", 0.995, against=1.0)], BENCH)
    assert [said.partition(":")[0] for said in found.open] == ["scan cannot be told from it"]
    best = row("scan", 0.5, against=1.0)
    assert best.timing is not None
    wide = replace(best, timing=replace(best.timing, low=0.48, high=0.52, stopped="choice clear"))
    (found,) = recommendations([row("pad", 1.0), wide], BENCH)
    # eight rounds of 1.5 s, and four times as many for half of it
    assert found.open == ("its time is known to ±4.0%: ±2.0% would need about 36 s more",)
    assert found.sentence.endswith(found.open[0])
    narrow = replace(best, timing=replace(best.timing, low=0.495, high=0.505, stopped=SPENT))
    (found,) = recommendations([row("pad", 1.0), narrow], BENCH)
    assert found.open == ("its time is known to ±1.0%: ±0.5% would need about 36 s more",)
