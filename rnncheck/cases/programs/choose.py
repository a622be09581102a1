"""Which checks have programs, and why the others have none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rnncheck.cases.programs import acting, modules, sampling, training, wiring
from rnncheck.cases.programs.shape import Shape

_FAMILIES = (modules, acting, sampling, training, wiring)
_WITHOUT = {
    "EQ203": "is judged against the cell's equations in float64, which rnncheck brings",
    "EQ207": "is judged against the cell's equations in float64, on many shapes",
    "EQ208": "is judged against the gradients of the cell's equations in float64",
    "PR901": "is judged by the roundings of every operation, which nothing prints",
    "PR902": "is judged by how roundings grow over thousands of steps",
    "PR903": "is judged by the roundings of every operation, which nothing prints",
    "CL407": "is about processes of their own, each of which would run the program anew",
    "RP505": "is about padding, which your own batch and mask say",
    "RP508": "is about a burn-in, which is a part of your buffer or your loss",
    "RP509": "is about what your loop or your batch does with actions that were taken",
    "LS707": "is about the arrays inside a loss of your own",
    "LS708": "is about the shapes inside a loss of your own",
    "GR805": "is a curve over many steps: the report draws it",
    "GR806": "is about the optimisers of your own loop",
    "GR807": "is about the updates of targets in your own loop",
}


def shapes_of(code: str) -> list[Shape]:
    """The programs that may show a fault, the plainest first."""
    found = (family.SHAPES[code]() for family in _FAMILIES if code in family.SHAPES)
    return [shape for shapes in found for shape in shapes]


def reason_without(code: str) -> str:
    """Why a check has no program, and which have one."""
    why = _WITHOUT.get(code, "is a check of your own")
    known = sorted({one for family in _FAMILIES for one in family.SHAPES})
    return f"{code} has no program: it {why}. These have one: {', '.join(_runs(known))}"


def _runs(codes: list[str]) -> Iterator[str]:
    """The codes, those that follow each other as one."""
    for _, group in groupby(
        enumerate(codes), lambda pair: (pair[1][:2], int(pair[1][2:]) - pair[0])
    ):
        run = [code for _, code in group]
        yield run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}"
