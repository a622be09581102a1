"""Rich consoles that are safe for any stream and any string."""

from __future__ import annotations

from io import StringIO
from typing import TextIO

from rich.console import Console

NARROWEST = 40  # columns; below this nothing can be laid out


def console_for(stream: TextIO) -> Console:
    """A console on ``stream``: markup off, and what the stream cannot encode becomes ``?``."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    console = Console(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if console.width < NARROWEST:
        console.width = NARROWEST
    return console


def text_console(width: int) -> Console:
    """A console that only makes text, for files."""
    return Console(
        file=StringIO(),
        width=max(width, NARROWEST),
        markup=False,
        highlight=False,
        emoji=False,
        no_color=True,
        color_system=None,
        force_terminal=False,
        legacy_windows=False,
    )


def is_ascii(console: Console) -> bool:
    """Whether the stream can take nothing but ASCII."""
    return not console.encoding.lower().startswith("utf")
