"""``rnncheck init``, through the CLI."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner, Result

from rnncheck.cli.app import app
from rnncheck.spec.load import load_spec
from rnncheck.spec.read import parse
from rnncheck.spec.scaffold import Template
from tests.extent import rows


def run(*args: str) -> Result:
    return CliRunner().invoke(app, list(args), env={"COLUMNS": "120", "NO_COLOR": "1"})


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_a_spec_and_names_the_next_command() -> None:
    done = run("init")
    told = "wrote rnncheck.yaml\nwrote .rnncheck/spec.schema.json\nnext: rnncheck verify\n"
    assert (done.exit_code, done.stdout) == (0, told)
    assert load_spec("rnncheck.yaml").name == "cartpole-drqn"


@pytest.mark.parametrize("template", Template)
def test_the_first_line_leads_an_editor_to_the_schema(here: Path, template: str) -> None:
    run("init", "--template", template)
    first, *rest = Path("rnncheck.yaml").read_text().splitlines()
    named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert named
    schema = json.loads((here / named[1]).read_text())
    data = parse("\n".join(rest), "rnncheck.yaml")[0].data
    assert Draft202012Validator(schema).is_valid(data)
    assert "BD301" in str(schema)


@pytest.mark.parametrize("template", Template)
def test_every_template_is_a_valid_spec(template: str) -> None:
    done = run("init", "--template", template, "my spec.yaml")
    assert done.exit_code == 0
    assert done.stdout.endswith("next: rnncheck verify 'my spec.yaml'\n")
    assert run("spec", "validate", "my spec.yaml").exit_code == 0


@pytest.mark.parametrize("template", Template)
def test_what_is_commented_out_is_valid_too(template: str) -> None:
    run("init", "--template", template)
    text = Path("rnncheck.yaml").read_text()
    whole = re.sub(r"^# \w+:(?: .*)?\n(?:#.*\n)*", without_hashes, text, flags=re.MULTILINE)
    Path("rnncheck.yaml").write_text(whole)
    with Path("custom_pipeline.py").open("a") as source:  # what it leaves to the reader to write
        for name in set(re.findall(r"custom_pipeline:(\w+)", whole)) - {"make_env", "make_policy"}:
            source.write(f"def {name}(): ...\n")
    done = run("spec", "validate")
    assert done.exit_code == 0, done.stderr
    spec = load_spec("rnncheck.yaml")
    assert {"verify", "bench", "gate", "loss", "replay"} <= spec.model_fields_set
    assert len(spec.gate.budgets) == 2


def without_hashes(block: re.Match[str]) -> str:
    return re.sub(r"^# ?", "", block.group(), flags=re.MULTILINE)


def test_the_custom_template_brings_its_factories() -> None:
    assert "wrote custom_pipeline.py" in run("init", "-t", "custom").stdout
    spec = load_spec("rnncheck.yaml")
    code = Path("custom_pipeline.py").read_text()
    compile(code, "custom_pipeline.py", "exec")
    for factory in (spec.env.factory, spec.policy.factory and spec.policy.factory.factory):
        module, _, function = str(factory).partition(":")
        assert module == "custom_pipeline"
        assert f"def {function}(" in code


def test_a_folder_gets_the_default_name(here: Path) -> None:
    (here / "sub").mkdir()
    assert run("init", "sub").stdout.startswith(f"wrote {Path('sub') / 'rnncheck.yaml'}\n")


def test_nothing_is_overwritten_without_force() -> None:
    Path("rnncheck.yaml").write_text("mine\n")
    refused = run("init")
    assert (refused.exit_code, Path("rnncheck.yaml").read_text()) == (2, "mine\n")
    assert refused.stderr == (
        "error: rnncheck.yaml: exists already\n  name another file, or overwrite it with --force\n"
    )
    assert run("init", "--force").exit_code == 0
    assert Path("rnncheck.yaml").read_text() != "mine\n"


def test_a_refusal_leaves_nothing_half_done() -> None:
    Path("custom_pipeline.py").write_text("mine\n")
    assert run("init", "-t", "custom").exit_code == 2
    assert not Path("rnncheck.yaml").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere/spec.yaml"], "does not exist"),
        (["--template", "dnq"], "dqn"),
        (["file/rnncheck.yaml"], "does not exist"),
    ],
)
def test_what_cannot_be_written_is_a_usage_error(args: list[str], said: str) -> None:
    Path("file").write_text("")
    done = run("init", *args)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("template", rows(Template, {Template.PPO, Template.CUSTOM}))
def test_every_template_verifies(template: str, here: Path, rnncheck: Any) -> None:
    rnncheck("init", "--template", template, cwd=here)
    done = rnncheck("verify", cwd=here)
    assert done.returncode == 0, done.stdout + done.stderr
