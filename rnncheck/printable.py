"""Text that does nothing but be read: whatever it holds, it moves no cursor, changes no colour,
turns no line around, breaks no file format and gives a CI no command.

What a run tells comes from elsewhere: messages of the user's code, names in a spec, a stored result
that somebody sent. All of it passes here before it is printed.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

LONGEST = 4_000  # characters of one text that are shown: chosen, two screens
_ROOM = 40  # characters for saying how many are left out
MOST_LINES = 200  # of one text of several lines: chosen, far above any traceback's own frames

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)", re.DOTALL)
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, formats, surrogates, ...
_SPACES = "\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_EMOJI_STYLE = "\ufe0f"  # its width differs from terminal to terminal
# These change the order in which a line is read, so that it is shown where they stood.
_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# What runners take for a command: GitHub `::name` at the start of a line, wherever a line is
# wrapped, and `##[` anywhere; Azure `##vso[` and TeamCity `##teamcity[`.
_COMMANDS = (
    "add-mask|add-matcher|add-path|debug|echo|endgroup|error|group|internal-set-repo-path|notice|"
    "remove-matcher|save-state|set-env|set-output|stop-commands|warning"
)
_COLONS = re.compile(rf"::(?=(?:{_COMMANDS})\b)", re.IGNORECASE)
_HASHES = re.compile(r"##(?=\w*\[)")
# What JSON may hold as it is and a terminal acts on or hides.
_HIDDEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """``text`` on one line of at most ``LONGEST`` characters, harmless; what turns the direction of
    reading is shown by its number."""
    plain = text.strip()
    if not (plain.isascii() and plain.isprintable()):
        visible = _ESCAPES.sub("", text).replace(_EMOJI_STYLE, "")
        plain = "".join(map(_shown, visible)).strip()
    return _bounded(_uncommanding(plain))


def _shown(char: str) -> str:
    if char in _SPACES:
        return " "
    if char in _DIRECTIONS:
        return f"<U+{ord(char):04X}>"
    return "" if unicodedata.category(char) in _UNSAFE else char


def _bounded(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    kept = LONGEST - _ROOM
    return f"{text[:kept]} ... ({len(text) - kept} more characters)"


def _uncommanding(text: str) -> str:
    """Commands of a CI taken apart."""
    return _HASHES.sub("# #", _COLONS.sub(": :", text))


def clean_lines(text: str) -> str:
    """``clean`` for each line of ``text``, the first ``MOST_LINES``; indentation stays."""
    lines = text.splitlines()
    more = len(lines) - MOST_LINES
    told = [f"... ({more} more lines)"] if more > 0 else []
    return "\n".join([*map(clean_code, lines[:MOST_LINES]), *told])


def clean_code(line: str) -> str:
    """``clean`` for a line of code: its indentation stays, as spaces."""
    spaced = line.expandtabs(4)
    return " " * min(len(spaced) - len(spaced.lstrip(" ")), LONGEST) + clean(spaced)


def json_text(value: Any, indent: int | None = None, *, nan: bool = False) -> str:
    """``value`` as JSON that is harmless on a terminal and in the log of a CI, and reads back as it
    is. NaN and the infinities are refused, but for ``nan``."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=nan)
    return _HIDDEN.sub(_escaped, text.replace("##", "#\\u0023"))


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


_ONE = {"are": "is", "were": "was", "have": "has", "do": "does", "go": "goes"}


def counted(count: int, noun: str, does: str = "") -> str:
    """``1 slice runs on``, ``2 slices run on``: ``does`` begins with the verb of many. Of a noun
    like ``join of two rows`` the first word is counted."""
    verb, space, more = does.partition(" ")
    things = noun if count == 1 else _plural(noun)
    if count == 1:
        does = f"{_ONE.get(verb, verb + 's')}{space}{more}"
    return f"{count} {things}" + (f" {does}" if verb else "")


def _plural(noun: str) -> str:
    head = re.split(" (?:of|after|inside) ", noun)[0]
    rest = noun.removeprefix(head)
    if head.endswith(("s", "x", "ch", "sh")):
        return f"{head}es{rest}"
    many = head[:-1] + "ies" if re.search("[^aeiou]y$", head) else head + "s"
    return many + rest
