"""``rnncheck run``: lines that carry a state from one segment of a rollout to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged
from tests.watching.segments_script import SEGMENTS

FROM_ZERO = ('memory = data["memory"][:, 0]', "memory = torch.zeros(N, H)")
EACH_FROM_ZERO = ("memory = memory.detach()", "memory = torch.zeros(N, H)")
ASKED = "CL406,EQ205,RP504,RP507"


def test_each_segment_goes_on_from_the_one_before(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, ASKED, SEGMENTS) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(FROM_ZERO, "RP504", id="later rollouts begin with zeros"),
        pytest.param(EACH_FROM_ZERO, "CL406", id="every segment begins with zeros"),
    ],
)
def test_what_is_lost_between_them_is_told(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], code: str
) -> None:
    assert judged(rnncheck, tmp_path, code, SEGMENTS, change) == (ExitCode.FAILED, [code])
