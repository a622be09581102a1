"""Mistakes in a spec: gathered, sorted by position, and put into sentences of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rnncheck.errors import Place, SpecError, UserError, did_you_mean
from rnncheck.spec.meant import key_hint, key_meant
from rnncheck.spec.model import KeyPath

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MOST_ERRORS = 20  # told at once: about three screens
LONGEST_VALUE = 60  # characters of a bad value that are shown: with its key one line of 100


class SpecErrors(SpecError):
    """Several mistakes in one spec, in file order. ``errors`` holds them one by one."""

    def __init__(self, errors: Iterable[UserError]) -> None:
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(first.message, place=first.place, accepted=first.accepted, hint=first.hint)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


@dataclass
class Problems:
    """The mistakes found so far; ``locate`` gives the place of a path in the spec.

    Of what stands at or below the paths of ``unread`` nothing more is said.
    """

    locate: Callable[[KeyPath], Place]
    unread: Set[KeyPath] = frozenset()
    found: list[SpecError] = field(default_factory=list)

    def add(
        self,
        at: KeyPath,
        message: str,
        *,
        accepted: str = "",
        hint: str = "",
        at_parent: bool = False,
    ) -> None:
        """Note one mistake at the path ``at``; ``at_parent`` where nothing stands there."""
        if any(at[:length] in self.unread for length in range(len(at) + 1)):
            return
        place = self.locate(at[:-1] if at_parent else at)
        self.found.append(SpecError(message, place=place, accepted=accepted, hint=hint))

    def raise_any(self) -> None:
        """Raise what was found: one error as it is, several together in file order."""
        raise_together(self.found)


def raise_together(errors: Iterable[UserError]) -> None:
    """Raise what is wrong with one spec, each mistake once, the first ``MOST_ERRORS`` of them."""
    once: dict[tuple[Place | None, str], UserError] = {
        (error.place, error.message): error for error in errors
    }
    ordered = sorted(once.values(), key=_position)
    if len(ordered) > MOST_ERRORS:
        rest, path = len(ordered) - MOST_ERRORS, (ordered[0].place or Place("")).path
        more = SpecError(f"and {rest} more like these, further down", place=Place(path))
        ordered = [*ordered[:MOST_ERRORS], more]
    if ordered:
        raise ordered[0] if len(ordered) == 1 else SpecErrors(ordered)


def _position(error: UserError) -> tuple[bool, int, int]:
    place = error.place or Place("")
    return (place.line == 0, place.line, place.column)  # what --set brought comes last


def dotted_path(at: KeyPath) -> str:
    """A path as ``--set`` takes it: ``policy.modules.1.hidden_size``."""
    return ".".join(str(part) for part in at)


def shown(value: object) -> str:
    """A value as the user would write it, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def listing(names: Iterable[str]) -> str:
    """Names for the ``accepted`` line."""
    return ", ".join(names)


MISSING_HINTS: Mapping[KeyPath, str] = {
    ("schema",): "add `schema: 1`",
    ("name",): "add a name for the reports, e.g. `name: my-pipeline`",
    ("env",): "add e.g. `env: {use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}`",
    ("policy",): 'add e.g. `policy: {factory: "my_module:make_policy"}` or a list of modules',
}


def translate(
    error: ValidationError, problems: Problems, known_keys: Callable[[KeyPath], list[str]]
) -> None:
    """Turn pydantic's errors into ours; ``known_keys`` lists what the mapping at a path accepts."""
    details = error.errors(include_url=False, include_context=True)
    unknown = [tuple(d["loc"]) for d in details if d["type"] == "extra_forbidden"]
    for detail in details:
        at = tuple(detail["loc"])
        if detail["type"] == "extra_forbidden":
            known = known_keys(at[:-1])
            said, hint = f"unknown key {dotted_path(at)!r}", key_hint(at, known)
            problems.add(at, said, accepted=listing(known), hint=hint)
        elif detail["type"] == "missing":
            if not _is_misspelt(at, unknown, known_keys):
                said, hint = f"the key {dotted_path(at)!r} is missing", MISSING_HINTS.get(at, "")
                problems.add(at, said, hint=hint, at_parent=True)
        else:
            _bad_value(at, detail, problems)


def _is_misspelt(
    at: KeyPath, unknown: list[KeyPath], known_keys: Callable[[KeyPath], list[str]]
) -> bool:
    """Whether an unknown key beside it is this one, misspelt: then one message is enough."""
    beside = [other for other in unknown if other[:-1] == at[:-1]]
    return any(key_meant(other, known_keys(at[:-1])) == at[-1] for other in beside)


def _bad_value(at: KeyPath, detail: ErrorDetails, problems: Problems) -> None:
    context: dict[str, Any] = detail.get("ctx", {})
    if detail["type"] == "value_error":  # a sentence of the models' own
        problems.add(at, f"{dotted_path(at)}: {context['error']}")
        return
    wanted = _wanted(at, detail["type"], context)
    given, hint = detail["input"], ""
    if detail["type"] == "literal_error" and isinstance(given, str):
        hint = did_you_mean(given, re.split(", | or ", wanted))
    elif wanted == "a list" and not isinstance(given, dict):
        hint = f"write [{given}]"
    problems.add(at, f"{dotted_path(at)} must be {wanted}, not {shown(given)}", hint=hint)


_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "date": "a date, e.g. 2027-06-30",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def _wanted(at: KeyPath, kind: str, context: dict[str, Any]) -> str:
    """What would have been right, as it stands behind "must be"."""
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        bound = context[key]
        return f"{words} {int(bound) if bound == int(bound) else bound}"
    if kind == "literal_error":
        said = str(context["expected"]).replace("'", "")
        return said.replace("False", "false").replace("True", "true")  # as YAML writes them
    if at == ("device",) and kind == "string_pattern_mismatch":
        return "cpu, cuda, cuda:N or auto"
    if at[0] == "checks" and kind == "string_pattern_mismatch":
        return "the name of a module, e.g. team.checks"
    if at[-1] == "code" and kind == "string_pattern_mismatch":
        return "the code of a check, e.g. LS701"
    if kind == "string_too_short":
        return "text that is not empty"
    if kind == "string_too_long":
        return f"at most {context['max_length']} characters long"
    return _TYPES.get(kind.split("_")[0], "another value")
