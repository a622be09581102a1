"""What a valid spec becomes: components, defaults, places, hash."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.errors import Place, SpecError
from rnncheck.spec.dump import to_yaml
from rnncheck.spec.load import load_spec, spec_from_text
from rnncheck.spec.model import Component

FULL = (Path(__file__).parent / "full.yaml").read_text()


def test_every_section_reaches_its_fields() -> None:
    spec = spec_from_text(FULL, "s.yaml")
    assert (spec.schema_, spec.name, spec.seed, spec.device) == (1, "cartpole-drqn", 7, "cuda:1")
    assert (spec.env.use, spec.env.args) == ("GymEnv", {"env_name": "CartPole-v1"})
    assert (spec.env.workers, spec.env.vectorize, spec.env.primers) == (2, "parallel", "manual")
    assert [one.use for one in spec.env.transforms] == ["InitTracker", "StepCounter"]
    assert spec.policy.weights == "policy.pt"
    assert spec.replay is not None
    assert (spec.replay.use, spec.replay.batch_size) == ("TensorDictReplayBuffer", 32)
    assert spec.replay.args == {"priority_key": "td_error"}
    assert spec.replay.sampler == Component(use="SliceSampler", at=("replay", "sampler"))
    assert spec.advantage is not None
    assert (spec.advantage.on, spec.advantage.recurrent_mode) == ("sample", False)
    assert spec.advantage.args == {"gamma": 0.9}
    assert spec.loss is not None
    assert spec.loss.args == {"delay_value": True}
    assert spec.loss.value_estimator == {"gamma": 0.9}
    assert spec.loss.target_update is not None
    assert spec.loss.target_update.args == {"eps": 0.9}
    assert (spec.verify.ignore, spec.verify.steps, spec.verify.timeout) == (("CL408",), 16, 10.0)


def test_components_know_their_path_and_keep_nested_ones_as_data() -> None:
    spec = spec_from_text(FULL, "s.yaml")
    mlp, own = spec.policy.modules
    assert mlp.at == ("policy", "modules", 0)
    assert mlp.args["activation_class"] == "Tanh"
    assert (own.factory, own.args) == ("cells.own:make", {"size": 3})
    assert spec.critic is not None
    assert spec.critic.modules == (Component(use="LSTMModule", at=("critic", "modules", 0)),)


@pytest.mark.parametrize(
    ("at", "line", "column"),
    [
        (("env",), 5, 1),
        (("env", "workers"), 8, 3),
        (("env", "transforms", 1), 11, 29),
        (("env", "transforms", 1, "max_steps"), 11, 48),
        (("policy", "modules", 0), 15, 7),
        (("policy", "modules", 0, "activation_class"), 15, 61),
        (("policy", "modules", 0, "in_keys", 0), 15, 28),
        (("critic", "modules", 0), 17, 10),
        (("collect", "no_such_key"), 18, 1),  # the nearest ancestor
        (("nothing",), 1, 1),
    ],
)
def test_everything_has_a_line_and_a_column(
    at: tuple[str | int, ...], line: int, column: int
) -> None:
    assert spec_from_text(FULL, "s.yaml").locate(at) == Place("s.yaml", line, column)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_endings_and_byte_order_mark(tmp_path: Path, ending: str, mark: bytes) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(mark + FULL.replace("\n", ending).encode())
    spec = load_spec(file)
    assert spec.hash == spec_from_text(FULL, "s.yaml").hash
    assert spec.locate(("schema",)) == Place(str(file), 1, 1)
    assert spec.locate(("env", "workers")) == Place(str(file), 8, 3)


def test_the_policy_by_factory(base: str) -> None:
    critic = 'critic: {factory: "mine:make", weights: w.pt, size: 3}\n'
    spec = spec_from_text(base + critic, "s.yaml")
    assert spec.critic is not None
    made = Component(factory="mine:make", args={"size": 3}, at=("critic",))
    assert (spec.critic.factory, spec.critic.weights) == (made, "w.pt")


def test_null_means_absent(base: str) -> None:
    nulls = (
        "critic: null\nreplay:\nverify:\n  steps: null\nseed: ~\nloss: {use: L, target_update:"
        " null, x: null}\n"
    )
    spec = spec_from_text(base + nulls, "s.yaml")
    assert (spec.critic, spec.replay, spec.seed, spec.verify.steps) == (None, None, 0, 32)
    assert spec.loss is not None
    assert (spec.loss.target_update, spec.loss.args) == (None, {"x": None})


def test_anchors_aliases_and_merge_keys(base: str) -> None:
    text = """\
collect: &keys {use: Collector, frames_per_batch: 64}
loss:
  <<: *keys
  use: DQNLoss
advantage: {<<: [{use: GAE, gamma: 1}, *keys]}
"""
    spec = spec_from_text(base + text, "s.yaml")
    assert spec.loss is not None
    assert spec.advantage is not None
    assert (spec.loss.use, spec.loss.args) == ("DQNLoss", {"frames_per_batch": 64})
    assert (spec.advantage.use, spec.advantage.args["gamma"]) == ("GAE", 1)
    assert spec.locate(("loss", "frames_per_batch")).line == 5
    assert spec.locate(("loss", "use")).line == 8


def test_an_alias_is_a_copy(base: str) -> None:
    text = "collect: &a {use: Collector, x: [1]}\nloss: *a\n"
    spec = spec_from_text(base + text, "s.yaml", ["loss.x.0=2"])
    assert spec.collect is not None
    assert spec.loss is not None
    assert (spec.collect.args["x"], spec.loss.args["x"]) == ([1], [2])


@pytest.mark.parametrize(
    ("written", "value"),
    [("on", "on"), ("yes", "yes"), ("1e-3", 0.001), ("2024-01-01", "2024-01-01"), ("0o17", 15)],
)
def test_plain_values_follow_yaml_1_2(base: str, written: str, value: object) -> None:
    spec = spec_from_text(f"{base}loss: {{use: L, x: {written}}}\n", "s.yaml")
    assert spec.loss is not None
    assert spec.loss.args == {"x": value}


def test_the_hash_is_of_what_is_said_not_how(base: str) -> None:
    one = spec_from_text(base, "a.yaml")
    other = spec_from_text(f"# a comment\nseed: 0\n{base}", "b.yaml")
    assert one.hash == other.hash
    assert len(one.hash) == 64
    assert spec_from_text(base, "a.yaml", ["seed=1"]).hash != one.hash


def test_the_path_is_kept_as_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    (tmp_path / "s.yaml").write_text(base)
    monkeypatch.chdir(tmp_path)
    assert load_spec("s.yaml").path == "s.yaml"


def test_nothing_is_imported_or_run(tmp_path: Path, base: str) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit(1)\n")
    file = tmp_path / "s.yaml"
    file.write_text(base + 'critic: {factory: "trap:make"}\n')
    assert load_spec(file).critic is not None


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.yaml", None, "does not exist"),
        ("big.yaml", b"#" * (2**20 + 1), "larger than 1 MiB"),
        ("seen.zip", b"PK\x03\x04\x8c", "judged by `rnncheck verify"),
        ("latin.yaml", b"schema: 1\nname: caf\xe9\n", "byte 0xe9 is not UTF-8"),
        ("utf16.yaml", "schema: 1".encode("utf-16"), "byte 0xff is not UTF-8"),
        ("empty.yaml", b"", "the spec is empty"),
        ("comment.yaml", b"# nothing\n", "the spec is empty"),
        (".", None, "is a folder"),
        ("a\0b", None, "cannot be read"),
    ],
)
def test_files_that_cannot_be_specs(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SpecError, match=said) as caught:
        load_spec(file)
    assert caught.value.place is not None
    assert caught.value.place.path == str(file)


def test_the_byte_that_is_not_utf8_is_located(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(b"schema: 1\nname: caf\xe9\n")
    with pytest.raises(SpecError) as caught:
        load_spec(file)
    assert caught.value.place == Place(str(file), 2, 10)


def test_a_folder_points_to_the_spec_in_it(tmp_path: Path, base: str) -> None:
    (tmp_path / "rnncheck.yml").write_text(base)
    with pytest.raises(SpecError) as caught:
        load_spec(tmp_path)
    assert caught.value.hint == f"did you mean {tmp_path / 'rnncheck.yml'}?"


def test_a_function_that_is_the_loss(base: str) -> None:
    spec = spec_from_text(base + 'loss: {function: "mine:update", clip: 0.2}\n', "s.yaml")
    assert spec.loss is not None
    assert (spec.loss.function, spec.loss.factory) == ("mine:update", "mine:update")
    assert spec.loss.args == {"clip": 0.2}
    again = spec_from_text(to_yaml(spec), "s.yaml")
    assert (again.loss, again.hash) == (spec.loss, spec.hash)
    made = spec_from_text(base + 'loss: {factory: "mine:update", clip: 0.2}\n', "s.yaml")
    assert made.hash != spec.hash


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ('loss: {function: "mine:f", use: DQNLoss}', "both `function` and `use` are given"),
        ('loss: {function: "mine:f", factory: "mine:g"}', "both `function` and `factory`"),
        ("loss: {function: mine.f}", "does not name a function"),
        ("loss: {function: 3}", "`function` must be text"),
    ],
)
def test_a_function_named_wrongly(base: str, section: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        spec_from_text(f"{base}{section}\n", "s.yaml")
