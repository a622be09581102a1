"""State keys of the critic's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.spec_text import in_line
from rnncheck.patch.texts import Texts

_STOCK = {
    "LSTMModule": ("recurrent_state_h", "recurrent_state_c"),
    "GRUModule": ("recurrent_state",),
}


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    yield from case.in_spec(_renamed)


def _renamed(document: Any) -> bool:
    modules = (document.get("critic") or {}).get("modules") or []
    found = [one for one in modules if isinstance(one, dict) and one.get("use") in _STOCK]
    if len(found) != 1:
        return False
    (module,) = found
    states = _STOCK[module["use"]]
    new = {state: f"critic_{state}" for state in states}
    if "in_key" in module and "out_key" in module:
        written = [["next", name] for name in new.values()]
        module["in_keys"] = in_line([module.pop("in_key"), *new.values()])
        module["out_keys"] = in_line([module.pop("out_key"), *written])
        return True
    if not {"in_keys", "out_keys"} <= set(module):
        return False
    for keys in (module["in_keys"], module["out_keys"]):
        _rename(keys, new)
    return True


def _rename(keys: Any, new: dict[str, str]) -> None:
    for place, key in enumerate(keys):
        if isinstance(key, str):
            keys[place] = new.get(key, key)
        else:
            _rename(key, new)


FIX = Fix(("WR106",), "with state keys of the critic's own", _ways)
