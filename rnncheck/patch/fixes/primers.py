"""The primers that the policy's own modules make, in the place of none or of some that do not
fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.spec_text import add_key
from rnncheck.patch.texts import Texts


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    if case.section("env").get("primers") == "manual":
        yield from case.in_spec(_automatic)
    if case.section("collect").get("use") and "factory" in case.section("env"):
        yield from case.in_spec(_by_collector)


def _automatic(document: Any) -> bool:
    env = document["env"]
    del env["primers"]
    primers = [one for one in env.get("transforms") or [] if _is_primer(one)]
    for one in primers:
        env["transforms"].remove(one)
    return True


def _is_primer(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("use") == "TensorDictPrimer"


def _by_collector(document: Any) -> bool:
    add_key(document["collect"], "auto_register_policy_transforms", True)
    return True


FIX = Fix(("WR103", "WR104"), "with the primers of the policy's own modules", _ways)
