"""A spec that somebody sent: what is echoed of it does nothing, and is not long."""

from __future__ import annotations

import json
import random
from pathlib import Path

import mutants
import pytest
from hostile import harmless
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from rnncheck.errors import SpecError
from rnncheck.spec.dump import spec_to_json, to_yaml
from rnncheck.spec.load import spec_from_text

FULL = YAML(typ="safe", pure=True).load((Path(__file__).parent / "full.yaml").read_text())
VALID = '{"schema": 1, "name": "x", "env": "E", "policy": ["M"]%s}'
LONGEST = 20_000  # characters of an answer: some 250 lines


def said(text: str, *overrides: str) -> str:
    with pytest.raises(SpecError) as caught:
        spec_from_text(text, "s.yaml", overrides)
    told = str(caught.value)
    harmless(told)
    assert len(told) < LONGEST
    return told


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_whatever_is_echoed_is_harmless(seed: int) -> None:
    draw = random.Random(seed)
    text = json.dumps(mutants.mutated(FULL, draw), default=str)
    try:
        spec = spec_from_text(text, "s.yaml", [f"{mutants.text(draw)}=1"] if seed % 3 == 0 else [])
    except SpecError as error:
        harmless(str(error))
        assert len(str(error)) < LONGEST
        return
    for shown in (to_yaml(spec), spec_to_json(spec)):
        harmless(shown)
        assert spec_from_text(shown, "s.yaml").hash == spec.hash


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_texts_that_are_shown_load_again(seed: int) -> None:
    text = mutants.text(random.Random(seed))
    name = "x" + "".join(char for char in text if char <= "\uffff")[:100]
    env = {"use": "E", "a": name, f"{name}k": [name]}
    data = {"schema": 1, "name": name, "env": env, "policy": ["M"]}
    spec = spec_from_text(json.dumps(data), "s.yaml")
    harmless(to_yaml(spec))
    assert spec_from_text(to_yaml(spec), "s.yaml").hash == spec.hash


def test_thousands_of_unknown_keys_are_twenty_and_a_count() -> None:
    told = said(VALID % "".join(f', "k{i}": 1' for i in range(5_000)))
    assert told.count("unknown key") == 20
    assert "and 4980 more like these, further down" in told


def test_long_names_and_lists_are_cut() -> None:
    said(VALID % f', "{"k" * 1000}": 1, "collect": {{"use": "{"U" * 500_000}"}}')
    said(VALID % "", f"{'k' * 100_000}.y=1")
    said(VALID % "".join(f', "k{i}": 1' for i in range(1_000)), "x.y=1")
