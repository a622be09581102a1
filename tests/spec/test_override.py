"""``--set``: what it changes, where its values come from, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from rnncheck.errors import Place
from rnncheck.spec.dump import _plain
from rnncheck.spec.load import spec_from_text


def get(base: str, path: tuple[str | int, ...], *overrides: str) -> Any:
    value: Any = _plain(spec_from_text(base, "s.yaml", overrides))
    for key in path:
        value = value[key]
    return value


CHANGES: list[tuple[str, tuple[str | int, ...], object]] = [
    ("seed=3", ("seed",), 3),
    ("name=other", ("name",), "other"),
    ("env.env_name=Pendulum-v1", ("env", "env_name"), "Pendulum-v1"),
    ("env.frame_skip=2", ("env", "frame_skip"), 2),
    ("env.transforms=[InitTracker, {use: X, y: 1}]", ("env", "transforms", 1, "y"), 1),
    ("policy.modules.0=GRUModule", ("policy", "modules", 0, "use"), "GRUModule"),
    ("policy.modules.0.hidden_size=32", ("policy", "modules", 0, "hidden_size"), 32),
    ("policy.weights=w.pt", ("policy", "weights"), "w.pt"),
    ("policy=[A, B]", ("policy", "modules", 1, "use"), "B"),
    ("critic.factory=mine:make", ("critic", "factory"), "mine:make"),
    ("collect=Collector", ("collect", "use"), "Collector"),
    ("verify.steps=8", ("verify", "steps"), 8),
    ("verify.ignore=[WR, CL401]", ("verify", "ignore"), ["WR", "CL401"]),
    ("replay.sampler.use=SliceSampler", ("replay", "sampler", "use"), "SliceSampler"),
    ("critic=", ("critic",), None),
    (" seed =4", ("seed",), 4),
    ("name=a=b", ("name",), "a=b"),
]


@pytest.mark.parametrize(
    ("assignment", "path", "value"), CHANGES, ids=[change[0] for change in CHANGES]
)
def test_it_changes(base: str, assignment: str, path: tuple[str | int, ...], value: object) -> None:
    assert get(base, path, assignment) == value


def test_they_apply_in_order(base: str) -> None:
    assert get(base, ("collect", "x"), "collect=Collector", "collect.x=1", "collect.x=2") == 2


def test_a_part_of_a_loss_can_be_made(base: str) -> None:
    text = base + "loss: DQNLoss\n"
    assert get(text, ("loss", "value_estimator"), "loss.value_estimator.gamma=0.9") == {
        "gamma": 0.9
    }
    assert get(text, ("loss", "use"), "loss.value_estimator.gamma=0.9") == "DQNLoss"


def test_its_values_are_located_at_the_option(base: str) -> None:
    spec = spec_from_text(base, "s.yaml", ["env={use: Mine, x: [1]}"])
    place = Place("--set env={use: Mine, x: [1]}")
    assert spec.locate(("env",)) == spec.locate(("env", "x", 0)) == place
    assert spec.locate(("policy",)) == Place("s.yaml", 4, 1)


REFUSALS = [
    ("seed", "is not KEY=VALUE", "--set KEY.KEY.INDEX=VALUE", ""),
    ("=1", "is not KEY=VALUE", "--set", ""),
    ("env..x=1", "is not KEY=VALUE", "--set", ""),
    ("seed=x", "seed must be a whole number", "", ""),
    ("schema=2", "schema must be 1, not 2", "", ""),
    ("sede=1", "unknown key 'sede'", "schema, name, seed", "did you mean 'seed'?"),
    ("lss.use=X", "there is no 'lss' in the spec", "loss", "did you mean 'loss'?"),
    ("env.foo.bar=1", "there is no 'env.foo' in the spec", "use, env_name", ""),
    ("env.env_nam.x=1", "there is no 'env.env_nam'", "use, env_name", "did you mean 'env_name'?"),
    ("env.env_name.x=1", 'env.env_name is "CartPole-v1", which has no key', "", ""),
    ("name.x=1", "which has no key 'x'", "", ""),
    ("policy.modules.4.h=3", "policy.modules has no entry '4'", "an index from 0 to 0", ""),
    ("policy.modules.-1=A", "policy.modules has no entry '-1'", "an index from 0 to 0", ""),
    ("policy.modules.x=A", "policy.modules has no entry 'x'", "an index from 0 to 0", ""),
    ("policy.0.h=3", "there is no 'policy.0'", "modules", ""),
    ("verify.stepz=3", "unknown key 'verify.stepz'", "steps", "did you mean 'steps'?"),
    ("seed=[", "not valid YAML", "", ""),
    ("seed={a: 1, a: 2}", "is given twice", "", ""),
    ("env=!!python/object:x {}", "is not allowed", "", ""),
]


@pytest.mark.parametrize(
    ("assignment", "said", "accepted", "hint"), REFUSALS, ids=[one[0] for one in REFUSALS]
)
def test_it_refuses(
    base: str, refuse: Any, assignment: str, said: str, accepted: str, hint: str
) -> None:
    (error,) = refuse(base, assignment)
    assert error.place == Place(f"--set {assignment}")
    assert said in error.message
    assert accepted in error.accepted
    assert hint in error.hint


def test_an_empty_list_has_no_index(base: str, refuse: Any) -> None:
    (error,) = refuse(base, "env.transforms=[]", "env.transforms.0=A")
    assert error.accepted == "nothing: the list is empty"


def test_several_bad_ones_come_together(base: str, refuse: Any) -> None:
    assert len(refuse(base, "a.b=1", "name.x=1")) == 2


def test_a_mistake_in_the_file_can_be_set_right(base: str) -> None:
    assert get(base + "seed: x\n", ("seed",), "seed=1") == 1
