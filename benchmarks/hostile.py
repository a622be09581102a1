"""Texts that act on a terminal, a CI, a spreadsheet or a browser, and what holds an output harmless
to the first two."""

from __future__ import annotations

import re

PIECES = (
    "\x1b[31m", "\x1b]0;title\x07", "\x9b2J", "\x07", "\x08", "\x00", "\x7f", "\r", "\n", "\u2028",
    "\u202e", "\u2066", "\u200f", "\u200b", "\ufeff", "\U000e0041",
    "::error::x", "\n::stop-commands::t", "::add-mask::a", "::", "::Warning file=a::",
    "##[error]x", "##vso[task.setvariable]x", "##", "#", "[", ":", "##teamcity[x]",
    "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "<script>alert(1)</script>", "</pre>", "]]>", "&amp;",
    "`", "```", "|", "**", "[x](javascript:y)", "![x](y)", "{{ x }}", "{% x %}", "[red]", "'", '"',
    "\\", "%0A::error::", "a b", "日本語", "👩\u200d💻", "x" * 130,
)  # fmt: skip
_RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\U000e0000-\U000e007f]"
)
_COMMAND = re.compile(
    r"^\s*::(add-mask|add-matcher|add-path|debug|echo|endgroup|error|group|notice|remove-matcher"
    r"|save-state|set-env|set-output|stop-commands|warning)\b",
    re.IGNORECASE | re.MULTILINE,
)
_HASHED = re.compile(r"##\w*\[")


def harmless(output: str, commands: bool = False) -> None:
    """No character that a terminal acts on, no line that a CI takes for a command; with
    ``commands`` the GitHub report's own are meant."""
    assert not _RAW.search(output), ascii(output)
    assert commands or not _COMMAND.search(output), ascii(output)
    assert not _HASHED.search(output), ascii(output)
