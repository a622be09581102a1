"""A buffer that puts the sampler's marks into the batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit
from rnncheck.patch.texts import Texts

_PLAIN, _MARKING = "ReplayBuffer", "TensorDictReplayBuffer"


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    if case.section("replay").get("use") == _PLAIN:
        yield from case.in_spec(_marking)
    factory = case.factory("replay")
    if factory is None:
        return
    calls = [n for n in ast.walk(factory.function) if isinstance(n, ast.Call)]
    plain = [n.func for n in calls if isinstance(n.func, ast.Name) and n.func.id == _PLAIN]
    if len(plain) == 1:
        edit = Edit(factory.begin(plain[0]), factory.end(plain[0]), _MARKING)
        yield from case.in_factory(factory, edit, *factory.importing("torchrl.data", _MARKING))


def _marking(document: Any) -> bool:
    document["replay"]["use"] = _MARKING
    return True


FIX = Fix(("RP501",), "with TensorDictReplayBuffer", _ways)
