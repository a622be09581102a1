"""The value behind a row's last step, of what another step of the row observed next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import OTHERS, run, written

LAST = 'last = data[:, -1]["next"]'


@pytest.mark.parametrize(
    ("step", "code", "said"),
    [
        pytest.param("-1", ExitCode.VERIFIED, "", id="of the last step"),
        pytest.param("0", ExitCode.FAILED, "is made of what step 0 observed", id="of the first"),
    ],
)
def test_the_step_that_a_last_value_is_of(
    rnncheck: Any, tmp_path: Path, step: str, code: ExitCode, said: str
) -> None:
    text = (OTHERS / "get_dist.py").read_text()
    path = written(tmp_path, text, (LAST, f'last = data[:, {step}]["next"]'))
    ended, told, _ = run(rnncheck, "--select", "VL604", path)
    assert ended == code
    assert said in str(told["checks"][0]["findings"])
