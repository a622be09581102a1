"""All pictures of a run, each drawn or, where it cannot be, named with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from rnncheck.errors import first_line
from rnncheck.report.pictures.bounds import bounded
from rnncheck.report.pictures.canvas import Picture
from rnncheck.report.pictures.curves import curve_picture
from rnncheck.report.pictures.matrix import matrix_picture
from rnncheck.report.pictures.strip import strip_picture
from rnncheck.results.exhibits import Exhibits


@dataclass(frozen=True)
class Gallery:
    """The pictures of a run, and what could not be drawn."""

    pictures: tuple[Picture, ...] = ()
    untold: tuple[str, ...] = ()

    def of(self, code: str) -> list[Picture]:
        """Those that belong to the findings of a check."""
        return [one for one in self.pictures if code in one.explains]

    def others(self, told: set[str]) -> list[Picture]:
        """Those that belong to no check of ``told``."""
        return [one for one in self.pictures if not told & set(one.explains)]


def gallery(exhibits: Exhibits | None) -> Gallery:
    """Every picture that a run holds numbers for."""
    if exhibits is None:
        return Gallery()
    exhibits = bounded(exhibits)
    pictures, untold = list[Picture](), list(exhibits.untold)
    for draw in _drawings(exhibits):
        try:
            pictures.append(draw())
        except Exception as error:  # numbers of a stored result may be anyone's
            untold.append(f"a picture could not be drawn: {first_line(error)}")
    return Gallery(tuple(pictures), tuple(untold))


def _drawings(exhibits: Exhibits) -> Iterator[Callable[[], Picture]]:
    yield from (partial(strip_picture, one) for one in exhibits.strips)
    yield from (partial(matrix_picture, one) for one in exhibits.matrices)
    yield from (partial(curve_picture, one) for one in exhibits.curves)
