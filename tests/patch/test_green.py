"""Broken fixtures that ``--fix`` makes green, each with its diff."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.patch.offer import with_patch
from rnncheck.results.events import PatchOffered, PatchWithheld
from rnncheck.results.patch import Patch
from rnncheck.spec.load import load_spec

FIXTURES = Path(__file__).parents[2] / "fixtures"
GREEN = [
    "broken/wr102_missing_init_tracker",
    "broken/wr103_missing_state_primer",
    "broken/wr104_primer_does_not_fit",
    "broken/wr105_random_initial_state",
    "broken/wr106_state_key_shared",
    "training/rp501_slice_start_unmarked",
    "training/rp502_steps_not_consecutive",
    "training/rp506_ends_unseen",
    "training/rp508_burn_in_does_nothing",
    "training/vl604_critic_before",
    "training/vl604_target_differs_from_sequential",
    "training/vl605_estimator_cannot_run",
    "training/ls701_loss_crosses_boundary",
]
# What is asked: the families that see such faults. Each was seen green with all checks as well.
ASKED = {"broken": ("WR", "BD", "CL"), "training": ("RP", "VL", "LS", "GR")}
WITHHELD = ["broken/wr101_no_recurrent_state"]


def ended(name: str) -> Patch | str:
    """The patch of a run, or why there is none."""
    spec = load_spec(FIXTURES / f"{name}.yaml")
    rules = select_rules(spec, ASKED[name.partition("/")[0]])
    for event in with_patch(verify_events(spec, rules), spec, rules):
        if isinstance(event, PatchOffered):
            return event.patch
        if isinstance(event, PatchWithheld):
            return event.because
    raise AssertionError("nothing was said of a patch")


@pytest.mark.slow
@pytest.mark.parametrize("name", GREEN)
def test_a_broken_fixture_is_green_behind_its_patch(name: str, snapshot: SnapshotAssertion) -> None:
    patch = ended(name)
    assert isinstance(patch, Patch)
    assert (
        "\n".join([f"{', '.join(patch.mends)}, {', '.join(patch.words)}", patch.diff]) == snapshot
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHHELD)
def test_where_none_makes_it_green_none_is_offered(name: str) -> None:
    assert isinstance(because := ended(name), str)
    assert "none is known for" in because
