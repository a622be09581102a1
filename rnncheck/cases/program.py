"""A stored case as a program of its own, on torch, tensordict and TorchRL alone: what one attaches
to a bug report.

What the spec names with ``use`` is written out; the user's factories are imported. It is run before
it is handed over: what does not show the fault is no program of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rnncheck.cases.model import CaseError, StoredCase
from rnncheck.cases.programs.choose import reason_without, shapes_of
from rnncheck.cases.programs.parts import Ingredients, ProgramParts
from rnncheck.cases.programs.shape import Shape
from rnncheck.cases.programs.trial import tried
from rnncheck.cases.store import spec_text
from rnncheck.cases.tensors import Inputs
from rnncheck.checks.engine.verification import Verification
from rnncheck.pipeline.assembly.made import noting_made
from rnncheck.spec.load import spec_from_text

_SEEDS = (0, 1, 2)  # of the weights: chosen, a leak that one choice of them hides shows in another


@dataclass(frozen=True)
class ProgramText:
    """A program that was seen to show its fault, and whether it knows a way out."""

    text: str
    mended: bool


def check_written(case: StoredCase) -> None:
    """Raise CaseError for a case of a kind that has no program."""
    if case.script is not None or case.parts is not None:
        of = "a script" if case.script is not None else "what `rnncheck.verify` was given"
        raise CaseError(f"the case of {of} has no program yet", accepted="the case of a spec")


def program_of(case: StoredCase, inputs: Inputs, file: Path, target: Path) -> ProgramText:
    """The program of ``case``, whose spec is ``file``, for ``target``. Raises CaseError where the
    case cannot be one."""
    shapes = shapes_of(case.code)
    if not shapes:
        raise CaseError(reason_without(case.code))
    spec = spec_from_text(spec_text(case), str(file))
    with noting_made() as made, Verification(spec) as verification:
        for _ in verification.build():
            pass
        if verification.pipeline is None:
            raise CaseError("its pipeline cannot be built any more")
        folder = "" if target.parent.resolve() == file.parent.resolve() else str(file.parent)
        given = Ingredients(case, spec, verification.pipeline, made, inputs, folder)
        return _shown(shapes, lambda: ProgramParts(given), file.parent)


def _shown(shapes: list[Shape], parts: Callable[[], ProgramParts], folder: Path) -> ProgramText:
    """The first that shows the fault."""
    problems, broken = list[str](), set[int]()
    for seed, (number, shape) in itertools.product(_SEEDS, enumerate(shapes)):
        if number in broken:
            continue
        try:
            text = shape.text(parts(), seed)
        except CaseError as error:
            problems.append(error.message)
            broken.add(number)
            continue
        found = tried(text, folder)
        if not found.shows:
            problems.append(found.last or f"it exits {found.code}")
            broken |= {number} if found.last else set()
        elif not shape.mended:
            return ProgramText(text, mended=False)
        elif tried(text, folder, "--mended").code == 0:
            return ProgramText(text, mended=True)
        else:
            problems.append("with --mended it still exits 1")
    raise CaseError(f"no program of this case shows the fault ({problems[-1]})")
