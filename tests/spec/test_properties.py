"""Whatever a file holds, loading gives a Spec or a SpecError whose place lies in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rnncheck.errors import SpecError
from rnncheck.spec.dump import to_yaml
from rnncheck.spec.load import spec_from_text
from rnncheck.spec.model import Spec

FULL = (Path(__file__).parent / "full.yaml").read_text()
SIGNS = [
    *"[]{}:,-?&*!|>'\"%@`#~\t\n\r \\",
    "\n  ",
    "- ",
    ": ",
    "<<: *a",
    "&a ",
    "*a",
    "---\n",
    "...\n",
]
WORDS = [
    "schema: 1\n",
    "name: x\n",
    "env: ",
    "policy: ",
    "critic:\n",
    "use: ",
    "factory: a:b",
    "!!int ",
]
ODD = ["\u2028", "\x85", "\ufeff", "0x1F", "1e3", ".nan", "null", "é", "🙂", "\x00", '"\\x41"']
TOKENS = st.sampled_from(SIGNS + WORDS + ODD)
SOUP = st.lists(TOKENS, max_size=30).map("".join)
NAMES = st.sampled_from(
    ["use", "factory", "modules", "weights", "transforms", "workers", "on", "steps", "storage", "x"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["GymEnv", "a.b:c", "auto", "CartPole-v1", "serial"])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
SECTIONS = st.sampled_from([name for name in Spec.model_fields if name != "schema_"] + ["extra"])
WRITABLE = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cn", "Cs"]), max_size=8
) | st.sampled_from(["word " * 40, ":0", "on", "1e3", "~"])
ARGUMENTS = st.dictionaries(
    WRITABLE.map(lambda name: f"arg_{name}"),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | WRITABLE,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WRITABLE, inner, max_size=2),
        max_leaves=6,
    ),
    max_size=3,
)


def check(text: str, *overrides: str) -> None:
    """The property itself."""
    lines = text.removeprefix("\ufeff").split("\n")
    try:
        assert isinstance(spec_from_text(text, "s.yaml", overrides), Spec)
    except SpecError as error:
        for one in getattr(error, "errors", (error,)):
            assert str(one)
            assert one.place is not None
            if one.place.path == "s.yaml":
                assert 1 <= one.place.line <= len(lines)
                assert 1 <= one.place.column <= len(lines[one.place.line - 1]) + 1


def as_yaml(data: object) -> str:
    """JSON is YAML, but for its spelling of numbers that are not finite."""
    text = json.dumps(data, ensure_ascii=False)
    return text.replace("-Infinity", "-.inf").replace("Infinity", ".inf").replace("NaN", ".nan")


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    check(text)


@given(SOUP)
def test_any_soup_of_yaml(text: str) -> None:
    check(text)


@given(st.integers(0, len(FULL)), st.integers(0, 20), SOUP)
def test_a_spec_with_a_piece_replaced(start: int, length: int, piece: str) -> None:
    check(FULL[:start] + piece + FULL[start + length :])


@given(st.dictionaries(SECTIONS, VALUES, max_size=4))
def test_a_spec_with_sections_of_any_shape(sections: dict[str, Any]) -> None:
    valid = {"schema": 1, "name": "x", "env": "E", "policy": ["M"]}
    check(as_yaml(valid | sections))


@given(st.lists(NAMES | SECTIONS | st.sampled_from(["0", "1", "-1"]), min_size=1, max_size=4), SOUP)
def test_any_override(keys: list[str], value: str) -> None:
    check(FULL, ".".join(keys) + "=" + value)


@given(st.text(max_size=20))
def test_any_text_as_an_override(text: str) -> None:
    check(FULL, text)


@given(ARGUMENTS)
def test_what_show_prints_loads_to_the_same_spec(arguments: dict[str, Any]) -> None:
    data = {"schema": 1, "name": "x", "env": {"use": "E", **arguments}, "policy": ["M"]}
    spec = spec_from_text(as_yaml(data), "s.yaml")
    again = spec_from_text(to_yaml(spec), "s.yaml")
    assert again.hash == spec.hash
    assert repr(again.env) == repr(spec.env)  # repr, since NaN equals nothing


def test_the_full_spec_is_shown_and_loads_again() -> None:
    spec = spec_from_text(FULL, "s.yaml")
    assert spec_from_text(to_yaml(spec), "s.yaml").model_dump() == spec.model_dump()
