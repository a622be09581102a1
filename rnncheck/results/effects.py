"""What follows from what: the one table of which checks a fault makes fail besides its own.

It was read off the faults of ``rnncheck selftest --all-checks`` and the broken fixtures, and holds
the direct effects; ``effects_of`` follows them on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Effect:
    """Where the check ``code`` fails, so may ``then``; ``because`` says how the fault gets
    there."""

    code: str
    then: tuple[str, ...]
    because: str


_LATER_PASSES = ("CL406", "RP507", "LS702", "VL604")  # a pass over time beside what was acted
_CUTS = ("CL403", "CL405", "RP501", "RP506", "VL601", "VL603", "LS701", "LS704")

EFFECTS = (
    Effect(
        "WR101",
        ("BD306", "LS703", "GR801", "GR803", "GR805"),
        "nothing carries state, so nothing remembers",
    ),
    Effect(
        "WR102",
        ("WR109", "WR110", "CL407", "RP503", "EQ201", *_CUTS, *_LATER_PASSES),
        "without the flag nothing tells where a trajectory begins",
    ),
    Effect(
        "WR103",
        ("WR110", "CL401", "CL402", "CL404", "CL407", "RP503", "RP504", *_LATER_PASSES),
        "the state is dropped after every step, so what was acted had no memory",
    ),
    Effect(
        "WR104",
        ("WR103", "WR110", "CL401", "CL402", "CL403", "RP503", "RP504", "PR903", *_LATER_PASSES),
        "what the module is given is not the state that it reads",
    ),
    Effect(
        "WR105",
        ("EQ206", "BD302", "CL403", "CL404", "RP504", *_LATER_PASSES),
        "trajectories open with other states than a pass over time does",
    ),
    Effect(
        "WR106",
        (
            *("CL402", "CL403", "CL404", "EQ201", "EQ202", "EQ205", "BD301", "BD302", "BD303"),
            *("RP504", *_LATER_PASSES),
        ),
        "each of the two modules reads the state that the other one wrote",
    ),
    Effect(
        "WR107",
        (
            *("WR103", "CL401", "CL402", "CL403", "CL404", "BD302", "BD306", "EQ201", "EQ202"),
            *("CL405", "RP503", "RP504", *_LATER_PASSES),
        ),
        "the env hands on what is under `next`, and a step holds the state behind it",
    ),
    Effect(
        "WR108",
        ("WR109", "WR110", "CL405", "CL409"),
        "what the env gives is not what its specs say",
    ),
    Effect(
        "WR109",
        ("BD302", "BD307", "CL401", "CL402", "RP503", *_CUTS, *_LATER_PASSES),
        "what reads the start flag begins its trajectories at other steps",
    ),
    Effect(
        "WR111",
        ("WR108", "WR110"),
        "the env cannot step with the action that it is given",
    ),
    Effect(
        "WR112",
        ("BD302",),
        "the policy sees the episode before through its first observation",
    ),
    Effect(
        "EQ206",
        (
            *("EQ201", "EQ202", "EQ203", "EQ204", "EQ205", "EQ207", "BD301", "BD302", "BD304"),
            *("BD305", "CL401", "CL402", "CL407", "LS704", "LS705", *_LATER_PASSES),
        ),
        "two passes over the same steps differ, whatever they are compared for",
    ),
    Effect(
        "BD307",
        ("BD301", "BD302", "BD303", "EQ201", "CL403", "CL406"),
        "the part of the state that is kept crosses the reset",
    ),
    Effect(
        "BD302",
        ("WR103", "BD301", "CL403", "CL406"),
        "what acts keeps the state itself, past the reset",
    ),
    Effect(
        "BD301",
        (
            *("BD303", "EQ201", "EQ202", "EQ204", "EQ205", "EQ207", "RP506", "VL601"),
            *("VL602", "LS701", "LS704", *_LATER_PASSES),
        ),
        "over time a trajectory goes on with the state of the one before",
    ),
    Effect(
        "BD303",
        ("EQ205", "EQ208"),
        "the gradient crosses where the unroll's does not",
    ),
    Effect(
        "EQ204",
        ("BD305", "EQ201", "LS704", *_LATER_PASSES),
        "the rows are taken apart otherwise than they were put together",
    ),
    Effect(
        "BD305",
        ("EQ201", "EQ202", "EQ205", "VL601", "LS701", "LS704", *_LATER_PASSES),
        "each row's outputs have something of the other rows",
    ),
    Effect(
        "BD304",
        ("EQ201", "EQ202", "EQ205", "VL602", "VL604", *_LATER_PASSES),
        "acting cannot see the later steps that a pass over time sees",
    ),
    Effect(
        "EQ201",
        ("EQ202", "EQ203", "EQ205", "EQ207", "EQ208", "PR901", *_LATER_PASSES),
        "a pass over time computes other outputs than acting does",
    ),
    Effect("EQ202", ("EQ205", "CL402", "RP504"), "the state that is handed on is another"),
    Effect("EQ203", ("EQ207", "EQ208", "PR902"), "the cell computes other equations"),
    Effect("EQ207", ("EQ208",), "gradients of other outputs are other gradients"),
    Effect("EQ205", ("GR801", "EQ208"), "the graph of a pass over time is another"),
    Effect(
        "BD306",
        ("LS703", "GR801", "GR803", "GR805"),
        "what does not change later steps gets no gradient from them",
    ),
    Effect("PR901", ("PR902", "PR903"), "fewer bits are kept than asked for"),
    Effect("PR903", ("PR902", "CL402", "CL406", "RP504"), "every step rounds the state"),
    Effect(
        "CL410",
        ("WR110", "CL401", "CL402", "CL406", "CL407"),
        "a pass over time takes one step for a whole trajectory",
    ),
    Effect(
        "CL409",
        ("EQ201", "CL406", "RP507", "LS702", "GR802", "GR804"),
        "NaN spreads to all that is computed from it",
    ),
    Effect(
        "CL407",
        ("CL401", "CL402", "CL403", "CL406"),
        "what the workers recorded is what is replayed",
    ),
    Effect(
        "CL408",
        ("CL402", "CL404", "CL406", "RP504"),
        "the policy goes on from states that it never wrote",
    ),
    Effect(
        "CL401",
        ("CL402", "CL404", "RP504", *_LATER_PASSES),
        "what was acted without memory is not what a pass with memory gives",
    ),
    Effect("CL402", ("CL403", "CL404", "RP504", *_LATER_PASSES), "a recorded state is a wrong one"),
    Effect("CL404", ("RP504", *_LATER_PASSES), "a batch opens with a wrong state"),
    Effect(
        "CL405",
        ("CL403", "RP501", "RP506", "VL601", "VL603", "LS701", "LS704", *_LATER_PASSES),
        "a boundary that is not marked is gone over",
    ),
    Effect("CL403", ("RP504", *_LATER_PASSES), "a trajectory opens with a state of another one"),
    Effect("CL406", ("RP507", "LS702"), "training runs the pass that differs"),
    Effect(
        "RP502",
        (
            *("RP501", "RP503", "RP504", "RP506", "VL601", "VL602", "LS701", "LS704"),
            *("BD301", "BD303", "BD304", "BD305", "EQ201", "EQ202", "EQ205", *_LATER_PASSES),
        ),
        "the recurrence runs over steps that never followed each other",
    ),
    Effect(
        "RP506",
        ("RP503", "RP501", "VL601", "VL603", "LS701", "LS704", *_LATER_PASSES),
        "a slice goes on past the end of an episode",
    ),
    Effect(
        "RP503",
        ("RP504", "RP505", "VL602", "LS701", *_LATER_PASSES),
        "what is lost on the way is taken for zero, or for true nowhere",
    ),
    Effect(
        "RP501",
        ("RP503", "RP504", "VL601", "LS701", "LS704", *_LATER_PASSES),
        "a slice goes on with the state of the slice before it",
    ),
    Effect(
        "RP508",
        ("RP504", "RP507", "LS702", "VL604"),
        "the steps that count open with a state that was not burned in",
    ),
    Effect("RP504", _LATER_PASSES[1:], "a slice opens with a wrong state"),
    Effect("RP509", ("LS702",), "the ratio of an action that was not taken is not 1"),
    Effect("RP505", ("VL601", "VL604", "LS701", "LS704"), "padded steps are counted as data"),
    Effect("RP507", ("LS702", "VL604"), "the loss runs the pass that differs"),
    Effect("VL605", ("LS706",), "the loss has no advantage to read"),
    Effect(
        "VL601",
        ("VL602", "VL604", "LS701", "LS704"),
        "a target has something of the next trajectory",
    ),
    Effect(
        "VL603",
        ("VL601", "VL602", "VL604", "LS704"),
        "a target counts what comes after the end of its episode",
    ),
    Effect("VL602", ("VL604",), "a target is made of another value of the next step"),
    Effect(
        "LS703",
        ("LS702", "VL604", "GR801", "GR803", "GR805", "GR804"),
        "a loss that ignores memory sends it no gradient",
    ),
    Effect(
        "LS708",
        ("LS701", "LS702", "LS704", "LS707", "VL601", "VL603", "VL604", "GR804"),
        "every step has something of all the others, over ends as well",
    ),
    Effect(
        "LS707",
        ("LS701", "LS704", "VL603", "VL604"),
        "what belongs to a neighbour is taken over ends as well",
    ),
    Effect("LS701", ("LS704",), "the loss of a slice has something of another"),
    Effect("LS705", ("LS704", "GR804"), "the loss is another each time"),
    Effect("GR802", ("GR803", "GR804", "GR805"), "nothing is learned from NaN"),
    Effect("GR801", ("GR803", "GR805"), "no gradient reaches earlier steps"),
    Effect("GR803", ("GR804",), "a parameter without a gradient stays as it is"),
)
BY_CODE: Mapping[str, Effect] = {effect.code: effect for effect in EFFECTS}


@cache
def effects_of(code: str, among: frozenset[str] | None = None) -> frozenset[str]:
    """Every check that may fail because this one does, over any number of steps; with ``among``
    each step of them is one of these."""
    found, queue = set[str](), [code]
    while queue:
        effect = BY_CODE.get(queue.pop())
        new = set(effect.then) - found if effect else set[str]()
        new = new if among is None else new & among
        found |= new
        queue += new
    return frozenset(found)
