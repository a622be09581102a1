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
        wrong = {finding.key for finding in case.cause.findings}
        yield from case.in_spec(lambda document: _automatic(document, wrong))
    if case.section("collect").get("use") and "factory" in case.section("env"):
        yield from case.in_spec(_by_collector)


def _automatic(document: Any, wrong: set[str]) -> bool:
    env = document["env"]
    del env["primers"]
    for one in [one for one in env.get("transforms") or [] if _primes(one, wrong)]:
        env["transforms"].remove(one)
    return True


def _primes(entry: Any, states: set[str]) -> bool:
    """It is a primer of one of these states."""
    if not isinstance(entry, dict) or entry.get("use") != "TensorDictPrimer":
        return False
    return bool(states & {*entry, *(entry.get("primers") or ())})


def _by_collector(document: Any) -> bool:
    add_key(document["collect"], "auto_register_policy_transforms", True)
    return True


FIX = Fix(("WR103", "WR104"), "with the primers of the policy's own modules", _ways)
