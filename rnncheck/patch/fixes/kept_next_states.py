"""A network that keeps the collected next states through its pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, Factory
from rnncheck.patch.texts import Texts

_SEQUENCE = "TensorDictSequential"
_CLASS = '''class KeepsNext(TensorDictSequential):
    """Puts what was collected under `next` back after its pass."""

    def forward(self, tensordict, *args, **kwargs):
        collected = tensordict["next"].copy() if "next" in tensordict.keys() else None
        out = super().forward(tensordict, *args, **kwargs)
        return out if collected is None else out.set("next", collected)


'''


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    if "factory" in case.section("loss"):
        return
    factory = case.factory("policy")
    if factory is not None and (call := _sequence(factory)) is not None:
        begin = factory.begin(factory.function)
        yield from case.in_factory(
            factory,
            Edit(begin, begin, _CLASS),
            Edit(factory.begin(call.func), factory.end(call.func), "KeepsNext"),
        )


def _sequence(factory: Factory) -> ast.Call | None:
    """The call of TensorDictSequential that the function returns."""
    returned = factory.only_return
    value = None if returned is None else returned.value
    named = {n.name for n in factory.tree.body if isinstance(n, ast.ClassDef)}
    plain = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
    if not plain or "KeepsNext" in named or factory.function.decorator_list:
        return None
    assert isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
    return value if value.func.id == _SEQUENCE else None


FIX = Fix(("VL604",), "with a network that keeps the collected next states", _ways)
