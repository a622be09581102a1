"""Start flags made of every end of an episode."""

from __future__ import annotations

from collections.abc import Iterator

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, strings_of
from rnncheck.patch.texts import Texts

_SOME = ("truncated", "terminated")


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    factory = case.factory("batch")
    found = [] if factory is None else strings_of(factory.function, _SOME)
    if factory is not None and len(found) == 1:
        edit = Edit(factory.begin(found[0]), factory.end(found[0]), '"done"')
        yield from case.in_factory(factory, edit)


FIX = Fix(("RP506",), 'with the ends that ("next", "done") names', _ways)
