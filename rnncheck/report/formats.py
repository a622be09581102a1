"""``--report FORMAT[=PATH]``: which reports are wanted, where they go, and writing them all from
one Run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TextIO, cast

from rnncheck.errors import OutputError, OutputErrors, did_you_mean, first_line
from rnncheck.results.events import Event
from rnncheck.results.files import check_writable, write_atomic
from rnncheck.results.model import Run

FORMATS = (
    "console", "json", "jsonl", "junit", "github", "sarif", "markdown", "csv", "html", "benchmark"
)  # fmt: skip
SHARING = {"console", "github"}  # a GitHub log shows both: the commands vanish from it


@dataclass(frozen=True)
class Target:
    """A format and its file, which is absolute; without a file it goes to standard output."""

    format: str
    path: Path | None = None


LIVE = Target("jsonl")


def parse_targets(values: Iterable[str]) -> list[Target]:
    """The targets that the user asked for, ``console`` where none; all of them can be written.

    Raises an OutputError for an unknown format, an unwritable path, or formats that would mix.
    """
    targets = list(dict.fromkeys(_parse(value) for value in values)) or [Target("console")]
    _check_streams(targets)
    _check_paths(targets)
    if any(target.format == "github" for target in targets):
        from rnncheck.report.github import check_summary

        check_summary()
    return targets


def render(run: Run, name: str) -> str:
    """The run in the format ``name``."""
    return cast(str, import_module(f"rnncheck.report.{name}").render(run))


def live_writers(targets: Sequence[Target], out: TextIO) -> list[Callable[[Event], None]]:
    """Listeners for the formats that are written to ``out`` while the run goes: jsonl."""
    from rnncheck.report.jsonl import JsonlWriter

    if LIVE not in targets:
        return []
    _make_utf8(out)
    return [JsonlWriter(out)]


def write_reports(
    run: Run,
    targets: Sequence[Target],
    out: TextIO,
    quiet: bool = False,
    verbose: bool = False,
    live: bool = False,
) -> None:
    """Write every report: files atomically, then the others to ``out``.

    Each is tried whatever becomes of the others; OutputErrors says which failed. ``live`` says that
    ``live_writers`` have heard the whole run, with its RunFinished: they are not written again.
    """
    failed = [
        *attempted([partial(write_file, run, one) for one in targets]),
        *attempted([lambda: print_reports(run, targets, out, quiet, verbose, live)]),
    ]
    if failed:
        raise OutputErrors(failed)


def attempted(steps: Iterable[Callable[[], None]]) -> list[OutputError]:
    """What went wrong in these steps, each of which is tried."""
    failed: list[OutputError] = []
    for step in steps:
        try:
            step()
        except OutputErrors as error:
            failed += error.errors
        except OutputError as error:
            failed.append(error)
        except BrokenPipeError:
            raise  # the reader left: the command line's business
        except Exception as error:  # a fault of ours in one report must not cost the others
            failed.append(
                OutputError(f"a fault of rnncheck, please report it: {first_line(error)}")
            )
    return failed


def write_file(run: Run, target: Target) -> None:
    """Write the report of a target that has a file, and what belongs to its format. Raises
    OutputErrors."""
    steps: list[Callable[[], None]] = []
    if (path := target.path) is not None:
        steps.append(lambda: write_atomic(path, render(run, target.format)))
    if target.format == "github":
        steps.append(lambda: _summarise(run))
    if failed := attempted(steps):
        raise OutputErrors(failed)


def print_reports(
    run: Run, targets: Iterable[Target], out: TextIO, quiet: bool, verbose: bool, live: bool
) -> None:
    """Write the reports that go to ``out``. Raises OutputError where it takes no more."""
    try:
        for target in targets:
            if target.path is None and not (live and target == LIVE):
                if target.format == "console":
                    _show(run, out, quiet, verbose)
                else:
                    _print(render(run, target.format), out)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"the report cannot be printed: {error.strerror or error}") from error


def _print(content: str, out: TextIO) -> None:
    _make_utf8(out)
    out.write(content)
    out.flush()


def _make_utf8(out: TextIO) -> None:
    """Machine formats are UTF-8 whatever the locale says."""
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8")


def _summarise(run: Run) -> None:
    from rnncheck.report.github import append_summary

    append_summary(run)


def _show(run: Run, out: TextIO, quiet: bool, verbose: bool) -> None:
    from rnncheck.report.console import show_run
    from rnncheck.report.terminal import console_for

    show_run(run, console_for(out), quiet, verbose)


def _parse(value: str) -> Target:
    name, equals, path = value.partition("=")
    if name not in FORMATS:
        raise OutputError(
            f"unknown report format {name!r}",
            accepted=", ".join(FORMATS),
            hint=did_you_mean(name, FORMATS),
        )
    if equals and not path:
        raise OutputError(
            f"--report {value} names no file",
            hint=f"{name}=FILE, or {name} alone for standard output",
        )
    return Target(name, Path(path).absolute() if path not in ("", "-") else None)


def _check_streams(targets: Sequence[Target]) -> None:
    shown = [target.format for target in targets if target.path is None]
    if len(shown) > 1 and not set(shown) <= SHARING:
        raise OutputError(
            f"{' and '.join(shown)} would mix on standard output",
            hint=f"give all but one a file: --report {shown[-1]}=FILE",
        )


def _check_paths(targets: Sequence[Target]) -> None:
    seen: dict[Path, str] = {}
    for target in targets:
        if target.path is None:
            continue
        check_writable(target.path)
        other = seen.setdefault(target.path.resolve(), target.format)
        if other != target.format:
            raise OutputError(
                f"{other} and {target.format} would both be written to {str(target.path)!r}"
            )
