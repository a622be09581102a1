"""``rnncheck init``: a commented spec to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rnncheck.spec.scaffold import MODELINE, SCHEMA, Template


def init(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="The file to write, or its folder.")
    ] = Path("rnncheck.yaml"),
    template: Annotated[
        Template,
        typer.Option(
            "--template",
            "-t",
            help=(
                "dqn: LSTM Q-network; ppo: recurrent actor and critic; custom: your own factories."
            ),
        ),
    ] = Template.DQN,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Write a commented spec from a template, with a schema beside it for your editor."""
    from rnncheck.results.files import write_atomic
    from rnncheck.spec.scaffold import template_files

    spec = path / "rnncheck.yaml" if path.is_dir() else path
    texts = template_files(template, spec.name)
    texts[spec.name] = f"{MODELINE}\n{texts[spec.name]}"
    targets = {spec.parent / name: text for name, text in texts.items()}
    for target in targets:
        refuse_existing(
            target, force
        )  # before anything is written: a refusal leaves nothing half done
    for target, text in targets.items():
        write_atomic(target, text)
        typer.echo(f"wrote {target}")
    write_schema(spec.parent)
    typer.echo(f"wrote {spec.parent / SCHEMA}")
    typer.echo(f"next: {_next_command(spec)}")


def write_schema(folder: Path) -> None:
    """What the first line of a spec in ``folder`` names, for editors; made anew each time."""
    import json

    from rnncheck.cli.spec import schema_for_editors
    from rnncheck.results.files import write_atomic

    file = folder / SCHEMA
    file.parent.mkdir(exist_ok=True)
    write_atomic(file, json.dumps(schema_for_editors(), indent=2) + "\n")


def refuse_existing(target: Path, force: bool) -> None:
    """Raise OutputError where the file is there already or cannot be written."""
    from rnncheck.errors import OutputError, Place
    from rnncheck.results.files import check_writable

    check_writable(target)
    if target.exists() and not force:
        hint = "name another file, or overwrite it with --force"
        raise OutputError("exists already", place=Place(str(target)), hint=hint)


def _next_command(spec: Path) -> str:
    import shlex

    from rnncheck.spec.discover import NAMES

    found_alone = spec.parent == Path() and spec.name in NAMES
    return "rnncheck verify" if found_alone else f"rnncheck verify {shlex.quote(str(spec))}"
