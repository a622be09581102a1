"""The spec of what was seen of a script, as the text of a file: what cannot be written is a comment
that says so."""

from __future__ import annotations

import textwrap
from pathlib import Path

from rnncheck.pipeline.guard.user_frames import sentence
from rnncheck.spec.dump import yaml_text
from rnncheck.spec.model import Spec
from rnncheck.spec.scaffold import template_head
from rnncheck.watching.assemble import critic_of
from rnncheck.watching.saving.import_paths import CannotKeep, home_of
from rnncheck.watching.saving.spec_forms import Form, Forms
from rnncheck.watching.saving.spec_sections import Section, Sections, Unsaid
from rnncheck.watching.script import Script
from rnncheck.watching.seen import Sightings

_WIDTH = 98  # columns of a comment: with its sign as wide as the YAML below it
# Without these there is no spec: they stand in it as what is to be filled in.
_NEEDED = {"env": {"factory": "TODO:make_env"}, "policy": {"factory": "TODO:make_policy"}}


def described_spec(
    script: Script, seen: Sightings, asked: Spec, folder: Path
) -> tuple[str, list[str]]:
    """The text, and what is missing from it. Raises CannotKeep where nobody acted."""
    acting = seen.actor()
    if acting is None:
        raise CannotKeep("nobody was seen to act: there is nothing to write a spec of")
    home = home_of(script.name, module=script.module)
    forms = Forms(home, seen.parts | seen.makings, seen.returned)
    sections = Sections(seen, acting, critic_of(seen, acting, seen.estimator(), seen.loss()), forms)
    parts, missing = list[str](), list[str]()
    for name in ("env", "policy", "critic", "collect", "replay", "advantage", "loss"):
        text, why = _section(name, getattr(sections, name), sections.notes)
        parts += [text] if text else []
        missing += [f"{name}: {why}"] if why else []
    head = {"schema": 1, "name": asked.name, "seed": asked.seed, "device": asked.device}
    told = _header(script, home.folder if forms.named else folder, folder)
    return "\n".join([told, yaml_text(head, flow=False), *parts]), missing


def _header(script: Script, home: Path, folder: Path) -> str:
    name = f"-m {script.name}" if script.module else Path(script.name).name
    lines = [_comment(f"What `rnncheck run {name}` saw, as a spec. `rnncheck verify` runs it.")]
    lines += [template_head()]
    if home.resolve() != folder.resolve():
        lines += [_comment(f"TODO: move this file into {home.name}/, where its factories are.")]
    return "\n".join(lines) + "\n"


def _section(name: str, write: Section, notes: dict[str, str]) -> tuple[str, str]:
    """The text of a section, and why it is missing where it is."""
    try:
        form = write()
    except Exception as error:  # whatever an object of the user's raises while it is looked at
        why = str(error) if isinstance(error, CannotKeep) else sentence(error)
        needed = _NEEDED.get(name)
        hand = "; name a function of yours that makes it" if needed else ""
        todo = _comment(f"TODO {name}: {why}{hand}.") + "\n"
        if isinstance(error, Unsaid):
            todo += "".join(f"# {line}\n" for line in _yaml(name, error.form).splitlines())
        return todo + (_yaml(name, needed) if needed else ""), why
    if form is None:
        return "", ""
    note = _comment(f"{notes[name]}.") + "\n" if name in notes else ""
    return note + _yaml(name, form), ""


def _yaml(name: str, form: Form) -> str:
    return yaml_text({name: form})


def _comment(text: str) -> str:
    return "\n".join(f"# {line}" for line in textwrap.wrap(" ".join(text.split()), _WIDTH))
