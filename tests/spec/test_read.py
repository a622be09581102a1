"""YAML that is broken, hostile or unusual."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rnncheck.errors import Place, SpecError
from rnncheck.spec.read import MAX_DEPTH, parse

BROKEN = [
    ("a: 1\na: 2", 2, 1, "the key 'a' is given twice, first on line 1"),
    ("a: {b: 1, c: 2, b: 3}", 1, 17, "the key 'a.b' is given twice"),
    ("\ta: 1", 1, 1, "a tab stands where YAML wants spaces"),
    ("a:\n\t- 1", 2, 1, "a tab stands where YAML wants spaces"),
    ("a: [1", 1, 5, "not valid YAML"),
    ("a: 'x", 1, 5, "a quote is opened and never closed"),
    ("a:\n  b: 1\n c: 2", 3, 2, "the indentation does not fit"),
    ("a: b: c", 1, 5, "a ':' stands where no key may"),
    ("a: *x", 1, 4, "the alias names an anchor that is not defined"),
    ("a: &a [*a]", 1, 4, "an alias refers to the value that it is part of"),
    ("a: &a\n  <<: *a", 1, 4, "an alias refers to the value that it is part of"),
    ("<<: 3", 1, 5, "`<<` merges mappings only"),
    ("a: 1\n---\nb: 2", 2, 1, "more than one YAML document"),
    ("a: 1\n---\n", 2, 1, "more than one YAML document"),
    ("a: !!python/object:os.system ls", 1, 4, "the tag !!python/object:os.system is not allowed"),
    ("a: !!python/object/apply:os.system [ls]", 1, 4, "is not allowed"),
    ("a: !mine {x: 1}", 1, 4, "the tag !mine is not allowed"),
    ("a: !!set {x}", 1, 4, "the tag !!set is not allowed"),
    ("a: !!binary aGk=", 1, 4, "the tag !!binary is not allowed"),
    ("a: !!int x", 1, 4, '"x" is no valid int'),
    ("a: 0x" + "f" * 17, 1, 4, "longer than 64 bits"),
    ("1: 2", 1, 1, "a key must be text, not 1"),
    ("null: 2", 1, 1, "a key must be text, not null"),
    ("? [1]\n: 2", 1, 3, "a key must be text, not a list or mapping"),
    ('a: "\\ud800"', 1, 4, "half of a surrogate pair"),
    ("a: \x01", 1, 4, "character U+0001 is not allowed"),
    ("[" * 500, 1, MAX_DEPTH + 1, f"nested more than {MAX_DEPTH} levels deep"),
    ('a: "\\UFFFFFFFF"', 1, 1, "not valid YAML"),
    ("a: @x", 1, 4, "not valid YAML"),
]


@pytest.mark.parametrize(("text", "line", "column", "said"), BROKEN)
def test_it_is_refused_with_its_place(
    refuse: Any, text: str, line: int, column: int, said: str
) -> None:
    (error,) = [error for error in refuse(text) if said in error.message]
    assert error.place == Place("spec.yaml", line, column)


def bomb(entry: str) -> str:
    """Nine levels, each naming the one before ten times."""
    names = "abcdefghij"
    lines = [f"a: &a {entry}"]
    for before, name in itertools.pairwise(names):
        lines.append(entry_of(name, ", ".join([f"*{before}"] * 10), merge="{" in entry))
    return "\n".join(lines)


def entry_of(name: str, aliases: str, merge: bool) -> str:
    return f"{name}: &{name} {{<<: [{aliases}]}}" if merge else f"{name}: &{name} [{aliases}]"


@pytest.mark.parametrize("entry", ["[x, x]", "{x: 1}"])
def test_alias_bombs_are_refused(refuse: Any, entry: str) -> None:
    (error,) = refuse(bomb(entry))
    assert "values once its aliases are unfolded" in error.message


def test_ordinary_reuse_is_no_bomb() -> None:
    uses = "".join(f"k{index}: *a\n" for index in range(200))
    document, problems = parse(f"a: &a {{x: [1, 2]}}\n{uses}", "s.yaml")
    problems.raise_any()
    assert document.data["k199"] == {"x": [1, 2]}


def test_duplicates_are_all_reported(refuse: Any, base: str) -> None:
    errors = refuse(base + "name: x\nenv: {use: A, use: B}\nseed: 1\nseed: 2\n")
    assert [error.place.line for error in errors] == [5, 6, 6, 8]


def test_a_duplicate_in_a_merged_mapping_is_reported_once(refuse: Any) -> None:
    errors = refuse("a: &a {x: 1, x: 2}\nb: {<<: *a}\nc: {<<: *a}\n")
    assert ["'a.x' is given twice" in error.message for error in errors].count(True) == 1


def test_a_merge_does_not_override(base: str) -> None:
    document, _ = parse("a: &a {x: 1, y: 1}\nb:\n  x: 2\n  <<: *a\n", "s.yaml")
    assert document.data["b"] == {"x": 2, "y": 1}


@pytest.mark.parametrize("text", ["", "# only a comment", "---\n", "\n\n"])
def test_nothing_is_read_as_nothing(text: str) -> None:
    document, problems = parse(text, "s.yaml")
    problems.raise_any()
    assert document.data is None


def test_an_older_yaml_version_cannot_change_the_meaning_of_keys() -> None:
    _, problems = parse("%YAML 1.1\n---\non: 1\n", "s.yaml")
    with pytest.raises(SpecError, match="a key must be text, not true"):
        problems.raise_any()
