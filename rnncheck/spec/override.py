"""``--set policy.modules.1.hidden_size=32``: one value of the spec, changed on the command line."""

from __future__ import annotations

from typing import Any

from rnncheck.errors import Place, SpecError
from rnncheck.spec.meant import key_hint
from rnncheck.spec.model import KeyPath
from rnncheck.spec.problems import dotted_path, listing, shown
from rnncheck.spec.read import Document, parse
from rnncheck.spec.shape import (
    COMPONENT_PARTS,
    NETWORKS,
    SECTIONS,
    SETTINGS,
    TOP_KEYS,
    component_model,
    name_network_lists,
    reserved,
)

_FORM = "--set KEY.KEY.INDEX=VALUE, e.g. --set policy.modules.1.hidden_size=32"


def apply(document: Document, assignment: str) -> None:
    """Change ``document`` as one ``--set`` says; the value is read as YAML."""
    place = Place(f"--set {assignment}")
    keys, value = _split(assignment, place)
    holder: Any = document.data
    at: KeyPath = ()
    for key in keys[:-1]:
        holder, at = _enter(holder, key, at, place)
    part = _part(holder, keys[-1], at, place)
    holder[part] = value
    document.forget((*at, part))
    document.places[(*at, part)] = place
    name_network_lists(document)


def _split(assignment: str, place: Place) -> tuple[list[str], Any]:
    path, equals, text = assignment.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise SpecError("is not KEY=VALUE", place=place, accepted=_FORM)
    document, problems = parse(text, place.path, place)
    problems.raise_any()
    return keys, document.data


def _part(holder: Any, key: str, at: KeyPath, place: Place) -> str | int:
    """``key`` as it indexes ``holder``; in a list it must exist."""
    if isinstance(holder, dict):
        return key
    if not isinstance(holder, list):
        what = dotted_path(at) or "the spec"
        raise SpecError(f"{what} is {shown(holder)}, which has no key {key!r}", place=place)
    if key.isascii() and key.isdigit() and int(key) < len(holder):
        return int(key)
    accepted = f"an index from 0 to {len(holder) - 1}" if holder else "nothing: the list is empty"
    raise SpecError(f"{dotted_path(at)} has no entry {key!r}", place=place, accepted=accepted)


def _enter(holder: Any, key: str, at: KeyPath, place: Place) -> tuple[Any, KeyPath]:
    """The value below ``holder`` at ``key``, made where the spec knows the section."""
    part = _part(holder, key, at, place)
    here = (*at, part)
    inner = holder.get(part) if isinstance(holder, dict) else holder[part]
    if inner is None:
        if not _can_be_made(here):
            raise _unknown(holder, key, at, place)
        inner = {}
    elif isinstance(inner, str) and component_model(here) is not None:
        inner = {"use": inner}
    holder[part] = inner
    return inner, here


def _can_be_made(at: KeyPath) -> bool:
    """Whether the section or part at ``at`` may be absent and still be written into."""
    if len(at) == 1:
        return at[0] in {*SECTIONS, *NETWORKS, *SETTINGS}
    model = SECTIONS.get(str(at[0]))
    parts = {*COMPONENT_PARTS, "value_estimator"}
    return len(at) == 2 and model is not None and at[1] in parts and at[1] in reserved(model)


def _unknown(holder: dict[str, Any], key: str, at: KeyPath, place: Place) -> SpecError:
    known = list(TOP_KEYS) if not at else list(holder)
    message = f"there is no {dotted_path((*at, key))!r} in the spec"
    hint = key_hint((*at, key), known)
    return SpecError(message, place=place, accepted=listing(known), hint=hint)
