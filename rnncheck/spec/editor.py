"""What an editor is told beyond the form of a spec: check codes, TorchRL's classes and arguments.

The models know none of these. They are handed in by who does, so that the schema itself needs
neither TorchRL nor the checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
_CODES = (("VerifySpec", "select"), ("VerifySpec", "ignore"))
_USE = "use"


@dataclass(frozen=True)
class KnownClass:
    """A class that a section may name: its one line, its arguments with a word on each, and whether
    it takes others too."""

    about: str
    arguments: Mapping[str, str]
    open: bool = False


@dataclass(frozen=True)
class Vocabulary:
    """The check codes with what each finds, and the classes of each place in a spec.

    A place is ``env``, ``env.transforms``, ``modules``, ``collect``, ``replay``,
    ``replay.storage``, ... as in ``PLACES``.
    """

    codes: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, Mapping[str, KnownClass]] = field(default_factory=dict)


# Where in the schema the components of a place are: the definition or the top, the key, and whether
# it is a list of them.
PLACES: dict[str, tuple[str, str]] = {
    "env": ("", "env"),
    "env.transforms": ("EnvSpec", "transforms"),
    "modules": ("NetworkSpec", "modules"),
    "collect": ("", "collect"),
    "replay": ("", "replay"),
    "replay.storage": ("ReplaySpec", "storage"),
    "replay.sampler": ("ReplaySpec", "sampler"),
    "replay.writer": ("ReplaySpec", "writer"),
    "replay.transforms": ("ReplaySpec", "transforms"),
    "advantage": ("", "advantage"),
    "loss": ("", "loss"),
    "loss.target_update": ("LossSpec", "target_update"),
}


def with_vocabulary(schema: Json, words: Vocabulary) -> Json:
    """The schema with the codes and classes that are known; without any it is as it was."""
    definitions = schema["$defs"]
    if words.codes:
        for model, key in _CODES:
            _add_codes(definitions[model]["properties"][key], words.codes)
    inner_first = sorted(words.classes.items(), key=lambda one: not PLACES[one[0]][0])
    for place, classes in inner_first:  # a section's own form is made of those inside
        model, key = PLACES[place]
        narrowed = f"Component at {place}"
        for properties in _properties(definitions[model] if model else schema):
            if key in properties:
                properties[key] = _led(properties[key], narrowed, definitions, classes)
    return schema


def _properties(part: Json) -> list[Json]:
    """The properties of an object, or of each form that it may have."""
    forms = [part, *part.get("anyOf", ())]
    return [form["properties"] for form in forms if "properties" in form]


def _add_codes(part: Json, codes: Mapping[str, str]) -> None:
    """A beginning of a code is valid too, and so is a code of one's own."""
    for form in (part, *part.get("anyOf", ())):
        if form.get("type") == "array":
            form["items"] = {"anyOf": [_one_of(codes), form["items"]]}


def _one_of(words: Mapping[str, str]) -> Json:
    return {"oneOf": [{"const": word, "description": told} for word, told in words.items()]}


def _led(part: Any, name: str, definitions: Json, classes: Mapping[str, KnownClass]) -> Any:
    """The part with its reference to a component led to one that knows the classes."""
    if isinstance(part, list):
        return [_led(one, name, definitions, classes) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" not in part:
        return {key: _led(one, name, definitions, classes) for key, one in part.items()}
    if name not in definitions:
        general = definitions[part["$ref"].rpartition("/")[2]]
        definitions[name] = {
            **general,
            "anyOf": [_form(form, classes) for form in general["anyOf"]],
        }
    return {**part, "$ref": f"#/$defs/{name}"}


def _form(form: Json, classes: Mapping[str, KnownClass]) -> Json:
    """One form of a component: a bare name, or a mapping with ``use``."""
    names = _one_of({name: one.about for name, one in classes.items()})
    if form.get("type") == "string":
        return {**form, **names}
    if _USE not in form.get("required", ()):
        return form
    own = form["properties"]
    properties = {**own, _USE: {**own[_USE], **names}}
    return {
        **form,
        "properties": properties,
        "allOf": [_arguments(name, one, own) for name, one in classes.items()],
    }


def _arguments(name: str, known: KnownClass, own: Json) -> Json:
    """Where this class is named: its arguments, beside the spec's own keys."""
    told = {key: {"description": word} for key, word in known.arguments.items() if key not in own}
    only = {} if known.open else {"propertyNames": {"enum": [*own, *told]}}
    when = {"properties": {_USE: {"const": name}}, "required": [_USE]}
    return {"if": when, "then": {"properties": told, **only}}
