"""The packaged templates that ``rnncheck init`` writes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

SCHEMA = Path(".rnncheck") / "spec.schema.json"  # beside the spec
MODELINE = f"# yaml-language-server: $schema={SCHEMA.as_posix()}"  # its first line, for editors


class Template(StrEnum):
    """The pipelines that there is a template for."""

    DQN = "dqn"
    PPO = "ppo"
    CUSTOM = "custom"


BESIDE = {Template.CUSTOM: ("custom_pipeline.py",)}  # the Python files that a template's spec names
AS_DATA = ".txt"  # ... packaged as text, since they are the user's code and none of ours


def template_files(template: Template, spec_name: str) -> dict[str, str]:
    """File names and texts of a template; the spec comes first and is called ``spec_name``."""
    from importlib.resources import files

    beside = {name: name + AS_DATA for name in BESIDE.get(template, ())}
    named = {spec_name: f"{template}.yaml"} | beside
    folder = files("rnncheck.spec") / "templates"
    return {name: (folder / source).read_text("utf-8") for name, source in named.items()}


def template_head() -> str:
    """What every template says of its form, behind its first sentence."""
    text = template_files(Template.DQN, "")[""]
    return text[text.index("#\n") : text.index("\n\n")]
