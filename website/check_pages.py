"""A page for each check: what its file says of it, its fault drawn, and its fixtures, as they
are."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from pathlib import Path

from rnncheck.checks.catalogue import Entry, entries, prose
from rnncheck.results.effects import BY_CODE
from rnncheck.results.families import BY_FOLDER
from rnncheck.results.guarantees import GUARANTEES
from website.drawing import drawings, svg
from website.markdown import block, code, contents, page, plain, stacked, table

FOLDERS = ("fixtures/broken", "fixtures/training")
NEAR_MISS = "_near_miss"


def check_pages(root: Path) -> dict[str, str]:
    """Every page by its name, the page that lists them among them."""
    known = entries()
    pages = {f"checks/{entry.code.lower()}.md": _page(entry, root) for entry in known}
    drawn = {f"checks/{code.lower()}.svg": svg(one) for code, one in drawings().items()}
    return pages | drawn | {"checks/index.md": _index(known)}


def _index(known: Iterable[Entry]) -> str:
    parts: list[str] = []
    names: list[str] = []
    for folder, group in groupby(known, key=lambda entry: entry.family):
        family, members = BY_FOLDER[folder], list(group)
        names += [entry.code.lower() for entry in members]
        rows = [
            (
                f"[{entry.code}]({entry.code.lower()}.md)",
                code(entry.name),
                plain(entry.summary),
                str(entry.severity),
            )
            for entry in members
        ]
        parts += [f"## {family.title}", f"{family.about[:1].upper()}{family.about[1:]}."]
        parts += [stacked(("code", "name", "the fault", "severity"), rows)]
    lead = "Each check is named after the fault that it finds. `rnncheck rule CODE` prints a page."
    return page("Every check", lead, *parts, contents(names))


def _page(entry: Entry, root: Path) -> str:
    family = BY_FOLDER[entry.family]
    rows = [("severity", str(entry.severity)), ("looks at", f"the {entry.stage} stage")]
    rows += [("family", family.title), ("guarantee", _guarantee(entry.code))]
    rows += [("where it passes", plain(entry.holds))] if entry.holds else []
    sections = [_section(title, body) for title, body in entry.sections.items() if body]
    return page(
        f"{entry.code} {entry.name}",
        plain(entry.summary),
        *_drawn(entry.code),
        table(("", ""), rows),
        *sections,
        _followers(entry.code),
        _shown(entry, root),
    )


def _drawn(codename: str) -> list[str]:
    drawing = drawings().get(codename)
    if drawing is None:
        return []
    return [f"![{plain(drawing.says)}]({codename.lower()}.svg)", plain(drawing.says)]


def _guarantee(codename: str) -> str:
    named = [one for one in GUARANTEES if codename in one.checks]
    return "; ".join(f"**{one.name}**: {one.sentence}" for one in named) or "none"


def _section(title: str, body: str) -> str:
    if title == "Example":
        return f"## {title}\n\n{block(body, 'python' if _is_python(body) else 'text')}"
    told = prose(body)
    return f"## {title}\n\n{plain(told[:1].upper() + told[1:])}"


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _followers(failing: str) -> str:
    """What its fault makes fail directly; what follows from that is on those pages."""
    effect, known = BY_CODE.get(failing), {entry.code: entry for entry in entries()}
    found = [known[each] for each in sorted(set(effect.then))] if effect else []
    if effect is None or not found:
        return ""
    lead = f"A report folds what follows under the cause: {plain(effect.because)}."
    links = [f"- [{one.code}]({one.code.lower()}.md) {one.name}" for one in found]
    return "\n\n".join(["## What follows from it", lead, "\n".join(links)])


def _shown(entry: Entry, root: Path) -> str:
    """Its fixture and the healthy near miss, where the repository has them."""
    name = f"{entry.code}_{entry.name}".lower().replace("-", "_")
    files = [root / folder / f"{name}.yaml" for folder in FOLDERS]
    broken = next((file for file in files if file.exists()), None)
    if broken is None:
        return ""
    here = broken.relative_to(root).as_posix()
    parts = [
        "## Broken, and healthy",
        f"This pipeline has the fault (`{here}`):",
        block(broken.read_text("utf-8"), "yaml"),
        *_source(broken, root),
        f"See it fail, in a clone: `rnncheck verify {here} --select {entry.code}`.",
        *_near_miss(broken, root),
    ]
    return "\n\n".join(parts)


def _source(spec: Path, root: Path) -> list[str]:
    """The factories beside a spec, where it has a file of its own."""
    file = spec.with_suffix(".py")
    if not file.exists():
        return []
    words = f"Its factories are in `{file.relative_to(root).as_posix()}`:"
    return [words, block(file.read_text("utf-8"), "python")]


def _near_miss(broken: Path, root: Path) -> list[str]:
    named = _named_near_misses(root).get(broken.stem)
    healthy = broken.with_stem(named or broken.stem + NEAR_MISS)
    if not healthy.exists():
        return []
    words = f"This one is healthy: every check passes (`{healthy.relative_to(root).as_posix()}`)"
    if named:
        return [f"{words}:", block(healthy.read_text("utf-8"), "yaml")]
    before, after = (file.read_text("utf-8").splitlines() for file in (broken, healthy))
    changes = difflib.unified_diff(before, after, broken.name, healthy.name, lineterm="", n=1)
    return [f"{words}. What differs:", block("\n".join(changes), "diff")]


@cache
def _named_near_misses(root: Path) -> dict[str, str]:
    """The near misses that are healthy pipelines anyway: the tests have the table of them."""
    tree = ast.parse((root / "tests" / "test_training_fixtures.py").read_text("utf-8"))
    tables = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NEAR_MISSES"
    ]
    found: dict[str, str] = ast.literal_eval(tables[0])
    return found
