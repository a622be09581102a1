"""Two runs side by side, as the terminal shows them."""

from __future__ import annotations

from io import StringIO

import pytest

from rnncheck.report.comparison import show_comparison
from rnncheck.report.terminal import console_for
from rnncheck.results.changes import Change, RowChange
from tests.report.canned import HEALTHY


@pytest.mark.parametrize("change", Change)
def test_what_changed_and_in_which_row_are_told_apart(change: Change) -> None:
    stream = StringIO()
    console = console_for(stream)
    show_comparison(HEALTHY, HEALTHY, [RowChange("BD301", change)], console, everything=True)
    assert f"\n  {change} " in stream.getvalue()
    (row,) = [line for line in stream.getvalue().splitlines() if line.endswith("BD301")]
    assert row.split("BD301")[0].strip() == change
