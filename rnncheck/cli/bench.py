"""``rnncheck bench``: which backend, precision and shape to run, measured on the user's own
policy."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rnncheck.cli.options import (
    QuietOption,
    ReportOption,
    SeedOption,
    SetOption,
    SpecPath,
    VerboseOption,
)
from rnncheck.printable import clean

if TYPE_CHECKING:
    from rnncheck.bench.journal import Journal
    from rnncheck.bench.process import WorkerProcess
    from rnncheck.bench.worker_slot import Engine
    from rnncheck.results.cells import Cell, CellResult
    from rnncheck.results.events import Event
    from rnncheck.results.model import Run
    from rnncheck.spec.model import Spec

JOURNAL = "sweep.jsonl"
QUICK = 20  # seconds of a quick sweep
FIRST = "this is a first answer: `rnncheck bench` without --quick measures all"


class EngineName(StrEnum):
    """Where cells are measured."""

    LOCAL = "local"
    RAY = "ray"


PlanOption = Annotated[
    bool,
    typer.Option(
        "--plan",
        help="Print the cells and a time estimate, by a probe of seconds; measure nothing.",
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on with the last sweep of this spec.")
]
QuickOption = Annotated[
    bool,
    typer.Option(
        "--quick",
        help=f"A first answer within {QUICK} s: training and acting, at the first shape only.",
    ),
]
ScaleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scale",
        metavar="AXIS=FROM..TO",
        help="Sweep steps, batch, hidden or resets, and fit how cost grows. Repeatable.",
        show_default=False,
    ),
]
ClaimsOption = Annotated[
    bool,
    typer.Option("--claims", help="Test what the documentation says of backends, here."),
]
WriteOption = Annotated[
    bool, typer.Option("--write", help="Write what is recommended for training into the spec.")
]
EngineOption = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        help=(
            "ray: on an existing Ray cluster, one device for each group of cells. It needs"
            " rnncheck[ray], and the spec and its code at the same path on every node."
        ),
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="HOST:PORT",
        help="The cluster, instead of RAY_ADDRESS or the one that runs here.",
        show_default=False,
    ),
]


def bench(
    spec: SpecPath = None,
    plan: PlanOption = False,
    resume: ResumeOption = False,
    quick: QuickOption = False,
    scale: ScaleOption = None,
    claims: ClaimsOption = False,
    write: WriteOption = False,
    engine: EngineOption = EngineName.LOCAL,
    ray_address: AddressOption = None,
    set_: SetOption = None,
    report: ReportOption = None,
    seed: SeedOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Sweep backends, precisions and shapes: speed, memory and accuracy, and what to run.

    Cells run in processes of their own. They import your factories, so they run your Python.
    """
    from rnncheck.bench.load import process_began
    from rnncheck.cli.outputs import Outputs
    from rnncheck.cli.verify import blank_run, follow
    from rnncheck.spec.load import open_spec
    from rnncheck.supervisor.signals import armed

    began = process_began() if armed() else time.monotonic()
    overrides = [*(set_ or []), *([] if seed is None else [f"seed={seed}"])]
    overrides += ["bench.interval=0.05"] if quick else []
    loaded = open_spec(spec, overrides)
    if quick and loaded.bench.budget > QUICK:
        overrides.append(f"bench.budget={QUICK}")
        loaded = open_spec(spec, overrides)
    cells, axes = _cells(loaded, scale or [], quick=quick)
    claimed = _claimed(cells) if claims else []
    cells = claimed or cells
    if plan:
        _print_plan(loaded, cells, overrides, choosing=not (axes or claimed))
        return
    outputs = Outputs.prepared(loaded, report, quiet=quiet, verbose=verbose)
    place = _ray(engine, ray_address, loaded)
    journal, done = _journal(loaded, outputs.store.parent / JOURNAL, engine.value, resume=resume)

    def events() -> Iterator[Event]:
        begun = None if place else _begun(loaded, [cell for cell in cells if cell.key not in done])
        from rnncheck.bench.run import Sweep
        from rnncheck.bench.worker_slot import LocalEngine

        at = place or LocalEngine(begun)
        said = FIRST if quick else ""
        sweep = Sweep(
            loaded, cells, journal, overrides, done, axes, claimed, at, first=said, began=began
        )
        yield from sweep.events()

    blank = blank_run("bench", loaded)
    run = follow(events, outputs.targets, blank, quiet=quiet, verbose=verbose, pipelines=False)
    outputs.conclude(run)
    if write:
        _write(loaded, run)
    raise typer.Exit(run.exit_code)


def _print_plan(
    spec: Spec, cells: Sequence[Cell], overrides: Sequence[str], *, choosing: bool
) -> None:
    from rnncheck.bench.plan import groups, with_references
    from rnncheck.bench.probe import probed
    from rnncheck.bench.worker_slot import PipelineOpening

    everything = groups(with_references(cells, spec))
    for group in everything:
        print(clean(group[0].group))
        for cell in group:
            print(f"  {cell.key}  {cell.variant.label}")
    opening = PipelineOpening(spec, overrides)
    found = probed(everything, opening.started, spec.bench.timeout)
    choosing = choosing and spec.bench.goal == "choice"
    bench = spec.bench
    seconds = found.estimate(everything, bench.budget, bench.interval, choosing=choosing)
    count, said = sum(map(len, everything)), "at least" if found.late else "about"
    print(
        f"{count} cells, {said} {seconds:.0f} s of at most {bench.budget:g}, by a probe on this"
        " machine; nothing was measured"
    )
    for (label, phase), waited in found.late.items():
        print(f"{clean(label)} | {phase} was not ready after {waited:.0f} s")


def _ray(name: EngineName, address: str | None, spec: Spec) -> Engine | None:
    """Connected, where it is wanted. Raises UserError."""
    from rnncheck.errors import UserError

    if name is EngineName.RAY:
        from rnncheck.bench.cluster import RayEngine

        return RayEngine(address, spec.device, spec.bench.threads)
    if address is not None:
        raise UserError("--ray-address is for --engine ray alone", hint="add `--engine ray`")
    return None


def _begun(spec: Spec, cells: Sequence[Cell]) -> WorkerProcess | None:
    """A worker that imports torch while this process imports what it needs; None where there is no
    work for it."""
    from rnncheck.bench.early import early_process
    from rnncheck.bench.process import WorkerProcess
    from rnncheck.bench.schedule import PREPARE, START

    enough = spec.bench.budget > START + PREPARE
    return WorkerProcess(ahead=True, begun=early_process()) if cells and enough else None


def _claimed(cells: Sequence[Cell]) -> list[Cell]:
    from rnncheck.bench.claims import claim_cells

    return claim_cells(cells)


def _journal(
    spec: Spec, path: Path, engine: str, *, resume: bool
) -> tuple[Journal, dict[str, CellResult]]:
    """The sweep's journal, and the cells that an earlier run of the same sweep finished."""
    from rnncheck.bench.journal import Journal, head_of
    from rnncheck.results.environment import current_environment
    from rnncheck.results.files import code_hash
    from rnncheck.results.model import SpecRef

    folder = Path(spec.path).resolve().parent
    ref = SpecRef(spec.path, spec.name, spec.hash)
    head = head_of(ref, current_environment(spec.device), code_hash(folder), engine)
    journal = Journal(path, head)
    if resume:
        return journal, journal.resume()
    journal.start()
    return journal, {}


def _cells(spec: Spec, scales: Sequence[str], *, quick: bool) -> tuple[list[Cell], list[str]]:
    """The cells, and the axes along which they are spread."""
    from rnncheck.bench.plan import plan_cells

    cells = plan_cells(spec, quick=quick)
    if not scales:
        return cells, []
    from rnncheck.bench.scale import parse_scale, scaled_cells

    wanted = [parse_scale(text) for text in scales]
    spread = [cell for axis, values in wanted for cell in scaled_cells(cells, axis, values)]
    return list({cell.key: cell for cell in spread}.values()), [axis for axis, _ in wanted]


def _write(spec: Spec, run: Run) -> None:
    """Change the spec's recurrent modules to what is recommended for training."""
    from rnncheck.bench.write import write_recommendation

    found = next((one for one in run.recommendations if one.purpose == "training"), None)
    if found is None:
        print("nothing is recommended for training: the spec stays as it is", file=sys.stderr)
        return
    for line in write_recommendation(spec, found):
        print(clean(line), file=sys.stderr)
