"""``rnncheck doctor``: the command, and the comparison of versions that it rests on."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from rnncheck.pipeline.doctor import (
    Package,
    complaints,
    pins,
    required_packages,
)
from rnncheck.results.variant import BACKENDS

ROOT = Path(__file__).parent.parent.parent


@cache
def declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in project["dependencies"]]


def test_json_says_what_was_tried(rnncheck: Any) -> None:
    done = rnncheck("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["devices"][0]["name"] == "cpu"
    tried = {one["name"]: one for one in found["backends"]}
    assert {f"{name} on cpu" for name in BACKENDS} <= set(tried)
    assert tried["pad on cpu"]["works"]
    assert not tried["triton on cpu"]["works"]
    assert (
        "triton" in tried["triton on cpu"]["detail"] or "cuda" in tried["triton on cpu"]["detail"]
    )
    assert found["environments"][0] == {
        "name": "CartPole-v1",
        "works": True,
        "detail": "made and stepped",
    }


def test_text_has_every_section_and_version(rnncheck: Any) -> None:
    done = rnncheck("doctor")
    assert done.returncode == 0, done.stderr
    titles = ("Optional", "Devices", "Environments", "Collector", "Recurrent backends")
    for title in (*titles, "Combinations on cpu", "Precision of recurrent products"):
        assert title in done.stdout.splitlines()
    assert "ieee, through torch.get_float32_matmul_precision" in done.stdout


def test_the_pins_cover_every_dependency_within_its_range() -> None:
    tested = pins()
    for one in declared():
        pinned = tested[one.name.lower().replace("_", "-").replace(".", "-")]
        assert one.specifier.contains(pinned), one


def test_torch_is_pinned_first() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert next(line for line in lines if not line.startswith("#")).startswith("torch==")
    assert not [line for line in lines if "+" in line or "://" in line or " @ " in line]


def test_what_is_installed_is_compared() -> None:
    (torch,) = required_packages([Requirement("torch>=2.7")], {"torch": "2.13.0"})
    assert torch == Package("torch", version("torch"), ">=2.7", "2.13.0")


@pytest.mark.parametrize(
    ("package", "said"),
    [
        (Package("torchrl", "0.15.1", "<0.15,>=0.12", "0.14.1"), "torchrl 0.15.1: supported is"),
        (Package("torchrl", "", "<0.15,>=0.12", "0.14.1"), "torchrl is missing: supported is"),
        (Package("torchrl", "0.13.0", "<0.15,>=0.12", "0.14.1"), "not the tested version: torchrl"),
    ],
)
def test_what_differs_is_said(package: Package, said: str) -> None:
    (line,) = complaints((package,))
    assert line.startswith(said)


@pytest.mark.parametrize("installed", ["2.13.0", "2.13.0+cpu", "2.13.0+cu130"])
def test_a_build_tag_is_no_difference(installed: str) -> None:
    assert complaints((Package("torch", installed, ">=2.7", "2.13.0"),)) == []


def test_combinations_and_precision_are_said_with_their_reasons(
    rnncheck: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHRL_RNN_PRECISION", "tf32x3")
    found = json.loads(rnncheck("doctor", "--json").stdout)
    on_cpu = {(c["option"], c["backend"]): c for c in found["combinations"] if c["device"] == "cpu"}
    assert {backend for _, backend in on_cpu} == set(BACKENDS)
    assert {c["ability"] for c in on_cpu.values()} <= {"runs", "interpreted", "cannot"}
    assert on_cpu["LSTM", "pad"]["ability"] == "runs"
    assert all(c["reason"] for c in on_cpu.values() if c["ability"] == "cannot")
    assert "dropout" in on_cpu["two layers, dropout", "scan"]["reason"]
    assert "no effect" in on_cpu["precision tf32", "pad"]["reason"]
    assert found["precision"]["auto"] == "tf32x3"
    assert found["precision"]["source"] == "environment variable TORCHRL_RNN_PRECISION"


def test_a_wrong_precision_in_the_environment_is_bad_input(
    rnncheck: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHRL_RNN_PRECISION", "tf64")
    done = rnncheck("doctor")
    assert done.returncode == 2
    assert "TORCHRL_RNN_PRECISION" in done.stderr and "tf32x3" in done.stderr
    assert "Traceback" not in done.stderr
