"""``rnncheck run``: networks that keep their state themselves, which nothing hands on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.kept_state_script import (
    DETACHED_ALONE,
    DRQN,
    FUNCTION,
    GIVEN,
    IN_FRONT,
    LINES,
    METHOD,
    NEVER_RESET,
    OVER_ENDS,
    TRAINER,
)
from tests.watching.scripts import judged

Changes = tuple[tuple[str, str], ...]
_ASKED = "BD301,BD304,CL403,EQ201,EQ205,GR801,LS707"


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("text", "changes", "codes", "expected"),
    [
        pytest.param(LINES, (), _ASKED, [], id="lines", marks=pytest.mark.slow),
        pytest.param(LINES, (NEVER_RESET,), "CL403", ["CL403"], id="lines, never reset"),
        pytest.param(TRAINER, (), _ASKED, [], id="lines of a trainer", marks=pytest.mark.slow),
        pytest.param(TRAINER, (NEVER_RESET,), "CL403", ["CL403"], id="trainer, never reset"),
        pytest.param(METHOD, (), _ASKED, [], id="method", marks=pytest.mark.slow),
        pytest.param(METHOD, (NEVER_RESET,), "CL403", ["CL403"], id="method, never reset"),
        pytest.param(FUNCTION, (), _ASKED, [], id="function", marks=pytest.mark.slow),
        pytest.param(FUNCTION, (DETACHED_ALONE,), "CL403", ["CL403"], id="function, never reset"),
        pytest.param(FUNCTION, (IN_FRONT,), "LS707", ["LS707"], id="function, turned returns"),
        pytest.param(DRQN, (), "BD301,BD304,EQ201,GR801,RP,VL603", [], id="out of a memory"),
        pytest.param(DRQN, GIVEN, "BD301,BD304,EQ201,GR801,VL603", [], id="zeros made behind it"),
        pytest.param(DRQN, (OVER_ENDS,), "VL603", ["VL603"], id="memory, over ends"),
    ],
)
def test_what_is_named(
    rnncheck: Any,
    tmp_path: Path,
    text: str,
    changes: Changes,
    codes: str,
    expected: list[str],
) -> None:
    code = ExitCode.FAILED if expected else ExitCode.VERIFIED
    assert judged(rnncheck, tmp_path, codes, text, *changes) == (code, expected)
