"""``rnncheck run --save FILE`` of a loop over a plain env: its parts, kept and made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers import RecordEpisodeStatistics, TransformObservation

from rnncheck.watching.forms.plain_calls import Slot
from rnncheck.watching.forms.plain_loss import rollout_loss
from rnncheck.watching.forms.plain_policy import PlainEnv
from rnncheck.watching.forms.storages import HeldPart, Records, Storage
from rnncheck.watching.saving.decoding import Decoder
from rnncheck.watching.saving.encoding import Encoder
from rnncheck.watching.saving.import_paths import CannotKeep, Home


def again(value: Any, change: Any = lambda node: node) -> Any:
    """What its form gives; ``change`` is what a stranger makes of each node."""
    encoder = Encoder(Home("train", Path()), {})
    form = encoder.whole(value)
    nodes = [change(one) for one in encoder.nodes]
    return Decoder(nodes, bytes(encoder.data), (Path(__file__).parents[1],)).whole(form)


def chain(env: Any) -> list[str]:
    found = [type(env).__name__]
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        found.append(type(env).__name__)
    return found


def test_an_env_of_the_registry_is_made_by_its_name_and_arguments() -> None:
    env = gymnasium.make("CartPole-v1", max_episode_steps=7, sutton_barto_reward=True)
    env = RecordEpisodeStatistics(env, buffer_length=3)
    env.reset(seed=1)
    made = again(env)
    assert chain(made) == chain(env)
    assert made.spec.max_episode_steps == 7
    assert made.unwrapped._sutton_barto_reward is True
    assert made is not env


def test_a_wrapper_is_kept_with_its_space_and_the_code_of_its_file() -> None:
    plain = gymnasium.make("CartPole-v1")
    made = again(TransformObservation(plain, lambda seen: 2 * seen, plain.observation_space))
    assert made.observation_space == plain.observation_space
    assert (made.reset(seed=0)[0] == 2 * plain.reset(seed=0)[0]).all()


@pytest.mark.parametrize("entry", ["os:system", "gymnasium.wrappers:os", "gymnasium:make"])
def test_a_stranger_wraps_an_env_in_nothing_but_wrappers(entry: str) -> None:
    def change(node: Any) -> Any:
        told = isinstance(node, dict) and node.get("kind") == "list"
        known = "gymnasium.wrappers.common:RecordEpisodeStatistics"
        return node | {"of": [entry if x == known else x for x in node["of"]]} if told else node

    env = RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))
    with pytest.raises(CannotKeep, match="none of gymnasium's own wrappers"):
        again(env, change)


@pytest.mark.parametrize(
    "value",
    [np.int64(3), np.float64(0.1), np.float32(0.1), np.bool_(True), np.arange(6).reshape(2, 3)],
)
def test_numbers_and_arrays_of_numpy_keep_their_kind(value: Any) -> None:
    made = again({"held": value})["held"]
    assert type(made) is type(value)
    assert made.dtype == value.dtype
    assert np.array_equal(made, value)


def test_an_array_of_objects_is_not_kept() -> None:
    with pytest.raises(CannotKeep, match="an array of object"):
        again(np.array([object()]))


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64"])
def test_a_generator_goes_on_where_it_was(kind: str) -> None:
    drawn = np.random.Generator(getattr(np.random, kind)(3))
    drawn.random(5)
    made = again(drawn)
    assert made.random(4).tolist() == drawn.random(4).tolist()


def test_a_generator_of_torch_goes_on_where_it_was() -> None:
    drawn = torch.Generator().manual_seed(3)
    torch.rand(5, generator=drawn)
    made = again(drawn)
    assert torch.equal(torch.rand(4, generator=made), torch.rand(4, generator=drawn))


def test_a_stranger_draws_by_nothing_but_generators() -> None:
    def change(node: Any) -> Any:
        told = isinstance(node, dict) and node.get("kind") == "dict"
        pairs = [[k, "seed" if v == "PCG64" else v] for k, v in node["of"]] if told else None
        return node | {"of": pairs} if told else node

    with pytest.raises(CannotKeep, match="of a kind that is none"):
        again(np.random.default_rng(0), change)


def test_envs_side_by_side_are_made_again() -> None:
    def one() -> Any:
        return gymnasium.make("CartPole-v1")

    made = again(PlainEnv((one, one), {("h",): ((3,), torch.float32)}, batched=True))()
    step = made.reset()
    assert made.batch_size == torch.Size([2])
    assert step["h"].shape == (2, 3)
    made.close()


def total(_batch: Any, *, data: Any = None, scale: float = 1.0) -> Any:
    return scale * data["x"][0].sum()


def test_variables_that_hold_a_batch_are_kept_as_such() -> None:
    slot = Slot(("h",), 1, (1, 2), torch.float64)
    held = Storage(("observation",), (3, 1, 2), torch.float32, listed=True)
    state = Storage(("next", "h"), (1, 1, 2), torch.float64, at=-1, slot=slot)
    masks = Storage(
        ("is_init",), (4, 1), torch.float32, scale=(-1.0, 1.0), longer=True, edge=(1.0,)
    )
    records = Records({("x",): held}, [{"x": torch.ones(1, 2), "note": "first"}])
    parts: dict[tuple[str, ...], HeldPart] = {
        ("data", "x"): held,
        ("data", "s"): state,
        ("masks",): masks,
        ("steps",): records,
    }
    names = {"data": {"x": [torch.ones(1, 2)] * 3}, "masks": torch.ones(4, 1), "steps": [1, 2, 3]}
    made = again(rollout_loss(total, names, parts))
    found = {(name, *path): part for name, _, told in made.args[1] for path, part in told.items()}
    assert found.pop(("steps",)).columns == records.columns
    del parts["steps",]
    assert found == parts
    assert len(made.args[1][0][1]["x"]) == 3
