"""A recurrent pass that hands on one state for a whole row."""

from __future__ import annotations

from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Severity
from tests.checks.verified import FIXTURES, failed, result, verified

SPEC = FIXTURES / "broken" / "eq202_end_state_wrong.yaml"
EVERYWHERE = "policy.modules.0.factory=eq202_end_state_wrong:Everywhere"


def test_the_rows_last_state_at_every_step_is_one_warning() -> None:
    run = verified(SPEC, (), EVERYWHERE)
    assert (run.exit_code, failed(run)) == (ExitCode.VERIFIED, {"EQ202"})
    assert result(run, "EQ202").severity is Severity.WARNING
    (finding,) = run.findings
    assert "row's last state" in finding.cause


def test_another_state_at_every_step_is_wrong() -> None:
    run = verified(SPEC, ("EQ", "BD"), EVERYWHERE, "policy.modules.0.at=0")
    assert (run.exit_code, failed(run)) == (ExitCode.FAILED, {"EQ202"})
    assert result(run, "EQ202").severity is Severity.ERROR
