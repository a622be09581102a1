"""The JSON Schema says of a spec what the loader says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rnncheck.cli.spec import schema_for_editors
from rnncheck.spec.load import spec_from_text
from rnncheck.spec.read import parse
from rnncheck.spec.scaffold import Template, template_files
from rnncheck.spec.schema import json_schema

FULL = (Path(__file__).parent / "full.yaml").read_text()
ROOT = Path(__file__).parent.parent.parent
HEALTHY = sorted((ROOT / "fixtures" / "specs").glob("*.yaml"))
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


@pytest.fixture(scope="module")
def knowing() -> Draft202012Validator:
    """The schema that knows the checks and the installed TorchRL."""
    return Draft202012Validator(schema_for_editors(torchrl=True))


def data(text: str) -> Any:
    return parse(text, "s.yaml")[0].data


def test_the_schema_of_the_installed_torchrl_is_one(knowing: Draft202012Validator) -> None:
    Draft202012Validator.check_schema(knowing.schema)


@pytest.mark.parametrize("file", HEALTHY, ids=lambda file: file.stem)
def test_it_takes_every_healthy_spec(knowing: Draft202012Validator, file: Path) -> None:
    text = file.read_text()
    errors = [f"{list(one.path)}: {one.message[:200]}" for one in knowing.iter_errors(data(text))]
    assert errors == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("use: GymEnv", "use: GymEnvironment"),
        ("InitTracker", "InitTracer"),
        ("use: LSTMModule", "use: LSTMModul"),
        ("hidden_size:", "hiden_size:"),
        ("use: Collector", "use: MultiCollectors"),
    ],
)
def test_it_refuses_what_torchrl_lacks(
    knowing: Draft202012Validator, before: str, after: str
) -> None:
    text = template_files(Template.DQN, "s.yaml")["s.yaml"]
    assert knowing.is_valid(data(text))
    assert before in text
    assert not knowing.is_valid(data(text.replace(before, after)))


def test_it_tells_what_a_class_and_a_check_are(knowing: Draft202012Validator) -> None:
    told = str(knowing.schema)
    assert "'const': 'LSTMModule', 'description': '" in told
    assert "'const': 'BD301', 'description': 'state-crosses-reset" in told
    assert "hidden_size" in told


def test_codes_of_ones_own_and_beginnings_stay_valid(knowing: Draft202012Validator) -> None:
    text = template_files(Template.DQN, "s.yaml")["s.yaml"]
    assert knowing.is_valid(data(text) | {"verify": {"select": ["BD", "MY001", "BD301"]}})
