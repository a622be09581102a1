"""The JSON Schema says of a spec what the loader says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rnncheck.spec.load import spec_from_text
from rnncheck.spec.read import parse
from rnncheck.spec.scaffold import Template, template_files
from rnncheck.spec.schema import json_schema

FULL = (Path(__file__).parent / "full.yaml").read_text()
VALIDATOR = Draft202012Validator(json_schema())


def accepts(text: str) -> bool:
    document, _ = parse(text, "s.yaml")
    return bool(VALIDATOR.is_valid(document.data))


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(json_schema())


def test_descriptions_are_markdown() -> None:
    text = str(json_schema())
    assert "``" not in text
    assert "`" in text


@pytest.mark.parametrize("template", Template)
def test_the_templates_are_valid(template: Template) -> None:
    text = next(iter(template_files(template, "s.yaml").values()))
    spec_from_text(text, "s.yaml")
    assert accepts(text)


@pytest.mark.parametrize("template", Template)
def test_what_a_template_shows_commented_out_is_valid_too(template: Template) -> None:
    text = next(iter(template_files(template, "s.yaml").values()))
    lines = text.splitlines()
    shown = [uncomment(line) for line in lines[lines.index("schema: 1") :]]
    assert accepts("\n".join(shown))
    spec_from_text("\n".join(shown), "s.yaml")


def uncomment(line: str) -> str:
    """``# loss: {...}`` is a setting to be tried, ``# The modules run ...`` a sentence."""
    body = line.lstrip()
    indent = line[: len(line) - len(body)]
    setting = body.startswith("# ") and ": " in body + " " and not body[2:3].isupper()
    return indent + body[2:] if setting else line


def test_all_of_the_spec_is_valid() -> None:
    assert accepts(FULL)


@pytest.mark.parametrize(
    "line",
    ["critic: null", "replay: {sampler: X}", "env: Mine", "verify:", 'loss: {function: "a:b"}'],
)
def test_short_forms_are_valid(base: str, line: str) -> None:
    lines = base.splitlines()
    text = "\n".join([*lines[:2], line, *lines[3:]] if "env" in line else [*lines, line])
    assert accepts(text)
    spec_from_text(text, "s.yaml")


def test_every_component_has_its_three_forms() -> None:
    schema: dict[str, Any] = json_schema()
    for name in ("EnvSpec", "ReplaySpec", "AdvantageSpec", "LossSpec", "Component"):
        forms = schema["$defs"][name]["anyOf"]
        assert forms[0]["type"] == "string"
        assert all({"use", "factory"} <= set(form["properties"]) for form in forms[1:])
    assert "args" not in str(schema["$defs"]["EnvSpec"]["anyOf"][1]["properties"].keys())
