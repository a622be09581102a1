"""A stored result as text to plain data that may be looked at: bounded, and JSON to the letter.

A result may come from anyone. What is read here is of a size that no report chokes on, nested no
deeper than a result is, and holds neither NaN nor numbers beyond 64 bits, which no JSON has.
"""

from __future__ import annotations

import json
import re
import reprlib
from pathlib import Path
from typing import Any, NoReturn

from rnncheck.errors import Place, UserError

# Chosen: each is many times what the largest sweep stores (a few MiB, some 100,000 values, 7
# levels), and still read within seconds.
MAX_SIZE = 64 * 2**20  # bytes
MAX_COUNT = 2_000_000  # values
MAX_LEVELS = 32
_MAX_BITS = 64
ACCEPTED = "a result that `rnncheck verify` stored, or its `--report json=PATH`"
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair: no text that can be written has one
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
_SHORT.maxlevel = 2


class _NoJson(ValueError):
    """Python's reader takes it, and it is no JSON."""


def read_json(path: Path) -> Any:
    """What the file at ``path`` holds. Raises UserError, one sentence, for whatever is wrong."""
    return strict_json(bounded_text(path), Place(str(path)))


def strict_json(text: str, place: Place, accepted: str = ACCEPTED) -> Any:
    """What ``text`` from ``place`` holds. Raises UserError as ``read_json``."""
    try:
        data = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        line = (place.line or 1) - 1 + error.lineno
        at = Place(place.path, line, error.colno)
        raise UserError(f"this is not JSON: {error.msg}", place=at, accepted=accepted) from error
    except _NoJson as error:
        raise UserError(f"this is not JSON: {error}", place=place, accepted=accepted) from error
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, 10^5 brackets
        raise UserError("this JSON cannot be read", place=place, accepted=accepted) from error
    if said := _excess(data):
        raise UserError(said, place=place, accepted=accepted)
    return data


def _refuse(word: str) -> NoReturn:
    raise _NoJson(f"it has no {word}")


def bounded_text(path: Path, accepted: str = ACCEPTED) -> str:
    """The text of the file at ``path``, of bounded size. Raises UserError as ``read_json``."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SIZE + 1)
        if len(raw) <= MAX_SIZE:
            return raw.decode("utf-8")
        problem = f"this is larger than {MAX_SIZE // 2**20} MiB"
    except FileNotFoundError:
        problem = "there is no such file"
    except IsADirectoryError:
        problem = "this is a folder, not a stored result"
    except UnicodeDecodeError:
        problem = "this is not a text file"
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise UserError(problem, place=Place(str(path)), accepted=accepted)


def _excess(data: Any) -> str:
    """What is too much of ``data``, or nothing; walked without recursion."""
    level, count, depth = [data], 0, 0
    while level:
        count, depth = count + len(level), depth + 1
        if depth > MAX_LEVELS:
            return f"this is nested more than {MAX_LEVELS} levels deep"
        if count > MAX_COUNT:
            return f"this holds more than {MAX_COUNT} values"
        for item in level:
            if said := _odd(item):
                return said
        level = [one for item in level if isinstance(item, dict | list) for one in _below(item)]
    return ""


def _odd(item: Any) -> str:
    if isinstance(item, int) and item.bit_length() > _MAX_BITS:
        return f"a number in this is longer than {_MAX_BITS} bits"
    if isinstance(item, float) and item in (float("inf"), float("-inf")):
        return "a number in this is larger than any that a result holds"
    if (
        isinstance(item, str)
        and not item.isascii()
        and any("\ud800" <= c <= "\udfff" for c in item)
    ):
        return "a text in this holds half of a surrogate pair"
    return ""


def _below(item: dict[str, Any] | list[Any]) -> list[Any]:
    return [*item.keys(), *item.values()] if isinstance(item, dict) else item


def difference(read: Any, written: Any, at: str = "") -> str:
    """Where ``written`` again says other than what was ``read``, with what stood there; nothing
    where all of it is the same. Keys that one of both lacks do not count."""
    if isinstance(read, dict) and isinstance(written, dict):
        pairs = [(f"{at}.{key}", read[key], written[key]) for key in written if key in read]
    elif isinstance(read, list) and isinstance(written, list):
        pairs = [(f"{at}[{i}]", *both) for i, both in enumerate(zip(read, written, strict=False))]
    else:
        same = isinstance(read, bool) == isinstance(written, bool) and read == written
        return "" if same else f"{at.lstrip('.')}: {short(written)} is meant, found {short(read)}"
    return next((said for one in pairs if (said := difference(one[1], one[2], one[0]))), "")


def short(value: object) -> str:
    """A value in a few characters, whatever its size."""
    return _SHORT.repr(value)
