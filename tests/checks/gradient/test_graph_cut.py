"""GR801: which passes of the loss are asked, and where the graph is cut."""

from __future__ import annotations

import pytest

from rnncheck.results.model import Stage
from tests.checks.verified import FIXTURES, failed, result, verified

TRAINING = FIXTURES / "training"


@pytest.mark.slow
def test_a_pass_of_which_nothing_is_used_trains_no_memory() -> None:
    run = verified(TRAINING / "q_slices.yaml", ("GR801",), "loss.kind=PassBeside")
    assert failed(run) == {"GR801"}
    (finding,) = result(run, "GR801").findings
    assert finding.stage is Stage.LOSS


@pytest.mark.slow
def test_a_cell_that_cuts_its_own_graph_is_named_before_the_loss() -> None:
    run = verified(TRAINING / "gr801_graph_cut.yaml", ("GR801",))
    (finding,) = result(run, "GR801").findings
    assert finding.stage is Stage.POLICY and "without detach()" in finding.fix
