"""``--write``: put what is recommended into the spec file, comments and order kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rnncheck.errors import UserError
from rnncheck.results.files import write_atomic
from rnncheck.results.recommendation import Recommendation
from rnncheck.spec.edit import edited
from rnncheck.spec.model import Spec

_STOCK_MODULES = ("LSTMModule", "GRUModule")
_RECOMMENDABLE = (
    "recurrent_backend",
    "recurrent_recompute",
    "recurrent_compute_dtype",
    "recurrent_matmul_precision",
    "python_based",
)


def write_recommendation(spec: Spec, found: Recommendation) -> list[str]:
    """Set the arguments of every recurrent module that the spec names; what was done, in words.

    Raises UserError where the spec names none: then the change belongs into the user's factory.
    """
    path = Path(spec.path)
    named = list[Any]()

    def change(document: Any) -> list[str]:
        named.extend(_modules(document))
        return [line for module in named for line in _set(module, found.arguments)]

    text, changed = edited(path.read_text(encoding="utf-8"), change)
    if not named:
        raise UserError(
            "the spec names no LSTMModule or GRUModule by `use`: nothing can be written into it",
            hint=f"pass {found.arguments} where your factory builds them",
        )
    if changed:
        write_atomic(path, text)
    told = changed or ["the spec says so already"]
    more = (
        []
        if found.compile == "eager"
        else [f"`{found.compiling}` belongs into your training script"]
    )
    return [f"{path}: {line}" for line in (*told, *more)]


def _modules(document: Any) -> Iterator[Any]:
    for name in ("policy", "critic"):
        network = document.get(name)
        listed = network.get("modules", []) if isinstance(network, dict) else network
        for module in listed if isinstance(listed, list) else []:
            if isinstance(module, dict) and module.get("use") in _STOCK_MODULES:
                yield module


def _set(module: Any, arguments: dict[str, str]) -> Iterator[str]:
    """Write ``arguments``; those of an earlier recommendation that no longer hold are removed."""
    for name in _RECOMMENDABLE:
        wanted: Any = {"True": True}.get(arguments.get(name, ""), arguments.get(name))
        if wanted is None and name in module:
            del module[name]
            yield f"{module['use']}: {name} removed"
        elif wanted is not None and module.get(name) != wanted:
            module[name] = wanted
            yield f"{module['use']}: {name} = {wanted}"
