"""The sources of the site: the documents of the repository, and the pages that are generated.

The documents are written to be read on GitHub too, so that their links name files of the
repository. A staged copy has them led to the pages of the site; what the site has no page of, such
as a folder of fixtures, is named without a link.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from os.path import relpath
from pathlib import Path

from website.check_pages import check_pages
from website.reference_pages import reference_pages

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
# What lies at the root of the repository, and the page that it becomes.
PROJECT = {
    "README.md": "project/readme.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
}
DRAWINGS = {".svg", ".png"}

_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def stage(folder: Path) -> None:
    """Write every source into ``folder``, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = documents()
    for source, page in pages.items():
        text = source.read_text(encoding="utf-8")
        write(folder / page, with_links_of_the_site(text, source, pages))
    for drawing in (file for file in DOCS.rglob("*") if file.suffix in DRAWINGS):
        goal = folder / drawing.relative_to(DOCS)
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(drawing, goal)
    for name, text in (check_pages(ROOT) | reference_pages()).items():
        write(folder / name, text)


def write(file: Path, text: str) -> None:
    """The file, with its folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def documents() -> dict[Path, str]:
    """Every document of the repository that is a page, and where the site has it."""
    found = {file: str(file.relative_to(DOCS)) for file in sorted(DOCS.rglob("*.md"))}
    at_root = {ROOT / name: page for name, page in PROJECT.items() if (ROOT / name).exists()}
    return found | at_root


def with_links_of_the_site(text: str, source: Path, pages: Mapping[Path, str]) -> str:
    """The text with every relative link outside of blocks led to its page."""
    return "".join(
        part if is_code else _LINK.sub(lambda found: _led(found, source, pages), part)
        for part, is_code in _parts(text)
    )


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and whether each is a block of code."""
    end = 0
    for found in _BLOCK.finditer(text):
        yield text[end : found.start()], False
        yield found.group(), True
        end = found.end()
    yield text[end:], False


def _led(found: re.Match[str], source: Path, pages: Mapping[Path, str]) -> str:
    picture, words, target = found.groups()
    path, _, anchor = target.partition("#")
    here, file = Path(pages[source]).parent, (source.parent / path).resolve()
    if picture and file.is_relative_to(DOCS):
        return f"![{words}]({relpath(file.relative_to(DOCS), here)})"
    if picture or not path or re.match(r"[a-z]+:", target):
        return found.group()
    goal = pages.get(file)
    if goal is None:
        return words
    return f"[{words}]({relpath(goal, here)}{'#' if anchor else ''}{anchor})"
