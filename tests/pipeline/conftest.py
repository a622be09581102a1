"""Specs written into a folder of their own, beside the user's module, and built there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rnncheck.pipeline.assembly.builder import Builder
from rnncheck.pipeline.model import Pipeline
from rnncheck.spec.load import load_spec

Build = Callable[..., Pipeline]
HERE = Path(__file__).parent

OWN = """
schema: 1
name: own
env: {factory: "own:make_env"}
policy: {factory: "own:make_policy"}
collect: {use: Collector, frames_per_batch: 40}
"""
DQN = """
schema: 1
name: dqn
env:
  use: GymEnv
  env_name: CartPole-v1
  categorical_action_encoding: true
  transforms: [InitTracker]
policy:
  modules:
    - {use: MLP, in_keys: [observation], out_keys: [embed], num_cells: [8], out_features: 8}
    - {use: LSTMModule, in_key: embed, out_key: features, hidden_size: 6}
    - {use: MLP, in_keys: [features], out_keys: [action_value], num_cells: [], out_features: auto}
    - QValueModule
collect: {use: Collector, frames_per_batch: 40}
"""


class Bench:
    """Opens builders on spec texts; ``swap`` pairs replace parts of a text first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.builders: list[Builder] = []

    def open(self, text: str, *swap: str) -> Builder:
        for old, new in zip(swap[::2], swap[1::2], strict=True):
            assert old in text, old
            text = text.replace(old, new)
        path = self.folder / "spec.yaml"
        path.write_text(text)
        self.builders.append(Builder(load_spec(path)))
        return self.builders[-1]

    def run(self, text: str, *swap: str) -> Builder:
        builder = self.open(text, *swap)
        builder.results = {stage: builder.run(stage) for stage in builder.stages}  # type: ignore
        return builder

    def build(self, text: str, *swap: str) -> Pipeline:
        builder = self.run(text, *swap)
        assert not builder.failures
        assert builder.pipeline is not None
        return builder.pipeline


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    shutil.copy(HERE / "own.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    made = Bench(tmp_path)
    yield made
    for builder in made.builders:
        builder.close()


@pytest.fixture
def own_text() -> str:
    return OWN


@pytest.fixture
def dqn_text() -> str:
    return DQN
