"""What the watch notes of how a script made its parts, where a spec is written of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from rnncheck.watching.observer import Watching
from rnncheck.watching.saving.import_paths import CannotKeep, Home
from rnncheck.watching.saving.spec_forms import Forms
from rnncheck.watching.seams.calls import one_after_the_other, writers_of
from rnncheck.watching.seams.opening import opened
from rnncheck.watching.seen import Sightings

HOME = Home("script", Path())


class Own(nn.Module):
    """A module of a script's own."""

    def __init__(self, size: int, *, depth: Any = 1, **more: Any) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(size, size) for _ in range(int(depth))))


class Below(Own):
    """One that says nothing of its own."""


def make_own(size: int) -> nn.Module:
    """A network with a part that has no name."""
    own = TensorDictModule(Own(size), in_keys=["a"], out_keys=["b"])
    plain = TensorDictModule(lambda b: b + 1, in_keys=["b"], out_keys=["c"])
    return TensorDictSequential(own, plain)


def make_around(layer: nn.Module) -> nn.Module:
    """What a spec cannot hand over."""
    return TensorDictModule(lambda a: layer(a), in_keys=["a"], out_keys=["b"])


def watched(make: Any) -> tuple[Any, Sightings]:
    """What ``make`` returns, and what was seen meanwhile."""
    watching = Watching(3, ends=False, describes=True)
    with opened(watching):
        made = make()
    assert sys.getprofile() is None
    return made, watching.seen


@pytest.mark.parametrize("kind", [Own, Below])
def test_a_class_of_the_scripts_is_named_with_its_arguments(kind: type) -> None:
    made, seen = watched(lambda: kind(2, depth=3, bias=True))
    name = f"{__name__}:{kind.__name__}"
    args = {"size": 2, "depth": 3, "bias": True}
    assert Forms(HOME, seen.parts).component(made) == {"factory": name, **args}


def test_what_is_no_plain_data_is_refused() -> None:
    made, seen = watched(lambda: Own(2, depth=torch.tensor(1)))
    with pytest.raises(CannotKeep, match="`depth` of the script's own Own is a Tensor"):
        Forms(HOME, seen.parts).component(made)


def test_a_function_is_named_where_a_part_has_no_name() -> None:
    made, seen = watched(lambda: make_own(2))
    forms = Forms(HOME, seen.parts, seen.returned)
    assert forms.network(made) == [{"factory": f"{__name__}:make_own", "size": 2}]
    with pytest.raises(CannotKeep, match="made was not seen"):
        forms.network(make_own(2))
    around, seen = watched(lambda: make_around(nn.Linear(2, 2)))
    with pytest.raises(CannotKeep, match="around a function"):
        Forms(HOME, seen.parts, seen.returned).network(around)


def test_activations_need_no_arguments() -> None:
    made, seen = watched(lambda: nn.Sequential(nn.Linear(2, 3), nn.Tanh()))
    assert Forms(HOME, seen.parts).module(made) == {
        "use": "Sequential",
        "modules": [{"use": "Linear", "in_features": 2, "out_features": 3}, {"use": "Tanh"}],
    }


def test_who_wrote_an_entry_is_found_by_what_was_called_on_the_batch() -> None:
    core = TensorDictModule(nn.Linear(2, 3), in_keys=["a"], out_keys=["b"])
    head = TensorDictModule(nn.Linear(3, 1), in_keys=["b"], out_keys=["state_value"])
    other = TensorDictModule(nn.Linear(3, 1), in_keys=["b"], out_keys=["logits"])
    data, apart = (TensorDict({"a": torch.randn(4, 2)}, [4]) for _ in range(2))
    for one in (core, head, other):
        one(data)
    calls = [(core, apart), (core, data), (head, data), (other, data)]
    found = list(writers_of(["state_value"], data, calls))
    assert found == [core, head]
    assert [*one_after_the_other(found).module] == found  # type: ignore[misc]
    assert list(writers_of(["state_value"], apart, [(head, data)])) == []
