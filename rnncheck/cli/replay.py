"""``rnncheck replay``: runs a stored failing case again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rnncheck.results.exit_codes import ExitCode

if TYPE_CHECKING:
    from rnncheck.cases.model import ReplayResult, StoredCase


def replay(
    case: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]",
            help="The id that a finding prints, or the folder of a case.",
            show_default=False,
        ),
    ] = None,
    stored: Annotated[
        bool,
        typer.Option(
            "--stored", help="Run the spec, the weights and the data as they were stored."
        ),
    ] = False,
    script: Annotated[
        Path | None,
        typer.Option(
            "--script",
            metavar="PATH",
            help="Write the case as a program of its own, seen to show the fault.",
            show_default=False,
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the stored cases.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove the case, or all cases where none is named.")
    ] = False,
) -> None:
    """Run a stored failing case again: 0 where it is fixed, 1 where it still fails, 4 where it
    cannot run here.

    It builds the spec as it is now, so it runs your Python.
    """
    from rnncheck.errors import UserError

    named = {"--list": list_, "--prune": prune, "--script": script is not None, "--stored": stored}
    asked = [name for name, given in named.items() if given]
    if len(asked) > 1:
        raise UserError(f"{' and '.join(asked)} ask for different things", hint="give one of them")
    if list_ and case is not None:
        raise UserError("--list lists all cases", hint="leave the id out")
    if list_:
        _list()
    elif prune:
        _prune(case)
    elif case is None:
        raise UserError(
            "`rnncheck replay` needs the id of a case", hint="`rnncheck replay --list` names them"
        )
    elif script is not None:
        raise typer.Exit(_written(case, script))
    else:
        raise typer.Exit(_replayed(case, stored=stored))


def _list() -> None:
    """A line for each case, the newest last."""
    from rnncheck.cases.store import case_folders, read_case, store_of
    from rnncheck.errors import UserError

    lines = []
    for folder in case_folders(store_of(Path.cwd())):
        try:
            one = read_case(folder)
            lines.append(
                (one.created, f"{folder.name}  {one.created}  {one.spec_file}  {one.name}")
            )
        except UserError as error:
            lines.append(("", f"{folder.name}  {error.message}"))
    for _, line in sorted(lines):
        _say(line)


def _prune(case: str | None) -> None:
    from rnncheck.cases.store import case_folders, find_case, prune_cases, store_of
    from rnncheck.printable import counted

    here = Path.cwd()
    folders = case_folders(store_of(here)) if case is None else [find_case(case, here)]
    _say(f"{counted(prune_cases(folders), 'case')} removed")


def _replayed(name: str, *, stored: bool) -> ExitCode:
    from rnncheck.cases.store import find_case, read_case
    from rnncheck.cli.streams import streamed
    from rnncheck.supervisor.supervise import Broken

    folder = find_case(name, Path.cwd())
    case = read_case(folder)

    def items() -> Iterator[Any]:
        from rnncheck.cases.again import replay_case

        return replay_case(case, folder, stored=stored)

    with streamed(items) as stream:
        found = list(stream)  # to the end, where the pipeline is closed
    if not isinstance(found[0], Broken):
        return _told(case, found[0])
    _say(f"{case.code} {case.name}: cannot run here: {found[0].reason}")
    return ExitCode.INTERNAL if found[0].trace else ExitCode.NOT_SHOWN


def _written(name: str, path: Path) -> ExitCode:
    """Write the program of the case."""
    from rnncheck.cases.store import TENSOR_FILE, find_case, read_case, spec_of_case
    from rnncheck.cli.streams import streamed
    from rnncheck.errors import UserError
    from rnncheck.results.files import check_writable, write_atomic
    from rnncheck.supervisor.supervise import Broken

    folder = find_case(name, Path.cwd())
    case, target = read_case(folder), path.absolute()
    check_writable(target)

    def items() -> Iterator[Any]:
        from rnncheck.cases.program import check_written, program_of
        from rnncheck.cases.tensors import read_inputs

        check_written(case)
        inputs = read_inputs(case, folder / TENSOR_FILE)
        yield program_of(case, inputs, spec_of_case(case, folder), target)

    with streamed(items) as stream:
        (made,) = stream
    if isinstance(made, Broken):
        raise UserError(f"the case cannot be built: {made.reason}")
    write_atomic(target, made.text)
    more = ", and 0 with --mended" if made.mended else ""
    lines = len(made.text.splitlines())
    _say(f"{path}: {lines} lines; it exits 1 while {case.code} is there{more}")
    return ExitCode.VERIFIED


def _told(case: StoredCase, found: ReplayResult) -> ExitCode:
    from rnncheck.cases.model import ReplayEnding

    _say(f"{case.code} {case.name}: {found.ending}")
    for label, said in _facts(case, found):
        if said:
            print(f"  {label:<12}{said}")
    codes = {ReplayEnding.FIXED: ExitCode.VERIFIED, ReplayEnding.FAILING: ExitCode.FAILED}
    return codes.get(found.ending, ExitCode.NOT_SHOWN)


def _facts(case: StoredCase, found: ReplayResult) -> Iterator[tuple[str, str]]:
    from rnncheck.cases.model import ReplayEnding
    from rnncheck.printable import clean

    yield "then", clean(_seen(case.seen.message, case.seen.measured))
    if found.now is not None:
        yield "now", clean(_seen(found.now.message, found.now.measured))
    yield "why" if found.ending is ReplayEnding.CANNOT_RUN else "compared", _indented(found.why)
    yield "ran", clean(found.ran)
    yield "smaller by", clean(", ".join(found.smaller))
    for remark in found.remarks:
        yield "note", clean(remark)


def _indented(text: str) -> str:
    from rnncheck.printable import clean_lines

    return "\n              ".join(line.strip() for line in clean_lines(text).splitlines())


def _seen(message: str, measured: float | None) -> str:
    return message if measured is None else f"{message} ({measured:.6g})"


def _say(line: str) -> None:
    from rnncheck.printable import clean

    print(clean(line), file=sys.stdout)
