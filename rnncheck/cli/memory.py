"""``rnncheck memory``: what a trained policy remembers, and what replay must give it back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rnncheck.cli.options import (
    QuietOption,
    ReportOption,
    SeedOption,
    SetOption,
    SpecPath,
    StrictOption,
    VerboseOption,
)
from rnncheck.errors import Place, UserError, did_you_mean
from rnncheck.printable import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rnncheck.recall.journal import Answers
    from rnncheck.results.events import Event
    from rnncheck.results.memory import MemoryResult
    from rnncheck.results.model import Run
    from rnncheck.spec.model import Spec

ANSWERS_FILE = "memory.json"

WeightsOption = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        help="The trained policy's state_dict, instead of the spec's policy.weights.",
        show_default=False,
    ),
]
OlderOption = Annotated[
    Path | None,
    typer.Option(
        "--older",
        metavar="FILE",
        help="Weights of some updates before: what replay loses with the states that they stored.",
        show_default=False,
    ),
]
PlanOption = Annotated[
    bool, typer.Option("--plan", help="Print what will be asked and its cost; run nothing.")
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on with the last study of this spec.")
]
WriteOption = Annotated[
    bool, typer.Option("--write", help="Write the advised slice_len and burn_in into the spec.")
]


def memory(
    spec: SpecPath = None,
    weights: WeightsOption = None,
    older: OlderOption = None,
    plan: PlanOption = False,
    resume: ResumeOption = False,
    write: WriteOption = False,
    set_: SetOption = None,
    report: ReportOption = None,
    seed: SeedOption = None,
    strict: StrictOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Measure what a trained policy remembers: whether it matters, how far back, what the state is,
    and what slices and burn-in must give it.

    It plays episodes with the policy, so it runs your Python.
    """
    from rnncheck.cli.outputs import Outputs
    from rnncheck.cli.verify import blank_run, follow
    from rnncheck.spec.load import open_spec

    overrides = [*(set_ or []), *([] if seed is None else [f"seed={seed}"])]
    loaded = open_spec(spec, [*overrides, *_with("--weights", weights)])
    stale = _with("--older", older)
    before = open_spec(spec, [*overrides, *stale]) if stale else None
    if plan:
        _print_plan(loaded, _answers(loaded, before, resume=resume))
        return
    outputs = Outputs.prepared(loaded, report, quiet=quiet, verbose=verbose)
    answers = _answers(loaded, before, resume=resume)

    def events() -> Iterator[Event]:
        from rnncheck.recall.run import MemoryStudy

        return MemoryStudy(loaded, before, answers, strict).events()

    run = follow(events, outputs.targets, blank_run("memory", loaded), quiet=quiet, verbose=verbose)
    outputs.conclude(run)
    if write:
        _write(loaded, run)
    raise typer.Exit(run.exit_code)


def _with(option: str, weights: Path | None) -> list[str]:
    """The override that names these weights, from wherever the command runs. Raises UserError where
    there is no such file."""
    import json

    if weights is None:
        return []
    if not weights.is_file():
        folder = weights.parent
        near = did_you_mean(weights.name, [one.name for one in folder.glob("*") if one.is_file()])
        raise UserError(
            f"there is no weights file '{weights}'",
            place=Place(option),
            hint=near or "the path is relative to the folder that the command runs in",
        )
    return [f"policy.weights={json.dumps(str(weights.absolute()))}"]


def _print_plan(spec: Spec, answers: Answers) -> None:
    """What is left to ask, and what that costs."""
    from rnncheck.recall.run import plan_of
    from rnncheck.results.memory import Question

    found = plan_of(spec, [one for one in Question if one not in answers.found.answered])
    for line in found.lines:
        print(clean(line))
    print(f"at most about {found.seconds:.0f} s; nothing was run")


def _answers(spec: Spec, older: Spec | None, *, resume: bool) -> Answers:
    from rnncheck.recall.journal import Answers, head_of_study
    from rnncheck.results.store import default_store

    path = default_store(Path(spec.path)).parent / ANSWERS_FILE
    found = Answers(path, head_of_study(spec, older))
    if resume:
        found.resume()
    return found


def _write(spec: Spec, run: Run) -> None:
    from rnncheck.recall.write import write_advice

    found: MemoryResult | None = run.memory
    if found is None or not found.advice:
        print("nothing is advised: the spec stays as it is", file=sys.stderr)
        return
    for line in write_advice(spec, found.advice):
        print(clean(line), file=sys.stderr)
