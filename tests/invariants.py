"""What holds of every run, whatever the pipeline."""

from __future__ import annotations

from rnncheck.report.console import render
from rnncheck.report.ending import LAST
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


def assert_ends_with_its_cause(run: Run) -> None:
    """The last lines of a failed run's report name the cause, its line and its fix."""
    last = render(run, 80).rstrip("\n").rpartition("\n\n")[2].splitlines()
    labels = [line.split()[0] for line in last if line and not line.startswith(" ")]
    assert len(last) <= LAST, "\n".join(last)
    assert {"cause", "at", "fix"} <= set(labels)
    assert f"exit {int(run.exit_code)} (" in " ".join(last)


def _assert_answered(check: CheckResult, ended: dict[str, CheckResult]) -> None:
    assert check.outcome not in (Outcome.SKIPPED, Outcome.VACUOUS)  # of old results alone
    if check.outcome is Outcome.PASSED:
        assert check.compared
    elif check.outcome is not Outcome.FAILED:
        assert check.reason
    if check.outcome is Outcome.DEFERRED:
        assert check.deferred_to
    assert all(ended[code].outcome is Outcome.FAILED for code in check.deferred_to)
