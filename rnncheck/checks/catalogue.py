"""The catalogue of checks, read from their source files without running them.

A check is one file, ``<family>/<code>_<name>.py``. Its docstring explains it and its
``RULE = Rule(...)`` names it; both are literals, so that ``rnncheck rule`` needs neither torch nor
the check's own imports.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from rnncheck.errors import UserError, did_you_mean
from rnncheck.results.model import Severity, Stage

DOCSTRING_SECTIONS = ("Checks", "Why it matters", "Says nothing when", "Fix", "Example")
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """What a check's file says about it; ``sections`` has the keys of ``DOCSTRING_SECTIONS``, in
    their order."""

    code: str
    name: str
    severity: Severity
    stage: Stage
    summary: str
    sections: dict[str, str]
    family: str
    module: str
    file: Path
    holds: str = ""  # what is true where it passes
    dear: bool = False  # `--fast` leaves it out


@dataclass(frozen=True)
class Catalogue:
    """Checks that may be asked for, in the order of the codes within the order of the families."""

    entries: tuple[Entry, ...]

    def find(self, code_or_name: str) -> Entry:
        """The check with this code or name, in any case; a UserError names the nearest when there
        is none."""
        wanted = code_or_name.lower()
        for entry in self.entries:
            if wanted in (entry.code.lower(), entry.name):
                return entry
        known = [word for entry in self.entries for word in (entry.code, entry.name)]
        raise UserError(
            f"no check is called {code_or_name!r}",
            accepted="a code (BD301), a name (state-crosses-reset) or the beginning of a code (BD)",
            hint=did_you_mean(code_or_name, known) or "`rnncheck rule` lists them all",
        )

    def match(self, prefixes: Iterable[str]) -> tuple[Entry, ...]:
        """The checks whose code begins with one of ``prefixes`` or whose name is one of them, in
        order.

        A prefix that selects nothing is a UserError: an empty selection must not pass in silence.
        """
        chosen = {entry.code for prefix in prefixes for entry in self._starting_with(prefix)}
        return tuple(entry for entry in self.entries if entry.code in chosen)

    def _starting_with(self, prefix: str) -> list[Entry]:
        wanted = prefix.lower()
        begun = [one for one in self.entries if wanted and one.code.lower().startswith(wanted)]
        return begun or [self.find(prefix)]


@cache
def builtin() -> Catalogue:
    """The checks of rnncheck itself."""
    files = HERE.glob("*/[a-z][a-z][0-9]*_*.py")
    found = [
        _entry(
            _head(f.read_text("utf-8")), f, f"{__package__}.{f.parent.name}.{f.stem}", f.parent.name
        )
        for f in files
    ]
    return Catalogue(tuple(sorted(found, key=lambda entry: (entry.code[2:], entry.code))))


def entries() -> tuple[Entry, ...]:
    """Every check of rnncheck itself."""
    return builtin().entries


def read(file: Path, module: str, family: str) -> Entry:
    """The entry of one check's file.

    Raises LookupError where it defines no RULE that can be read without running it, SyntaxError
    where it is no Python.
    """
    return _entry(file.read_text(encoding="utf-8"), file, module, family)


def _entry(text: str, file: Path, module: str, family: str) -> Entry:
    tree = ast.parse(text, filename=str(file))
    rule = _rule_call(tree, file)
    summary, sections = parse_docstring(ast.get_docstring(tree, clean=False) or "")
    return Entry(
        code=_literal(rule, "code"),
        name=_literal(rule, "name"),
        severity=Severity[_member(rule, "severity", Severity)],
        stage=Stage[_member(rule, "stage", Stage)],
        summary=summary,
        sections=sections,
        family=family,
        module=module,
        file=file,
        holds=_literal(rule, "holds") if "holds" in rule else "",
        dear=_flag(rule, "dear"),
    )


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The first sentence and the named sections, code in single backticks.

    A section's lines keep their own indentation.
    """
    blocks = list(_blocks(inspect.cleandoc(text.replace("``", "`")).splitlines()))
    summary = " ".join(line.strip() for line in blocks[0][1] if line.strip())
    found = {title: inspect.cleandoc("\n" + "\n".join(body)) for title, body in blocks[1:]}
    return summary, {title: found.get(title, "") for title in DOCSTRING_SECTIONS}


def _blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    title, body = "", list[str]()
    for line in lines:
        if line.rstrip(" :") in DOCSTRING_SECTIONS:
            yield title, body
            title, body = line.rstrip(" :"), []
        else:
            body.append(line)
    yield title, body


def prose(text: str) -> str:
    """A section's hard-wrapped lines joined to paragraphs; indented lines and lists stay as they
    are."""
    parts = re.split(r"\n\s*\n", text)
    return "\n\n".join(part if _laid_out(part) else " ".join(part.split()) for part in parts)


def _laid_out(paragraph: str) -> bool:
    return any(re.match(r"\s|[-*] |\d+[.)] ", line) for line in paragraph.splitlines())


def _head(text: str) -> str:
    """The docstring and the RULE of a file, where they stand as a formatter writes them; else all
    of it. Parsing the rest would take most of the time of ``rnncheck rule``."""
    about, rule = re.match(r'r?""".*?"""', text, re.DOTALL), _RULE.search(text)
    return f"{about[0]}\n{rule[0]}" if about and rule else text


_RULE = re.compile(r"^RULE = Rule\($.*?^\)$", re.DOTALL | re.MULTILINE)


def _rule_call(tree: ast.Module, file: Path) -> dict[str, ast.expr]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "RULE" for target in targets):
                return {word.arg: word.value for word in node.value.keywords if word.arg}
    raise LookupError(f"{file.name} does not define RULE = Rule(code=..., name=..., ...)")


def _literal(rule: dict[str, ast.expr], field: str) -> str:
    node = rule.get(field)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise LookupError(f"RULE: {field} is written as a text")


def _flag(rule: dict[str, ast.expr], field: str) -> bool:
    node = rule.get(field, ast.Constant(False))
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return node.value
    raise LookupError(f"RULE: {field} is written as True or False")


def _member(rule: dict[str, ast.expr], field: str, kind: type[StrEnum]) -> str:
    """``ERROR`` of ``Severity.ERROR``."""
    node = rule.get(field)
    if isinstance(node, ast.Attribute) and node.attr in kind.__members__:
        return node.attr
    members = ", ".join(f"{kind.__name__}.{name}" for name in kind.__members__)
    raise LookupError(f"RULE: {field} is written as one of {members}")
