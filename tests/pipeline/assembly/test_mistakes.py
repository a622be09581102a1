"""Bad input: one sentence with its place, what is accepted, the nearest valid name."""

from __future__ import annotations

import pytest
import torch

from rnncheck.errors import ComponentError, UserError
from rnncheck.pipeline.assembly.builder import Builder

LSTM = "{use: LSTMModule, in_key: embed, out_key: features, hidden_size: 6}"


def error_of(bench, text: str, *swap: str) -> UserError:
    with pytest.raises(UserError) as caught:
        bench.run(text, *swap)
    assert "Traceback" not in str(caught.value)
    assert "site-packages" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("old", "new", "line", "parts"),
    [
        ("use: GymEnv", "use: GymEv", 5, ["GymEv", "'GymEnv'"]),
        ("use: GymEnv", "use: LSTMModule", 5, ["no environment named 'LSTMModule'"]),
        ("env_name", "env_nam", 6, ["takes no argument 'env_nam'", "'env_name'"]),
        ("CartPole-v1", "CartPole-v7", 6, ["CartPole-v7", "'CartPole-v1'"]),
        ("categorical_action_encoding", "categorical_action_encodin", 7, ["did you mean"]),
        ("[InitTracker]", "[InitTraker]", 8, ["'InitTracker'"]),
        ("[InitTracker]", "[{use: StepCounter, maxsteps: 3}]", 8, ["'max_steps'"]),
        ("[InitTracker]", "[{use: ToTensorImage, in_keys: [pixel]}]", 8, ["does not write"]),
        (
            "[InitTracker]",
            "[{use: ObservationNorm, in_keys: [observation], init_stats: {numiter: 3}}]",
            8,
            ["'num_iter'"],
        ),
        (
            "[InitTracker]",
            "[{use: ObservationNorm, in_keys: [observation], init_stats: 3}]",
            8,
            ["a mapping"],
        ),
        ("[observation]", "[observatoin]", 11, ["'observation'"]),
        ("in_key: embed", "in_key: embd", 12, ["reads 'embd'", "'embed'"]),
        ("out_keys: [embed], ", "", 11, ["needs out_keys"]),
        (", hidden_size: 6", "", 12, ["needs 'hidden_size'"]),
        ("hidden_size: 6", "hidden_sise: 6", 12, ["did you mean 'hidden_size'"]),
        ("hidden_size: 6", "hidden_size: many", 12, ["should be of type int"]),
        ("hidden_size: 6", "hidden_size: 6, recurrent_backend: skan", 12, ["skan"]),
        ("hidden_size: 6", "hidden_size: 6, recurrent_compute_dtype: float46", 12, ["'float64'"]),
        ("num_cells: [8]", "num_cells: [8], activation_class: Tan", 11, ["'Tanh'"]),
        ("num_cells: [8]", "num_cells: [8], num_cels: [8]", 11, ["did you mean 'num_cells'"]),
        ("out_features: 8", "out_features: auto", 11, ["only the last layer"]),
        ("out_features: auto", "out_features: 3", 14, ["reads 3 values", "2 actions"]),
        ("    - QValueModule\n", "", 10, ["never writes 'action'"]),
        (
            "- QValueModule",
            "- {use: ProbabilisticActor, in_keys: [action_value]}",
            14,
            ["distribution_class"],
        ),
        (
            "- QValueModule",
            "- {use: ProbabilisticActor, distribution_class: Categoricl}",
            14,
            ["'Categorical'"],
        ),
        (
            "- QValueModule",
            "- {use: ProbabilisticActor, distribution_class: Categorical, retrn_log_prob: true}",
            14,
            ["'return_log_prob'"],
        ),
        (LSTM, "{factory: 'own:layer', n: 4}", 12, ["in_keys"]),
        (LSTM, "{factory: 'own:layer', m: 4, in_keys: [embed], out_keys: [features]}", 12, ["'m'"]),
        (
            LSTM,
            (
                "{use: Sequential, modules: [{use: Linear, out_featurs: 3}], in_keys: [embed],"
                " out_keys: [features]}"
            ),
            12,
            ["'out_features'"],
        ),
        ("use: Collector", "use: Colector", 15, ["'Collector'"]),
        ("use: Collector", "use: Evaluator", 15, ["Evaluator"]),
        ("frames_per_batch: 40", "batches: 2", 15, ["needs 'frames_per_batch'"]),
        ("frames_per_batch: 40", "frames_per_batchs: 40", 15, ["'frames_per_batch'"]),
        ("frames_per_batch: 40", "frames_per_batch: forty", 15, ["whole number"]),
        ("frames_per_batch: 40", "frames_per_batch: 40, batches: 0", 15, ["whole number"]),
        ("frames_per_batch: 40", "frames_per_batch: 40, exploration_type: rand", 15, ["'random'"]),
        ("name: dqn", "name: dqn\ndevice: cuda:99", 4, ["not on this machine"]),
    ],
)
def test_named_components(bench, dqn_text, old, new, line, parts):
    error = error_of(bench, dqn_text, old, new)
    assert error.place is not None
    assert error.place.line == line
    for part in parts:
        assert part in str(error)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("oun:make_env", ["no module 'oun'", "did you mean 'own'"]),
        ("own:mak_env", ["has no function 'mak_env'", "did you mean 'make_env'"]),
        ("own:NOT_A_FUNCTION", ["of type int"]),
        ("own:returning_nothing", ["returned None", "EnvBase", "return"]),
        ("own:returning_a_gym_env", ["GymWrapper"]),
        ("own:needing", ["needs 'envv'"]),
    ],
)
def test_factories_are_blamed_at_the_spec_line(bench, own_text, name, parts):
    error = error_of(bench, own_text, "own:make_env", name)
    assert (error.place.path.endswith("spec.yaml"), error.place.line) == (True, 4)
    for part in parts:
        assert part in str(error)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raising", "raised ValueError: my own mistake"),
        ("exiting", "called sys.exit()"),
        ("asking", "asked for terminal input"),
    ],
)
def test_factories_that_raise_show_their_own_frames(bench, own_text, name, said):
    error = error_of(bench, own_text, "own:make_env", f"own:{name}")
    assert said in error.message
    assert error.place.path == "own.py"
    assert error.frames.count("File ") == (2 if name == "raising" else 1)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("returning_nothing", "returned None"),
        ("returning_a_pair", "tuple of (TensorDictSequential, int)"),
        ("returning_a_layer", "of type Linear"),
    ],
)
def test_policies_of_the_wrong_type(bench, own_text, name, said):
    error = error_of(bench, own_text, "own:make_policy", f"own:{name}")
    assert said in str(error)
    assert error.place.line == 5


def test_unknown_keyword_of_a_factory(bench, own_text):
    error = error_of(bench, own_text, '"own:make_policy"', '"own:make_policy", sise: 3')
    assert "takes no argument 'sise'" in str(error)
    assert "did you mean 'size'" in str(error)


def test_modules_that_do_not_import(bench, own_text, tmp_path):
    (tmp_path / "broken.py").write_text("def f(:\n    pass\n")
    (tmp_path / "missing.py").write_text("import no_such_package_at_all\n")
    (tmp_path / "json.py").write_text("def make_env(): pass\n")
    error = error_of(bench, own_text, "own:make_env", "broken:f")
    assert (error.place.path, error.place.line) == ("broken.py", 1)
    error = error_of(bench, own_text, "own:make_env", "missing:f")
    assert "no_such_package_at_all" in error.message
    assert error.place.path == "missing.py"
    error = error_of(bench, own_text, "own:make_env", "json:make_env")
    assert "rename the file" in str(error)


def weights(bench, dqn_text: str, name: str) -> Builder:
    return bench.run(dqn_text, "policy:\n", f"policy:\n  weights: {name}\n")


def test_weights_are_loaded(bench, dqn_text, tmp_path):
    pipeline = bench.build(dqn_text)
    state = {key: value + 1 for key, value in pipeline.policy.state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "trained.pt")
    trained = weights(bench, dqn_text, "trained.pt").pipeline
    for key, value in trained.pristine_policy.state_dict().items():
        assert torch.equal(value, state[key])


def test_weights_that_do_not_fit(bench, dqn_text, tmp_path):
    state = dict(bench.build(dqn_text).policy.state_dict())
    first = next(iter(state))
    torch.save({**state, first: torch.zeros(3)}, tmp_path / "shape.pt")
    torch.save({k: v for k, v in state.items() if k != first}, tmp_path / "short.pt")
    torch.save({**state, "extra": torch.zeros(1)}, tmp_path / "long.pt")
    torch.save({"policy": Builder}, tmp_path / "evil.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "text.pt").write_text("hello")
    said = {
        "shape.pt": "other shapes",
        "short.pt": "missing: ",
        "long.pt": "not in the network: extra",
        "evil.pt": "would run as code",
        "list.pt": "no state_dict",
        "text.pt": "not a file that torch.save wrote",
        "shap.pt": "did you mean 'shape.pt'",
    }
    for name, part in said.items():
        with pytest.raises(ComponentError) as caught:
            weights(bench, dqn_text, name)
        assert part in str(caught.value)
        assert caught.value.place.line == 10
