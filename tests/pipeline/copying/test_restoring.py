"""After a call, whatever the function could reach has its bits back."""

from __future__ import annotations

import copy
import functools
import random
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictParams
from torch import Tensor, nn
from torchrl.data import LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
from torchrl.envs import GymEnv

from rnncheck.numerics.emulate import Computing
from rnncheck.pipeline.copying.restoring import CannotUndo, Restored

COUNTER = 0
LOG: list[float] = []
SETTINGS = {"rate": 0.1, "nested": {"steps": [1, 2]}}
WEIGHT = torch.zeros(3)


class Agent:
    """What a script keeps its networks in."""

    created = 0

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.target = copy.deepcopy(self.net)
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimiser, 1)
        self.steps, self.recent = 0, deque([1.0], maxlen=3)
        self.noise = torch.Generator().manual_seed(3)
        self.drawn = np.random.default_rng(5)
        self.array = np.arange(4.0)

    def update(self, x: Tensor) -> float:
        loss = self.net(x).pow(2).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.schedule.step()
        for mine, theirs in zip(self.target.parameters(), self.net.parameters(), strict=True):
            mine.data.lerp_(theirs.data, 0.5)
        self.steps += 1
        self.recent.append(float(loss))
        self.array += float(self.drawn.random())
        torch.rand(2, generator=self.noise)
        type(self).created += 1
        return float(loss)


AGENT = Agent()


def bits(agent: Agent) -> list[Any]:
    """All that an agent is made of, as values."""
    tensors = [*agent.net.state_dict().values(), *agent.target.state_dict().values()]
    grads = [p.grad for p in agent.net.parameters()]
    state = agent.optimiser.state_dict()
    moments = [v for one in state["state"].values() for v in one.values()]
    numbers = [
        agent.steps, list(agent.recent), agent.array.tolist(), agent.noise.get_state().tolist(),
        agent.drawn.bit_generator.state, state["param_groups"], agent.schedule.state_dict(),
        Agent.created, len(state["state"]),
    ]  # fmt: skip
    both = [*tensors, *grads, *moments]
    return [None if v is None else torch.as_tensor(v).tolist() for v in both] + numbers


def globally(x: Tensor) -> float:
    global COUNTER
    COUNTER += 1
    LOG.append(1.0)
    SETTINGS["nested"]["steps"].append(3)  # type: ignore[index]
    SETTINGS["new"] = 1
    WEIGHT.add_(1)
    return AGENT.update(x)


def indirectly(x: Tensor) -> float:
    return globally(x)


def everything() -> list[Any]:
    numpy = np.random.get_state()[1].tolist()
    drawn = [random.getstate(), numpy, torch.get_rng_state().tolist()]
    return [COUNTER, list(LOG), copy.deepcopy(SETTINGS), WEIGHT.tolist(), bits(AGENT), *drawn]


def called(function: Callable[..., Any], *args: Any) -> None:
    with Restored(function):
        function(*args)


@pytest.mark.parametrize("function", [globally, indirectly, lambda x: globally(x)])
@pytest.mark.parametrize("trained", [False, True])
def test_globals_have_their_bits_back(function: Callable[..., Any], trained: bool) -> None:
    if trained:  # an optimiser with moments, parameters with gradients
        AGENT.update(torch.ones(2, 3))
    before = everything()
    called(function, torch.randn(4, 3, generator=torch.Generator().manual_seed(1)))
    assert everything() == before


@pytest.mark.parametrize("shape", ["method", "cell", "partial", "default", "list", "namespace"])
def test_whatever_holds_it(shape: str) -> None:
    agent, x = Agent(), torch.ones(2, 3)
    held = {"a": [agent]}
    space = SimpleNamespace(agent=agent)

    def default(x: Tensor, agent: Agent = agent) -> float:
        return agent.update(x)

    functions: dict[str, Callable[..., Any]] = {
        "method": agent.update,
        "cell": lambda x: agent.update(x),
        "partial": functools.partial(Agent.update, agent),
        "default": default,
        "list": lambda x: held["a"][0].update(x),
        "namespace": functools.partial(lambda s, x: s.agent.update(x), space),
    }
    before = bits(agent)
    called(functions[shape], x)
    assert bits(agent) == before
    functions[shape](x)
    assert bits(agent) != before  # the function does change it


def test_cells_and_what_is_bound_anew() -> None:
    count, weight = 0, torch.ones(2)
    parameter = nn.Parameter(torch.ones(2))
    held = TensorDict({"a": torch.zeros(2), "b": {"c": torch.ones(1)}})
    kept, seen = parameter.data, {1, 2}

    def change() -> None:
        nonlocal count, weight
        count, weight = count + 1, weight + 1
        parameter.data = torch.zeros(3)
        parameter.requires_grad_(False)
        held["a"] = torch.ones(2)
        held["new"] = torch.ones(1)
        held["b", "c"].add_(5)
        seen.add(3)

    called(change)
    assert (count, weight.tolist(), seen) == (0, [1.0, 1.0], {1, 2})
    assert parameter.data.data_ptr() == kept.data_ptr()
    assert parameter.tolist() == [1.0, 1.0]
    assert parameter.requires_grad
    assert set(held.keys()) == {"a", "b"}
    assert (held["a"].tolist(), held["b", "c"].tolist()) == ([0.0, 0.0], [1.0])


def test_networks_behind_tensordict_params() -> None:
    params = TensorDictParams(TensorDict({"w": nn.Parameter(torch.ones(2))}))

    def change() -> None:
        params["w"].data.mul_(3)

    called(change)
    assert params["w"].tolist() == [1.0, 1.0]


def test_what_it_raises_is_undone_too() -> None:
    held = [1]

    def fail() -> None:
        held.append(2)
        raise ValueError

    with pytest.raises(ValueError), Restored(fail):
        fail()
    assert held == [1]


def test_the_graph_survives_a_step_by_hand() -> None:
    """Parameters that were changed in place and put back may still be asked for their gradient."""
    weight = nn.Parameter(torch.tensor([2.0]))

    def step() -> Tensor:
        loss = (weight * weight).sum()
        (grad,) = torch.autograd.grad(loss, weight, retain_graph=True)
        with torch.no_grad():
            weight.sub_(grad)
        return loss

    with Restored(step):
        loss = step()
    (grad,) = torch.autograd.grad(loss, weight)
    assert grad.tolist() == [4.0]


class _Counting(TensorDictReplayBuffer):
    """A buffer of the user's with an ``extend`` of its own."""

    def extend(self, tensordicts: TensorDictBase, **kwargs: Any) -> Any:
        return super().extend(tensordicts, **kwargs)


@pytest.mark.parametrize("kind", [TensorDictReplayBuffer, _Counting])
def test_no_kind_of_buffer_is_written_into(kind: type[TensorDictReplayBuffer]) -> None:
    buffer, steps = kind(storage=LazyTensorStorage(8), batch_size=2), TensorDict({"a": [1, 2]}, [2])
    for function in (lambda: buffer.extend(steps), lambda: buffer.add(steps[0])):
        with pytest.raises(CannotUndo, match="writes into a replay buffer"), Restored(function):
            function()
    assert not len(buffer)
    buffer.extend(steps)
    assert len(buffer) == 2


def test_what_cannot_be_undone_is_refused(tmp_path: Path) -> None:
    env, buffer = GymEnv("CartPole-v1"), ReplayBuffer(storage=LazyTensorStorage(4))
    file = tmp_path / "log.txt"
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: env.reset(), "resets an env"),
        (lambda: buffer.extend(torch.ones(2)), "writes into a replay buffer"),
        (lambda: torch.save({}, file), "saves a file"),
        (lambda: open(file, "a"), "opens"),  # noqa: PTH123, SIM115
    ]
    for function, said in cases:
        with pytest.raises(CannotUndo, match=said), Restored(function):
            function()
    assert not file.exists()
    env.reset()  # afterwards all is as it was
    buffer.extend(torch.ones(2))
    assert len(buffer) == 2
    env.close()


def test_parameters_keep_their_type_where_all_is_computed_in_float64() -> None:
    """There a copy of a tensor is one in float64: it may not be put back in the tensor's place."""
    network = nn.Linear(2, 1)
    before = network.weight.detach().clone()

    def stepped() -> None:
        network.weight.data = network.weight.data + 1

    with Computing(torch.float64), Restored(stepped, network):
        stepped()
    assert network.weight.dtype == torch.float32
    assert torch.equal(network.weight, before)
