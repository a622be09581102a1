"""A spec file to a ``Spec``. Nothing of what the file names is imported or run."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import ValidationError

from rnncheck.errors import Place, SpecError
from rnncheck.spec import dump, override
from rnncheck.spec.discover import discover
from rnncheck.spec.fields import Strict
from rnncheck.spec.model import KeyPath, Spec
from rnncheck.spec.problems import Problems, shown, translate
from rnncheck.spec.read import Document, parse, read_text
from rnncheck.spec.shape import SETTINGS, TOP_KEYS, name_network_lists, shape


def open_spec(path: pathlib.Path | None, overrides: Sequence[str] = ()) -> Spec:
    """The spec at ``path``, or the one found from the working folder upward."""
    return load_spec(path if path is not None else discover(pathlib.Path.cwd()), overrides)


def load_spec(path: str | pathlib.Path, overrides: Sequence[str] = ()) -> Spec:
    """Read, override and validate a spec. Raises SpecError for everything that is wrong with it.

    ``overrides`` are ``key.key=value`` texts, applied in order. Mistakes that can be seen
    together are raised together, in file order.
    """
    path = pathlib.Path(path)
    text = read_text(path)
    return spec_from_text(text, str(path), overrides)


def spec_from_text(text: str, name: str, overrides: Sequence[str] = ()) -> Spec:
    """The same for a text; ``name`` stands for the file in messages."""
    document, problems = parse(text, name)
    _expect_mapping(document, problems)
    name_network_lists(document)
    for assignment in overrides:
        try:
            override.apply(document, assignment)
        except SpecError as error:
            problems.found += getattr(error, "errors", [error])
    return _validate(document, problems)


def _expect_mapping(document: Document, problems: Problems) -> None:
    place = Place(document.name, 1, 1)
    if document.data is None:
        problems.raise_any()
        hint = "write one with `rnncheck init`"
        raise SpecError("the spec is empty", place=place, hint=hint)
    if not isinstance(document.data, dict):
        message = f"a spec is a mapping of keys, not {shown(document.data)}"
        raise SpecError(message, place=place, accepted=", ".join(TOP_KEYS))


def _validate(document: Document, problems: Problems) -> Spec:
    shaped = shape(document.data, problems)
    try:
        spec = Spec.model_validate(shaped)
    except ValidationError as error:
        translate(error, problems, _known_keys)
        problems.raise_any()
        raise
    problems.raise_any()
    spec._path = document.name
    spec._folder = _folder_of(document.name)
    spec._places = document.places
    spec._hash = dump.fingerprint(spec)
    return spec


def _folder_of(name: str) -> pathlib.Path | None:
    """Where the file lies; None where its name is no path."""
    try:
        return pathlib.Path(name).resolve().parent
    except (OSError, RuntimeError, ValueError):
        return None


def _known_keys(at: KeyPath) -> list[str]:
    """The keys that the mapping at ``at`` accepts."""
    model = SETTINGS.get(str(at[0])) if at else None
    if model is None:
        return list(TOP_KEYS)
    for part in at[1:]:
        if isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[Strict] | None:
    """The model that a field holds: alone, in a tuple, or beside None."""
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
