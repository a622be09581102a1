"""From the ends of checks and stages to a verdict."""

from __future__ import annotations

import pytest

from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import CheckResult, Outcome, Severity, Stage, StageResult
from rnncheck.results.verdict import judge


def check(outcome: Outcome) -> CheckResult:
    return CheckResult("XX001", "made-up", Severity.ERROR, Stage.POLICY, outcome)


@pytest.mark.parametrize(
    ("checked", "stage", "code"),
    [
        (Outcome.PASSED, Outcome.PASSED, ExitCode.VERIFIED),
        (Outcome.PASSED, Outcome.NOT_APPLICABLE, ExitCode.VERIFIED),  # it is not in the spec
        (Outcome.PASSED, Outcome.NOT_LOOKED, ExitCode.NOT_SHOWN),  # nobody could look into it
        (Outcome.PASSED, Outcome.ERROR, ExitCode.INTERNAL),
        (Outcome.NOT_APPLICABLE, Outcome.PASSED, ExitCode.NOT_SHOWN),
        (Outcome.FAILED, Outcome.NOT_LOOKED, ExitCode.FAILED),
        (Outcome.ERROR, Outcome.NOT_LOOKED, ExitCode.INTERNAL),
    ],
)
def test_what_checks_and_stages_make_of_a_run(
    checked: Outcome, stage: Outcome, code: ExitCode
) -> None:
    stages = [StageResult(Stage.COLLECT, stage)]
    assert judge([check(checked)], strict=False, stages=stages)[1] is code
