"""What holds of every run, whatever the pipeline."""

from __future__ import annotations

from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import CheckResult, Outcome, Run, Standing


def assert_invariants(run: Run) -> Run:
    """``run``, of which nothing is said that its checks do not carry."""
    ended = {check.code: check for check in run.checks}
    for check in run.checks:
        _assert_answered(check, ended)
    if run.exit_code is ExitCode.VERIFIED:
        shown = [one for one in run.guarantees if one.standing is Standing.SHOWN]
        asked = [one for one in run.guarantees if one.standing is not Standing.NOT_ASKED]
        assert shown or not asked  # a selection of training checks that needs no training path
        assert all(one.rests_on and one.compared for one in shown)
        left = [one for one in run.guarantees if one.standing is not Standing.SHOWN]
        assert all(one.standing is Standing.NOT_ASKED or one.accepted for one in left)
    if any(one.lacking for one in run.guarantees):
        assert run.exit_code is not ExitCode.VERIFIED
    return run


def _assert_answered(check: CheckResult, ended: dict[str, CheckResult]) -> None:
    assert check.outcome not in (Outcome.SKIPPED, Outcome.VACUOUS)  # of old results alone
    if check.outcome is Outcome.PASSED:
        assert check.compared
    elif check.outcome is not Outcome.FAILED:
        assert check.reason
    if check.outcome is Outcome.DEFERRED:
        assert check.deferred_to
    assert all(ended[code].outcome is Outcome.FAILED for code in check.deferred_to)
