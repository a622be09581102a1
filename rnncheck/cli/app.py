"""The ``rnncheck`` command: its sub-commands, and how an error becomes a message and an exit
code."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer

from rnncheck import __version__
from rnncheck.cli import spec as spec_commands
from rnncheck.cli.bench import bench
from rnncheck.cli.compare import compare
from rnncheck.cli.doctor import doctor
from rnncheck.cli.gate import gate
from rnncheck.cli.init import init
from rnncheck.cli.memory import memory
from rnncheck.cli.messages import print_internal, print_user_error
from rnncheck.cli.replay import replay
from rnncheck.cli.report import report
from rnncheck.cli.rule import rule
from rnncheck.cli.run import run as run_command
from rnncheck.cli.selftest import selftest
from rnncheck.cli.standard_streams import StandardStreams
from rnncheck.cli.verify import verify
from rnncheck.errors import UserError
from rnncheck.results.exit_codes import ExitCode
from rnncheck.supervisor.signals import CommandStopped, arm, disarm, stopping

app = typer.Typer(
    name="rnncheck",
    help="Verify that a recurrent TorchRL policy really is recurrent.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
spec_app = typer.Typer(
    help="The spec file alone: validate it, show it with its defaults, print its JSON Schema.",
    no_args_is_help=True,
)


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its exceptions turned into messages and exit codes."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            with stopping():
                command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise  # typer has its own way with these
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except UserError as error:
            print_user_error(error)
            raise typer.Exit(ExitCode.USAGE) from None
        except Exception as error:
            said = f"{type(error).__name__}: {error}".rstrip(": ")
            print_internal(said, "".join(traceback.format_exception(error)))
            raise typer.Exit(ExitCode.INTERNAL) from None

    return run


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rnncheck {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Verify that a recurrent TorchRL policy really is recurrent."""


_COMMANDS: list[Callable[..., None]] = [
    verify,
    bench,
    memory,
    gate,
    selftest,
    replay,
    report,
    compare,
    rule,
    init,
    doctor,
]
SPEC_COMMANDS = (spec_commands.validate, spec_commands.show, spec_commands.schema)
# What follows the script's name is the script's own.
app.command("run", context_settings={"allow_interspersed_args": False})(_guarded(run_command))
for command in _COMMANDS:
    app.command()(_guarded(command))
for command in SPEC_COMMANDS:
    spec_app.command()(_guarded(command))
app.add_typer(spec_app, name="spec")


def main() -> None:
    """The command in a process of its own: Ctrl-C and SIGTERM end it with their exit codes, and
    what becomes of the standard streams ends nothing."""
    streams = StandardStreams()
    arm()
    try:
        code = _exit_code()
    except CommandStopped as stop:
        code = stop.code
    finally:
        disarm()
    sys.exit(streams.settle(code, "".join(sys.argv[1:2])))


def _exit_code() -> int:
    """What the command line ended with."""
    try:
        app(prog_name="rnncheck")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    return 0
