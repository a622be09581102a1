"""A run in a notebook or an interpreter: shown as the report, saved, in a line."""

from __future__ import annotations

import sys
from dataclasses import fields
from importlib import import_module
from os import PathLike
from pathlib import Path

from rnncheck.errors import Place, UserError
from rnncheck.results.model import Run

# What a file's ending stands for, for ``save``.
_BY_ENDING = {
    ".html": "html",
    ".json": "json",
    ".md": "markdown",
    ".txt": "console",
    ".csv": "csv",
    ".xml": "junit",
    ".sarif": "sarif",
}


class ShownRun(Run):
    """A Run that a notebook shows as the HTML report."""

    @classmethod
    def of(cls, run: Run) -> ShownRun:
        """The same run, to be shown."""
        return cls(**{one.name: getattr(run, one.name) for one in fields(run)})

    def _repr_html_(self) -> str:
        """The report without the page around it."""
        from rnncheck.report.html import render_inside

        return render_inside(self)

    def show(self, *, verbose: bool = False) -> None:
        """Show the report: in a notebook the page, else the text of the terminal."""
        if in_notebook():
            import_module("IPython.display").display(self)
            return
        from rnncheck.report.console import show_run
        from rnncheck.report.terminal import console_for

        show_run(self, console_for(sys.stdout), verbose=verbose)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report in the format that the file's ending stands for.

        Raises a UserError for an ending that stands for none, an OutputError where the file cannot
        be written.
        """
        from rnncheck.report.formats import render
        from rnncheck.results.files import write_atomic

        wanted = Path(path)
        form = _BY_ENDING.get(wanted.suffix.lower())
        if form is None:
            accepted = f"a name that ends with {', '.join(_BY_ENDING)}"
            problem = f"{wanted.suffix or 'no ending'!r} stands for no report format"
            raise UserError(problem, place=Place(str(wanted)), accepted=accepted)
        write_atomic(wanted, render(self, form))


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    if "IPython" not in sys.modules:
        return False
    shell = getattr(sys.modules["IPython"], "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
