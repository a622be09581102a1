"""Recurrent mode around the burn-in of a batch factory."""

from __future__ import annotations

from collections.abc import Iterator

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, Factory
from rnncheck.patch.texts import Texts

_MODE = "set_recurrent_mode"


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    if (factory := case.factory("batch")) is not None and (edit := _inside(factory)) is not None:
        yield from case.in_factory(factory, edit, *factory.importing("torchrl.modules", _MODE))


def _inside(factory: Factory) -> Edit | None:
    """The returned call inside the context."""
    returned = factory.only_return
    indent = "" if returned is None else factory.indent(returned)
    if returned is None or not indent:
        return None
    begin, end = factory.begin(returned), factory.end(returned)
    body = factory.text[begin:end].replace("\n", "\n    ")
    return Edit(begin, end, f"with {_MODE}(True):\n{indent}    {body}")


FIX = Fix(("RP508",), "with the burn-in in recurrent mode", _ways)
