"""A typo in every part of a spec: the line, the column, the sentence, the way out."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rnncheck.spec.read import parse
from rnncheck.spec.schema import json_schema

ACCEPT = "verify: {{accept: [{{code: {}, reason: known, until: {}}}]}}"
# What is appended to the four valid lines, where the error is, and what is said about it.
MISTAKES = [
    ("critc: null", 1, "unknown key 'critc'", "did you mean 'critic'?"),
    ("Loss: null", 1, "unknown key 'Loss'", "did you mean 'loss'?"),
    ("replay_buffer: {}", 1, "unknown key 'replay_buffer'", "did you mean 'replay'?"),
    ("estimator: {use: GAE}", 1, "unknown key 'estimator'", "did you mean 'advantage'?"),
    ("steps: 16", 1, "unknown key 'steps'", "it is a key of 'verify'"),
    ("transforms: []", 1, "unknown key 'transforms'", "it is a key of 'env' and of 'replay'"),
    ("seed: yes", 1, 'seed must be a whole number, not "yes"', ""),
    ("seed: .nan", 1, "seed must be a whole number, not NaN", ""),
    ("seed: 1.5", 1, "seed must be a whole number, not 1.5", ""),
    ("seed: true", 1, "seed must be a whole number, not true", ""),
    ("seed: -1", 1, "seed must be at least 0, not -1", ""),
    ("seed: 2147483648", 1, "seed must be less than 2147483648", ""),
    ("device: gpu", 1, "device must be cpu, cuda, cuda:N or auto", ""),
    ("device: cuda:x", 1, "device must be cpu, cuda, cuda:N or auto", ""),
    ("verify: {stepz: 3}", 10, "unknown key 'verify.stepz'", "did you mean 'steps'?"),
    ("verify: {stepz: null}", 10, "unknown key 'verify.stepz'", "did you mean 'steps'?"),
    ("verify: {steps: 3}", 10, "verify.steps must be at least 4, not 3", ""),
    ("verify: {timeout: .inf}", 10, "verify.timeout must be a finite number", ""),
    ("verify: {timeout: 0}", 10, "verify.timeout must be more than 0, not 0", ""),
    ("verify: {timeout: 2.5e300}", 10, "verify.timeout must be at most 604800, not 2.5e+300", ""),
    ("bench: {budget: 2.5e9}", 9, "bench.budget must be at most 604800", ""),
    ("gate: {patience: 2.5e9}", 8, "gate.patience must be at most 604800", ""),
    ("bench: {overrides: [{hidden_size: 100000}]}", 22, "hidden_size must be at most 65536", ""),
    ("bench: {shapes: [{batch: 100000, steps: 100000}]}", 18, "batch x steps must be at most", ""),
    ("verify: {strict: 1}", 10, "verify.strict must be true or false, not 1", ""),
    ("verify: []", 1, "verify must be a mapping, not []", ""),
    ("verify: {select: WR}", 10, 'verify.select must be a list, not "WR"', "write [WR]"),
    ("verify: {select: [1]}", 19, "verify.select.0 must be text, not 1", ""),
    ("bench: {shapes: [{batch: 0}]}", 19, "bench.shapes.0.batch must be at least 1", ""),
    ("bench: {compile: [maybe]}", 19, "bench.compile.0 must be false, true, eager", ""),
    ("gate: {budgts: []}", 8, "unknown key 'gate.budgts'", "did you mean 'budgets'?"),
    ("gate: {budget: []}", 8, "gate.budget must be a number, not []", ""),
    ("gate: {max_slowdown: 3}", 8, "gate.max_slowdown must be less than 1, not 3", ""),
    ("gate: {budgets: [{}]}", 18, "gate.budgets.0: a budget is exactly one of train_ms", ""),
    ("gate: {budgets: [{metric: x}]}", 19, "unknown key 'gate.budgets.0.metric'", ""),
    ("gate: {budgets: [{sped: {min: 2}}]}", 19, "unknown key", "did you mean 'speedup'?"),
    ("gate: {budgets: [{train_ms: {max: 0}}]}", 30, "train_ms.max must be more than 0", ""),
    ("gate: {budgets: [{speedup: {ovr: pad, min: 2}}]}", 29, "unknown key", "did you mean 'over'?"),
    ("gate: {cells: [{phase: trian}]}", 17, "must be forward, train or act", "'train'"),
    (ACCEPT.format("LS7", "2027-06-30"), 20, "code must be the code of a check, e.g. LS701", ""),
    (ACCEPT.format("LS701", "June"), 48, 'must be a date, e.g. 2027-06-30, not "June"', ""),
    (ACCEPT.format("LS701", "20270630"), 48, "until must be a date", ""),
    ("collect: 3", 1, "collect: expected a component, not 3", ""),
    ("collect: [Collector]", 1, 'expected a component, not ["Collector"]', ""),
    ("collect: Collector()", 1, "cannot be the name of a class", "without parentheses"),
    ("collect: mine:make", 1, "cannot be the name", 'write {factory: "mine:make"}'),
    ("collect: {}", 1, "neither `use` nor `factory`", ""),
    ("collect: {use: 3}", 1, "`use` must be the name of a TorchRL class, not 3", ""),
    ("collect: {ues: Collector}", 11, "neither `use` nor `factory`", "did you mean 'use'?"),
    ("collect: {Collector: {x: 1}}", 1, "neither", "write {use: Collector, ...}"),
    ("collect: {use: A, factory: 'a:b'}", 1, "both `use` and `factory`", ""),
    ("collect: {factory: make}", 11, '"make" does not name a factory', ""),
    ("collect: {factory: a.make}", 11, "does not name a factory", 'write "a:make"'),
    ("collect: {factory: 'a.py:make'}", 11, "does not name a factory", "without .py"),
    ("collect: {factory: 'a/b:make'}", 11, "does not name a factory", "dots instead of slashes"),
    ("collect: {factory: 'a::make'}", 11, "does not name a factory", ""),
    ("collect: {factory: [a]}", 11, "`factory` must be text", ""),
    ("replay: {storag: S}", 10, "unknown key 'replay.storag'", "did you mean 'storage'?"),
    ("replay: {storage: 3}", 10, "replay.storage: expected a component", ""),
    ("replay: {batch_size: 0}", 10, "replay.batch_size must be at least 1", ""),
    ("replay: {transforms: {use: X}}", 10, "replay.transforms: must be a list", ""),
    ("batch: Make", 1, "a batch is made by a function of your own", ""),
    ("advantage: {use: GAE, on: colect}", 23, "on must be collect or sample", "'collect'"),
    ("advantage: {use: GAE, recurent_mode: true}", 23, "unknown key", "'recurrent_mode'"),
    ("loss: {use: L, value_estimator: 3}", 16, "loss.value_estimator must be a mapping", ""),
    ("loss: {use: L, target_update: {use: 1}}", 16, "`use` must be the name", ""),
    ("critic: LSTM", 1, 'expected modules or a factory, not "LSTM"', "write critic: [LSTM]"),
    ("critic: []", 1, "critic.modules: the list is empty", ""),
    ("critic: {}", 1, "neither `modules` nor `factory`", ""),
    ("critic: {use: LSTM}", 10, "unknown key 'critic.use'", "a critic is a list"),
    ("critic: {modulse: [X]}", 10, "unknown key 'critic.modulse'", "did you mean 'modules'?"),
    ("critic: {modules: X}", 10, "critic.modules: must be a list", ""),
    ("critic: {modules: [X], factory: 'a:b'}", 1, "both `modules` and `factory`", ""),
    ("critic: {modules: [X], weights: 3}", 24, "critic.weights must be text, not 3", ""),
    ("critic: {modules: [{us: X}]}", 21, "neither", "did you mean 'use'?"),
    ("critic: {factory: 'a:b', weights: [x]}", 26, "critic.weights must be text", ""),
]


@pytest.mark.parametrize(
    ("line", "column", "said", "hint"), MISTAKES, ids=[mistake[0] for mistake in MISTAKES]
)
def test_one_mistake(base: str, refuse: Any, line: str, column: int, said: str, hint: str) -> None:
    (error,) = refuse(f"{base}{line}\n")
    assert (error.place.path, error.place.line) == ("spec.yaml", 5)
    assert error.place.column == column
    assert said in error.message
    assert hint in error.hint
    assert "pydantic" not in str(error)


ENVS = [
    ("env: CartPole-v1", "cannot be the name of a class", "{use: GymEnv, env_name: CartPole-v1}"),
    ("env: ALE/Pong-v5", "cannot be the name of a class", "{use: GymEnv, env_name: ALE/Pong-v5}"),
    ("env: {use: CartPole-v1}", "cannot be the name of a class", "env_name: CartPole-v1"),
    ("env: {env_name: CartPole-v1}", "neither `use` nor `factory`", "write {use: GymEnv"),
    ("env: {use: GymEnv, worker: 2}", "unknown key 'env.worker'", "did you mean 'workers'?"),
    ("env: {use: GymEnv, workers: 0}", "env.workers must be at least 1, not 0", ""),
    ("env: {use: GymEnv, workers: two}", "env.workers must be a whole number", ""),
    ("env: {use: GymEnv, vectorize: parallell}", "must be serial or parallel", "'parallel'"),
    ("env: {use: GymEnv, primers: none}", "env.primers must be auto, manual or always", ""),
    ("env: {use: GymEnv, transfroms: []}", "unknown key 'env.transfroms'", "'transforms'"),
    ("env: {use: GymEnv, transforms: InitTracker}", "must be a list", ""),
    ("env: {use: GymEnv, transforms: [{max_steps: 3}]}", "env.transforms.0: neither", ""),
    ("env: {use: GymEnv, transforms: [null]}", "env.transforms.0: expected a component", ""),
    ("env: ", "the key 'env' is missing", "add e.g. `env:"),
]


@pytest.mark.parametrize(("line", "said", "hint"), ENVS, ids=[one[0] for one in ENVS])
def test_a_mistake_in_the_env(base: str, refuse: Any, line: str, said: str, hint: str) -> None:
    lines = base.splitlines()
    (error,) = refuse("\n".join([*lines[:2], line, *lines[3:]]))
    assert error.place.line == (1 if "missing" in said else 3)
    assert said in error.message
    assert hint in error.hint


TOPS = [
    ("[]", "a spec is a mapping of keys, not []"),
    ("just text", "a spec is a mapping of keys"),
    ("schema: 2\nname: x", "schema must be 1, not 2"),
    ("schema: true", "schema must be 1, not true"),
    ("schema: '1'", 'schema must be 1, not "1"'),
    ("schema: 1.0", "schema must be 1, not 1.0"),
]


@pytest.mark.parametrize(("text", "said"), TOPS)
def test_a_mistake_at_the_top(refuse: Any, text: str, said: str) -> None:
    first = refuse(text)[0]  # what else is wrong with so short a text stands behind it
    assert said in first.message
    assert first.place.line == 1


def test_another_version_is_not_judged_by_the_rules_of_this_one(refuse: Any) -> None:
    (error,) = refuse("schema: 2\nnam: x\nenvironments: []\n")
    assert error.message == "schema must be 1, not 2"


@pytest.mark.parametrize("name", ["3", "''", "[a]", "x" * 201])
def test_a_bad_name(base: str, refuse: Any, name: str) -> None:
    (error,) = refuse(base.replace("small", name))
    assert error.message.startswith("name must be ")
    assert error.place.line == 2


def test_all_missing_keys_are_named(refuse: Any) -> None:
    errors = refuse("seed: 1\n")
    assert [error.message for error in errors] == [
        f"the key {name!r} is missing" for name in ("schema", "name", "env", "policy")
    ]
    assert all(error.hint for error in errors)


def test_a_misspelt_required_key_is_one_mistake(refuse: Any, base: str) -> None:
    (error,) = refuse(base.replace("policy", "polciy"))
    assert error.hint == "did you mean 'policy'?"


@pytest.mark.parametrize(
    ("right", "wrong"), [("policy", "agent"), ("env", "environment"), ("env", "Environment")]
)
def test_another_word_for_a_required_key_is_one_mistake(
    refuse: Any, base: str, right: str, wrong: str
) -> None:
    (error,) = refuse(base.replace(f"{right}:", f"{wrong}:"))
    assert error.hint == f"did you mean {right!r}?"


def test_what_resembles_no_key_is_not_guessed_at(refuse: Any, base: str) -> None:
    (error,) = refuse(base + "wandb: {}\n")
    assert error.hint == ""


def test_several_mistakes_come_together_in_file_order(refuse: Any, base: str) -> None:
    text = (
        base.replace("use: GymEnv", "use: Gym Env")
        + "loss: 3\nsede: 1\nseed: x\nverify: {steps: 1}\n"
    )
    errors = refuse(text, "device=gpu")
    assert [error.place.line for error in errors] == [3, 5, 6, 7, 8, 0]
    assert errors[-1].place.path == "--set device=gpu"


EVERYTHING = """\
schema: "1"
nam: x
env: {use: Gym Env, worker: 2, 3: 4, vectorize: serail}
policy: [!mine LSTMModule, {ues: MLP}, {use: MLP, factory: "a:b"}]
collect: !mine Collector
replay: {use: 3, storag: x, batch_size: 0}
seed: 1
seed: x
verify: {stepz: 3, steps: !!int x}
"""


def test_every_mistake_of_a_spec_is_told_at_once(refuse: Any) -> None:
    errors = refuse(EVERYTHING, "seed", "device=gpu", "loss=3")
    assert [(error.place.line, error.place.column) for error in errors] == [
        (1, 1),
        (2, 1),
        (3, 1),
        (3, 21),
        (3, 32),
        (3, 38),
        (4, 10),
        (4, 29),
        (4, 40),
        (5, 10),
        (6, 1),
        (6, 18),
        (6, 29),
        (8, 1),
        (8, 1),
        (9, 10),
        (9, 27),
        (0, 0),
        (0, 0),
        (0, 0),
    ]
    assert len({str(error) for error in errors}) == len(errors)


def test_of_many_mistakes_the_first_are_told_and_the_others_counted(refuse: Any, base: str) -> None:
    errors = refuse(base + "".join(f"x{number}: 1\n" for number in range(25)))
    assert [error.place.line for error in errors] == [*range(5, 25), 0]
    assert str(errors[-1]) == "spec.yaml: and 5 more like these, further down"


@pytest.mark.parametrize("count", [19, 20])
def test_as_many_as_fit_are_all_told(refuse: Any, base: str, count: int) -> None:
    errors = refuse(base + "".join(f"x{number}: 1\n" for number in range(count)))
    assert [error.place.line for error in errors] == [*range(5, 5 + count)]


def test_of_what_cannot_be_read_nothing_more_is_said(refuse: Any, base: str) -> None:
    text = base.replace("policy: [LSTMModule]", "policy: !mine [LSTMModule]")
    (error,) = refuse(text)
    assert "the tag !mine is not allowed" in error.message


def test_the_sentence_is_whole(refuse: Any, base: str) -> None:
    (error,) = refuse(base + "verify: {stepz: 3}\n")
    assert str(error).splitlines() == [
        "spec.yaml:5:10: unknown key 'verify.stepz'",
        "  accepted: select, ignore, steps, timeout, drift, strict, backends, accept",
        "  did you mean 'steps'?",
    ]


# The schema cannot know slips of the pen that might be arguments, and to it 1.0 is 1.
LOADER_ONLY = (
    "storag:", "recurent_mode", "worker:", "transfroms", "1.0", "a.py:make", ".inf",
    "steps: 100000",  # a product is beyond a schema
)  # fmt: skip
WHOLE = [
    *(f"{{base}}{line}" for line, *_ in MISTAKES),
    *(f"schema: 1\nname: x\npolicy: [A]\n{line}" for line, *_ in ENVS),
    *(text for text, _ in TOPS),
]


@pytest.mark.parametrize(
    "text", [text for text in WHOLE if not any(part in text for part in LOADER_ONLY)]
)
def test_the_schema_refuses_it_too(base: str, text: str) -> None:
    document, _ = parse(text.replace("{base}", base), "s.yaml")
    assert not Draft202012Validator(json_schema()).is_valid(document.data)
