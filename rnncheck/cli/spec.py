"""``rnncheck spec``: the spec alone. Nothing here builds a pipeline."""

from __future__ import annotations

import typer

from rnncheck.cli.options import JsonOption, SetOption, SpecPath


def validate(spec: SpecPath = None, overrides: SetOption = None) -> None:
    """Check a spec file: its form, not whether its classes and factories exist."""
    from rnncheck.results.model import Stage
    from rnncheck.spec.load import open_spec

    loaded = open_spec(spec, overrides or ())
    stages = [stage for stage in Stage if getattr(loaded, stage, None) is not None]
    typer.echo(f"ok: {loaded.path} ({loaded.name}): {', '.join(stages)}")


def show(spec: SpecPath = None, overrides: SetOption = None, as_json: JsonOption = False) -> None:
    """Print the effective spec: overrides applied, defaults filled in."""
    from rnncheck.spec.dump import to_json, to_yaml
    from rnncheck.spec.load import open_spec

    loaded = open_spec(spec, overrides or ())
    typer.echo(to_json(loaded) if as_json else to_yaml(loaded).rstrip("\n"))


def schema() -> None:
    """Print the JSON Schema of spec files, for editors."""
    import json

    from rnncheck.spec.schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
