"""What the other side of a gate runs, of libraries and of the user's code: a comparison of a change
with itself must not pass for one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rnncheck.bench.messages import PipelineContents
from rnncheck.bench.sides import Side, inherited
from rnncheck.results.compare import environment_differences
from rnncheck.results.gate import GateItem, Part, Ruling

_NAMED = 3  # files that a sentence names; chosen: it can be read
REACH = (
    "name their folder in PYTHONPATH, or give --against an environment that has the other version"
)
CLEAR = "keep the spec in a folder where they do not lie, or compare with --against-ref"


def shared(_: Path) -> Path | None:
    """The other side has none of its own."""
    return None


@dataclass(frozen=True)
class Other:
    """The other side, and what it has of its own of the user's code.

    ``own`` gives its own copy of one of this side's files; None where there is none, so that both
    sides share the file. ``must`` says that it is to run its own. ``told`` is a sentence about
    where they are.
    """

    side: Side
    own: Callable[[Path], Path | None] = shared
    must: bool = True
    told: str = ""

    def items(
        self, mine: Side, here: PipelineContents, there: PipelineContents
    ) -> Iterator[GateItem]:
        """What there is to say of what both sides ran, ``here`` on this one, which is ``mine``."""
        name = self.side.name
        others = environment_differences(here.environment, there.environment)
        foreign = [file for file in there.files if self._is_foreign(Path(file).resolve())]
        if others:
            yield _item("libraries", Ruling.NOTED, f"here / {name}: {'; '.join(others)}")
        elif not foreign and _texts(mine, here) == _texts(self.side, there):
            yield _item("sides", Ruling.NOTED, f"{name} has the libraries and code that are here")
        if self.told:
            yield _item("code", Ruling.NOTED, self.told)
        if foreign:
            ruling, what_to_do = (Ruling.FAILED, REACH) if self.must else (Ruling.UNCLEAR, CLEAR)
            yield _item("code", ruling, f"{_foreign_said(foreign, name)}; {what_to_do}")

    def _is_foreign(self, file: Path) -> bool:
        """Whether it is this side's, and the other's own is a different one."""
        own = self.own(file)
        return own is not None and own.exists() and not same(file, own)


def _item(name: str, ruling: Ruling, reason: str) -> GateItem:
    return GateItem(Part.AGAINST, name, ruling, reason)


def _texts(side: Side, about: PipelineContents) -> set[tuple[str, bytes]]:
    """The spec and the user's files that a side ran, by name and content."""
    files = [Path(file) for file in (side.spec, *about.files)]
    return {(file.name, file.read_bytes()) for file in files if file.is_file()}


def _foreign_said(files: list[str], name: str) -> str:
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return (
        f"both sides ran {', '.join(files[:_NAMED])}{more}, of which {name} has another version: "
        "what changed there was not compared"
    )


def same(one: Path, other: Path) -> bool:
    """Whether both are there and alike."""
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False


def copies(root: Path, tree: Path) -> Callable[[Path], Path | None]:
    """Where the files below ``root`` lie in ``tree``, another version of it that may lie below
    it."""

    def own(file: Path) -> Path | None:
        if file.is_relative_to(tree) or not file.is_relative_to(root):
            return None
        return tree / file.relative_to(root)

    return own


def importable_from(tree: Path, project: Path, root: Path, path: Iterable[str]) -> tuple[str, ...]:
    """Folders that come first on the path of a side that runs ``tree``, another version of
    ``root``.

    The ``project``'s own (below ``tree``), then what ``path`` and the user's own PYTHONPATH name
    below ``root``, as it lies in ``tree``; what they name elsewhere stays.
    """
    folders = [project / "src", project, tree / "src", tree]
    folders += [tree / one.relative_to(root) for one in source_folders(root, path)]
    folders += [Path(one) for one in inherited() if not Path(one).resolve().is_relative_to(root)]
    return tuple(dict.fromkeys(str(one) for one in folders if one.is_dir()))


def source_folders(root: Path, path: Iterable[str]) -> list[Path]:
    """Folders below ``root``, in no environment that lies there, that ``path`` and the user's own
    PYTHONPATH name."""
    named = dict.fromkeys(Path(one).resolve() for one in (*inherited(), *path))
    return [one for one in named if _is_source(one, root)]


def _is_source(folder: Path, root: Path) -> bool:
    """Whether it lies below ``root`` and in no environment that does."""
    environment = Path(sys.prefix).resolve()
    if environment.is_relative_to(root) and folder.is_relative_to(environment):
        return False
    return folder.is_relative_to(root) and "site-packages" not in folder.parts
