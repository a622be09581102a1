"""The reference: keys of a spec, commands, exit codes, stored results, each from what defines
it."""

from __future__ import annotations

import enum
import inspect
import json
import typing
from collections.abc import Iterator
from typing import Any

import typer.main
from pydantic import BaseModel

import rnncheck
from rnncheck.cli.app import app
from rnncheck.results.exit_codes import MEANINGS
from rnncheck.results.schema import FILE as RESULT_SCHEMA
from rnncheck.spec.model import Component, Spec
from rnncheck.spec.shape import reserved
from website.markdown import block, code, contents, page, plain, stacked, table

Json = dict[str, Any]
PAGES = ("spec-keys", "commands", "python", "exit-codes", "results")


def reference_pages() -> dict[str, str]:
    """Every page by its name."""
    lead = "Made from the code whenever the site is built."
    made = {
        "index": page("Reference", lead, contents(PAGES, hidden=False)),
        "spec-keys": _spec(),
        "commands": _commands(),
        "python": _python(),
        "exit-codes": _exit_codes(),
        "results": _results(),
    }
    return {f"reference/{name}.md": text for name, text in made.items()}


# The spec


def _spec() -> str:
    schema = Spec.model_json_schema(by_alias=True)
    lead = (
        "Every key of a spec. A component also takes `use` or `factory`; all its other keys are "
        "arguments of the class or function. `rnncheck spec schema` prints the same for editors. "
        "How a spec is written: [Writing a spec](../spec.md)."
    )
    parts = [_model("The whole", Spec, schema)]
    parts += [
        _model(name.removesuffix("Spec"), model, schema["$defs"][name])
        for name, model in sorted(_models().items())
    ]
    return page("Keys of a spec", lead, *parts)


def _models() -> dict[str, type[BaseModel]]:
    """Every model that a spec is made of, but the spec itself, by name."""
    found: dict[str, type[BaseModel]] = {}
    queue: list[type[BaseModel]] = [Spec]
    while queue:
        for field in queue.pop().model_fields.values():
            for model in _inside(field.annotation):
                if model.__name__ not in found and model is not Component:
                    found[model.__name__] = model
                    queue.append(model)
    return found


def _inside(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for one in typing.get_args(annotation):
        yield from _inside(one)


def _model(title: str, model: type[BaseModel], schema: Json) -> str:
    told = plain(" ".join((inspect.getdoc(model) or "").partition("\n\n")[0].split()))
    own = reserved(model) if issubclass(model, Component) else None
    keys = {
        key: part
        for key, part in schema["properties"].items()
        if key not in ("at", "args") and (own is None or key in own)
    }
    rows = [(code(key), *_row(key, part, schema)) for key, part in keys.items()]
    return "\n\n".join(
        [f"## {title}", told, stacked(("key", "value", "default", "meaning"), rows) if rows else ""]
    )


def _row(key: str, part: Json, schema: Json) -> tuple[str, str, str]:
    default = "required" if key in schema.get("required", ()) else code(_default(part))
    return _kind(part), default, plain(part.get("description", ""))


def _default(part: Json) -> str:
    value = part.get("default")
    return "" if value is None or isinstance(value, dict) else json.dumps(value)


def _kind(part: Json) -> str:
    """What may stand there, in the words of JSON Schema."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2].removesuffix("Spec")
        return "component" if name == "Component" else f"[{name}](#{name.lower()})"
    if "const" in part:
        return code(json.dumps(part["const"]))
    if "enum" in part:
        return ", ".join(code(json.dumps(value)) for value in part["enum"])
    if "anyOf" in part or "allOf" in part:
        kinds = [_kind(one) for one in part.get("anyOf") or part["allOf"]]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "null"))
    if part.get("type") == "array":
        return f"list of {_kind(part.get('items', {}))}"
    return " ".join(filter(None, [part.get("type", "anything"), _limits(part)]))


def _limits(part: Json) -> str:
    signs = {
        "minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"
    }  # fmt: skip
    return ", ".join(f"{sign} {part[name]}" for name, sign in signs.items() if name in part)


# The commands


def _commands() -> str:
    lead = "Every command and option, as `--help` prints them."
    return page("Commands", lead, *_group(typer.main.get_command(app), "rnncheck"))


def _group(command: Any, path: str) -> Iterator[str]:
    for name, one in command.commands.items():
        if one.hidden:
            continue
        if hasattr(one, "commands"):
            yield from _group(one, f"{path} {name}")
        else:
            yield _command(one, f"{path} {name}")


def _command(command: Any, path: str) -> str:
    choices = _choices(command.callback)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one not in arguments and not one.hidden]
    usage = " ".join([path, *(f"[{one.metavar or one.name.upper()}]" for one in arguments)])
    told = [plain(paragraph) for paragraph in inspect.cleandoc(command.help or "").split("\n\n")]
    rows = [(code(one.metavar or one.name.upper()), plain(one.help or ""), "") for one in arguments]
    rows += [(_option(one, choices), plain(one.help or ""), _shown_default(one)) for one in options]
    return "\n\n".join(
        [f"## {path}", block(f"{usage} [OPTIONS]", "text"), *told]
        + ([stacked(("argument or option", "does", "default"), rows)] if rows else [])
    )


def _option(option: Any, choices: dict[str, str]) -> str:
    names = [*option.opts, *option.secondary_opts]
    value = "" if option.is_flag else option.metavar or choices.get(option.name, "VALUE")
    return ", ".join(code(f"{name} {value}".strip()) for name in names)


def _choices(callback: Any) -> dict[str, str]:
    """The values of each parameter that is an enumeration, or the name of its type."""
    return {name: _told(hint) for name, hint in typing.get_type_hints(callback).items()}


def _told(hint: Any) -> str:
    kinds = list(_types(hint))
    choices = next((kind for kind in kinds if issubclass(kind, enum.Enum)), None)
    if choices is not None:
        return "|".join(str(member.value) for member in choices)
    named = [kind.__name__.upper() for kind in kinds if kind is not type(None)]
    return named[0] if named else "VALUE"


def _types(hint: Any) -> Iterator[type]:
    """Every class inside of an annotation."""
    inside = typing.get_args(hint)
    if not inside and isinstance(hint, type):
        yield hint
    for one in inside:
        yield from _types(one)


def _shown_default(option: Any) -> str:
    value = option.default
    if option.is_flag or value in (None, (), [], "") or not option.show_default:
        return ""
    return code(str(getattr(value, "value", value)))


# Python


def _python() -> str:
    lead = "What `import rnncheck` offers. Everything else may change between versions."
    parts: list[str] = []
    for name in vars(rnncheck)["__all__"]:
        one = getattr(rnncheck, name)
        if callable(one):
            parts += [
                f"## {name}",
                *_signature(name, one),
                block(inspect.getdoc(one) or "", "text"),
            ]
    return page("From Python", lead, *parts)


def _signature(name: str, one: Any) -> list[str]:
    if inspect.isclass(one):
        return []
    lines: list[str] = []
    signature = inspect.signature(one)
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "    *," not in lines:
            lines.append("    *,")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        lines.append(f"    {parameter.name}: {parameter.annotation}{default},")
    text = "\n".join([f"def {name}(", *lines, f") -> {signature.return_annotation}: ..."])
    return [block(text, "python")]


# Exit codes and results


def _exit_codes() -> str:
    rows = [(str(int(one)), one.name, plain(words)) for one, words in MEANINGS.items()]
    return page("Exit codes", table(("code", "name", "means"), rows))


def _results() -> str:
    schema = json.loads(RESULT_SCHEMA.read_text("utf-8"))
    lead = (
        "A stored run, `.rnncheck/runs/*.json` or `--report json=FILE`, is described by "
        "`rnncheck/results/result.schema.json` (JSON Schema 2020-12)."
    )
    parts = [_object("A run", schema)]
    parts += [_object(name, part) for name, part in schema["$defs"].items()]
    return page("Stored results", lead, *parts)


def _object(name: str, part: Json) -> str:
    told = plain(part.get("description", "").partition("\n\n")[0])
    if "enum" in part:
        values = ", ".join(code(json.dumps(value)) for value in part["enum"])
        return "\n\n".join([f"## {name}", told, f"One of {values}."])
    rows = [
        (code(key), _kind(one), "required" if key in part.get("required", ()) else "")
        for key, one in part.get("properties", {}).items()
    ]
    return "\n\n".join([f"## {name}", told, table(("field", "value", ""), rows)])
