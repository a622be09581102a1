"""The JSON Schema of spec files, made from the models, in the forms that a user writes."""

from __future__ import annotations

import json
from typing import Any

from rnncheck.spec.editor import Vocabulary, with_vocabulary
from rnncheck.spec.model import Component, Spec
from rnncheck.spec.shape import DEFAULT_USE, FUNCTION, SECTIONS

_IDENTIFIER = r"[^\W\d]\w*"
_DOTTED = rf"{_IDENTIFIER}(\.{_IDENTIFIER})*"
_USE: dict[str, Any] = {
    "type": "string",
    "pattern": f"^{_DOTTED}$",
    "description": "the name of a TorchRL class; the other keys are its arguments",
}
_FACTORY: dict[str, Any] = {
    "type": "string",
    "pattern": f"^{_DOTTED}:{_DOTTED}$",
    "description": "package.module:function of your own; the other keys are passed to it",
}
_NAMELESS: dict[str, Any] = {"use": {"type": "null"}, "factory": {"type": "null"}}
_INTERNAL = {"args", "at"}  # how the models hold what the user writes as plain keys
_COMPONENT = {"$ref": "#/$defs/Component"}


def json_schema(words: Vocabulary | None = None) -> dict[str, Any]:
    """JSON Schema 2020-12 of a spec file; with ``words`` it knows their codes and classes."""
    told = json.dumps(Spec.model_json_schema(by_alias=True))
    schema = json.loads(told.replace("``", "`"))  # descriptions: editors read them as Markdown
    definitions: dict[str, Any] = schema.pop("$defs")
    nameless = {SECTIONS[section] for section in DEFAULT_USE}
    models: set[type[Component]] = {*SECTIONS.values(), Component}
    for model in models:
        name = model.__name__
        definitions[name] = _component(definitions[name], optional=model in nameless)
    definitions["NetworkSpec"] = _network(definitions["NetworkSpec"])
    properties = {name: _nullable(name, part) for name, part in schema["properties"].items()}
    definitions["PassSpec"]["anyOf"] = definitions["PassSpec"]["anyOf"][3:]
    properties["batch"] = {"anyOf": [_made_by_factory({}), {"type": "null"}]}
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rnncheck spec",
        "description": "A recurrent TorchRL pipeline and how rnncheck verifies it.",
        "type": "object",
        "properties": properties,
        "required": schema["required"],
        "additionalProperties": False,
        "$defs": {name: _with_nulls(part) for name, part in sorted(definitions.items())},
    }
    return with_vocabulary(made, words or Vocabulary())


def _nullable(name: str, part: dict[str, Any]) -> dict[str, Any]:
    """Every key but the required ones may be null, which means absent."""
    required = {
        field.alias or key for key, field in Spec.model_fields.items() if field.is_required()
    }
    return part if name in required else _or_null(part)


def _or_null(part: dict[str, Any]) -> dict[str, Any]:
    if {"type": "null"} in part.get("anyOf", []):
        return part
    labels = ("default", "description", "title")
    inner = {key: value for key, value in part.items() if key not in labels}
    outer: dict[str, Any] = {key: part[key] for key in labels if key in part}
    return {"anyOf": [inner, {"type": "null"}], **outer}


def _with_nulls(definition: dict[str, Any]) -> dict[str, Any]:
    """The loader takes null for absent in the sections' own keys too."""
    if definition.get("additionalProperties") is not False or "properties" not in definition:
        return definition
    parts = {name: _or_null(part) for name, part in definition["properties"].items()}
    return {**definition, "properties": parts}


def _component(definition: dict[str, Any], *, optional: bool) -> dict[str, Any]:
    """A component: a bare name, or a mapping with `use` or with `factory`, any other keys."""
    own = _own_keys(definition)
    forms = [
        {"type": "string", "pattern": _USE["pattern"], "description": "the name of a class"},
        _mapping(own | {"use": _USE, "factory": {"type": "null"}}, ["use"]),
        _made_by_factory(own),
    ]
    if FUNCTION in own:
        forms[2] = _made_by_factory(own | {FUNCTION: {"type": "null"}})
        forms.append(_mapping(own | _NAMELESS | {FUNCTION: _FACTORY}, [FUNCTION]))
    if optional:
        forms.append(_mapping(own | _NAMELESS, []))
    return {"description": definition.get("description", ""), "anyOf": forms}


def _own_keys(definition: dict[str, Any]) -> dict[str, Any]:
    properties = definition["properties"].items()
    hidden = {*_INTERNAL, "use", "factory"}
    return {name: _or_null(part) for name, part in properties if name not in hidden}


def _mapping(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _made_by_factory(own: dict[str, Any]) -> dict[str, Any]:
    return _mapping(own | {"use": {"type": "null"}, "factory": _FACTORY}, ["factory"])


def _network(definition: dict[str, Any]) -> dict[str, Any]:
    """A policy or critic: a list of modules, a mapping with that list, or a factory."""
    modules = {"type": "array", "items": _COMPONENT, "minItems": 1}
    weights = {"weights": _or_null(definition["properties"]["weights"])}
    listed = _mapping({"modules": modules, "factory": {"type": "null"}} | weights, ["modules"])
    made = _made_by_factory(weights | {"modules": {"type": "null"}})
    return {
        "description": definition.get("description", ""),
        "anyOf": [modules, {**listed, "additionalProperties": False}, made],
    }
