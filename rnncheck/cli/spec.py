"""``rnncheck spec``: the spec alone. Nothing here builds a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rnncheck.cli.options import JsonOption, SetOption, SpecPath

SpecPaths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="SPEC...",
        help="The spec files. Without one, rnncheck.yaml in this folder or above.",
        show_default=False,
    ),
]


def validate(specs: SpecPaths = None, overrides: SetOption = None) -> None:
    """Check spec files: their form, TorchRL's classes and arguments, and the source of factories.

    None of your code is imported or run.
    """
    from rnncheck.errors import UserError
    from rnncheck.spec.problems import SpecErrors

    found: list[UserError] = []
    paths: list[Path | None] = [*specs] if specs else [None]
    for path in paths:
        try:
            _validate(path, overrides or ())
        except SpecErrors as errors:
            found += errors.errors
        except UserError as error:
            found.append(error)
    if found:
        raise SpecErrors(found)


def _validate(path: Path | None, overrides: Sequence[str]) -> None:
    from rnncheck.pipeline.assembly.named import wrong_names
    from rnncheck.printable import clean
    from rnncheck.results.model import Stage
    from rnncheck.spec.load import open_spec
    from rnncheck.spec.problems import raise_together

    loaded = open_spec(path, overrides)
    raise_together(wrong_names(loaded))
    stages = [stage for stage in Stage if getattr(loaded, stage, None) is not None]
    typer.echo(clean(f"ok: {loaded.path} ({loaded.name}): {', '.join(stages)}"))


def show(spec: SpecPath = None, overrides: SetOption = None, as_json: JsonOption = False) -> None:
    """Print the effective spec: overrides applied, defaults filled in."""
    from rnncheck.spec.dump import spec_to_json, to_yaml
    from rnncheck.spec.load import open_spec

    loaded = open_spec(spec, overrides or ())
    typer.echo(spec_to_json(loaded) if as_json else to_yaml(loaded).rstrip("\n"))


def schema(
    torchrl: Annotated[
        bool,
        typer.Option(
            "--torchrl", help="Know the installed TorchRL's classes and arguments; imports it."
        ),
    ] = False,
) -> None:
    """Print the JSON Schema of spec files, for editors."""
    import json

    typer.echo(json.dumps(schema_for_editors(torchrl), indent=2))


def schema_for_editors(torchrl: bool = False) -> dict[str, Any]:
    """The schema with the check codes, and with the classes of the installed TorchRL if wanted."""
    from rnncheck.checks.catalogue import entries
    from rnncheck.spec.editor import Vocabulary
    from rnncheck.spec.schema import json_schema

    codes = {entry.code: f"{entry.name}: {entry.summary}" for entry in entries()}
    if not torchrl:
        return json_schema(Vocabulary(codes))
    from rnncheck.pipeline.assembly.vocabulary import installed_classes

    return json_schema(Vocabulary(codes, installed_classes()))
