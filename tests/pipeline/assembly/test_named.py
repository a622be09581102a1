"""Names of a spec that are not there, told by ``rnncheck spec validate`` without running user
code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rnncheck.cli.app import app
from rnncheck.errors import ComponentError
from rnncheck.pipeline.assembly.named import wrong_names
from rnncheck.spec.load import load_spec

ROOT = Path(__file__).parents[3]
ENV = "env: {use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}"
POLICY = "policy: [{use: LSTMModule, in_key: observation, out_key: h, hidden_size: 4}]"
TRAP = """\
raise SystemExit("this must not run")
def make_env(): ...
class Makers:
    def make(self): ...
if True:
    from json import loads as decoded
    with open("x") as (first, second): ...
def late():
    global born_later
    born_later = make_env
"""
Told = Callable[..., list[tuple[int, int, str]]]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """Line, column and sentence of each wrong name in a spec with these lines."""

    def load(*lines: str, env: str = ENV, policy: str = POLICY) -> list[tuple[int, int, str]]:
        file = tmp_path / "s.yaml"
        file.write_text("\n".join(["schema: 1", "name: s", env, policy, *lines]) + "\n")
        found = wrong_names(load_spec(file))
        assert all(isinstance(one, ComponentError) and one.place for one in found)
        places = [(one.place.line, one.place.column, str(one)) for one in found if one.place]
        return sorted(places)

    return load


WRONG = [
    ("collect: {use: Colector, frames_per_batch: 8}", 11, "did you mean 'Collector'?"),
    ("collect: {use: Collector, frames_per_bach: 8}", 27, "'frames_per_bach'"),
    ("collect: {use: GAE, frames_per_batch: 8}", 11, "no collector named 'GAE'"),
    ("replay: {storage: LazyTensorStorge}", 10, "did you mean 'LazyTensorStorage'?"),
    ("replay: {storage: {use: LazyTensorStorage, max_sise: 8}}", 44, "'max_size'"),
    ("replay: {sampler: {use: SliceSampler, slce_len: 8}}", 39, "'slice_len'"),
    ("replay: {transforms: [{use: BurnInTransform, burn: 2}]}", 46, "'burn_in'"),
    ("advantage: {use: GEA, gamma: 0.9, lmbda: 0.9}", 13, "did you mean 'GAE'?"),
    ("advantage: {use: TD0, gama: 0.9}", 23, "did you mean 'gamma'?"),
    ("loss: {use: DQNLos}", 8, "did you mean 'DQNLoss'?"),
    ("loss: {use: DQNLoss, delay: true}", 22, "did you mean 'delay_value'?"),
    ("loss: {use: DQNLoss, target_update: {use: SoftUpdte, eps: 0.9}}", 38, "'SoftUpdate'"),
    ("loss: {use: DQNLoss, target_update: {use: HardUpdate, every: 9}}", 55, "takes no argument"),
    ("loss: {use: PPOLoss, critic_network: [{use: MPL}]}", 40, "did you mean 'MLP'?"),
    ("critic: [{use: MLP, activation_class: Tahn}]", 21, "did you mean 'Tanh'?"),
    ("critic: [{use: Sequential, modules: [Linaer]}]", 38, "did you mean 'Linear'?"),
    ("critic: [{use: Sequential, modules: [{use: Linear, ouput: 3}]}]", 52, "'ouput'"),
    ("critic: [{use: ProbabilisticActor, distribution_class: TanhNorml}]", 36, "'TanhNormal'"),
    ("critic: [{use: ProbabilisticActor, in_kys: [loc]}]", 36, "did you mean 'in_keys'?"),
    ("critic: [{use: LSTMModule, hiden_size: 3}]", 28, "did you mean 'hidden_size'?"),
]


@pytest.mark.parametrize(("line", "column", "said"), WRONG, ids=[one[0] for one in WRONG])
def test_a_wrong_name_has_its_place_and_the_nearest(
    told: Told, line: str, column: int, said: str
) -> None:
    ((at, found, sentence),) = told(line)
    assert (at, found) == (5, column)
    assert said in sentence


def test_all_of_them_come_at_once(told: Told) -> None:
    env = ENV.replace("env_name", "env_nam").replace("InitTracker", "InitTrackr")
    places = told(*(line for line, *_ in WRONG[:1]), env=env, policy="policy: [LSTMModul]")
    assert [place[:2] for place in places] == [(3, 20), (3, 55), (4, 10), (5, 11)]


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("trap:make_env", ""),
        ("trap:Makers.make", ""),
        ("trap:decoded", ""),
        ("trap:second", ""),
        ("trap:born_later", ""),
        ("open:anything", ""),
        ("asked:anything", ""),
        ("package.part:make", ""),
        ("package:part", ""),
        ("json:loads", ""),
        ("math:sqrt", ""),  # compiled: its source cannot be read
        ("torchrl.envs:GymEnv", ""),
        ("trap:make_evn", "did you mean 'make_env'?"),
        ("tarp:make_env", "did you mean 'trap'?"),
        ("package.prat:make", "there is no module 'package.prat'"),
        ("package.part:made", "package.part has no function 'made'"),
        ("broken:make", "importing 'broken' would fail: line 1: SyntaxError"),
    ],
)
def test_a_factory_is_looked_up_in_its_source(
    told: Told, tmp_path: Path, factory: str, said: str
) -> None:
    (tmp_path / "package").mkdir()
    texts = {"trap": TRAP, "open": "from os.path import *\n", "broken": "def make(:\n"}
    texts["asked"] = "def __getattr__(name): ...\n"
    texts |= {"package/__init__": "1 / 0\n", "package/part": "make = lambda: 1 / 0\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    found = told(f'loss: {{factory: "{factory}"}}')
    assert [place[:2] for place in found] == ([(5, 8)] if said else [])
    assert said in "".join(sentence for *_, sentence in found)


def test_no_fixture_has_a_wrong_name() -> None:
    folders = ("specs", "training", "pipelines", "reference", "broken")
    files = [file for name in folders for file in (ROOT / "fixtures" / name).glob("*.yaml")]
    assert len(files) > 100
    assert {file.name: said for file in files if (said := wrong_names(load_spec(file)))} == {}


def test_validate_tells_what_verify_would_stumble_over(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"schema: 1\nname: s\n{ENV}\npolicy: [LSTMModul, GRUModul]\n")
    done = CliRunner().invoke(app, ["spec", "validate", str(file)])
    assert done.exit_code == 2
    assert [line.split(":")[2] for line in done.stderr.splitlines() if "error" in line] == ["4"] * 2
