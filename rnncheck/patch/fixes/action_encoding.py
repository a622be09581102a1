"""An env that reads the index that the policy gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.spec_text import add_key
from rnncheck.patch.texts import Texts

_OPTION = "categorical_action_encoding"


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    named = any(_OPTION in finding.fix for finding in case.cause.findings)
    if named and "use" in case.section("env") and _OPTION not in case.section("env"):
        yield from case.in_spec(_categorical)


def _categorical(document: Any) -> bool:
    add_key(document["env"], _OPTION, True)
    return True


FIX = Fix(("WR111",), "with actions that the env reads as an index", _ways)
