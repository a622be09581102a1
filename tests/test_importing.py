"""Imports ahead of a pipeline: without collections, and as the process had it afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
from rnncheck.importing import import_ahead

{before}
seen = []
gc.callbacks.append(lambda phase, info: seen.append(phase))
import_ahead("xml.dom.minidom", "no_such_module", "torch")
print(gc.isenabled(), bool(seen), "torch" in sys.modules, "xml.dom.minidom" in sys.modules)
print(gc.get_freeze_count() > 10_000)
"""


@pytest.mark.parametrize(("before", "enabled"), [("", "True"), ("gc.disable()", "False")])
def test_imports_ahead_collect_nothing_and_leave_the_collector_as_it_was(
    before: str, enabled: str
) -> None:
    program = PROGRAM.format(before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == [enabled, "False", "True", "True", "True"], done.stderr
