"""Copies of what copy.deepcopy refuses or shares, and the reason where nothing can be copied."""

from __future__ import annotations

import copy
import csv
import functools
import multiprocessing
import threading
import types
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictParams
from torch import Tensor, nn
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymEnv, ParallelEnv
from torchrl.modules import QValueActor
from torchrl.objectives import DQNLoss

from rnncheck.pipeline.copying.copies import CannotCopy, Copier, copy_of
from rnncheck.pipeline.copying.restoring import Restored

Function = Callable[..., Any]


def weight_of(net: nn.Module) -> Tensor:
    return next(net.parameters())


def changed(made: Any, net: nn.Module) -> bool:
    """Whether running ``made`` and stepping what it uses changes ``net``."""
    before = weight_of(net).detach().clone()
    made(torch.ones(1, 2)).sum().backward()
    return weight_of(net).grad is not None or not torch.equal(before, weight_of(net))


class Holder(nn.Module):
    """A network with one more thing in it."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.net = nn.Linear(2, 1)
        self.held = held

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x)
        return out


def graphed() -> Tensor:
    return torch.ones(2, requires_grad=True) * 2


REFUSED = {
    "a tensor with a graph": graphed,
    "tensors with graphs in a dict": lambda: {"h": [graphed()]},
    "a tensordict with graphs": lambda: TensorDict({"h": graphed()}, [2]),
    "a lock": threading.Lock,
    "a reentrant lock": threading.RLock,
    "what a thread keeps": threading.local,
    "a number that processes share": lambda: multiprocessing.Value("i", 3),
    "an array that processes share": lambda: multiprocessing.Array("d", [1.0, 2.0]),
    "a lock of several processes": multiprocessing.Lock,
    "an event of several processes": multiprocessing.Event,
    "a module of Python": lambda: types,
    "an open file": lambda: Path(__file__).open(),  # noqa: SIM115
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_what_deepcopy_refuses_is_copied(make: Callable[[], Any]) -> None:
    holder = Holder(make())
    if not isinstance(holder.held, TensorDict):
        with pytest.raises((TypeError, RuntimeError)):
            copy.deepcopy(holder)
    made = copy_of(holder, "the policy")
    assert torch.equal(weight_of(made), weight_of(holder))
    assert not changed(made, holder)
    assert made.held is not holder.held or isinstance(made.held, types.ModuleType)


def test_a_graph_is_cut_and_the_values_stay() -> None:
    holder = Holder(graphed())
    made = copy_of(holder, "it")
    assert made.held.grad_fn is None
    assert made.held.tolist() == [2, 2]
    assert holder.held.grad_fn is not None
    with torch.no_grad():
        made.held.fill_(0)
    assert holder.held.tolist() == [2, 2]


def test_a_number_that_processes_share_is_counted_apart() -> None:
    number = multiprocessing.Value("i", 3)
    made = copy_of(number, "it")
    made.value += 1
    assert (number.value, made.value) == (3, 4)


def test_a_file_is_read_on_where_it_stood_and_written_to_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("abc")
    with file.open() as read, file.open("a") as written:
        read.read(1)
        there, nowhere = copy_of([read, written], "it")
        nowhere.write("x")
        nowhere.close()
        assert there.read() == "bc"
        there.close()
        assert read.read() == "bc"
    assert file.read_text() == "abc"


def in_a_cell(net: nn.Module) -> Function:
    return lambda x: net(x)


def two_deep(net: nn.Module) -> Function:
    inner = in_a_cell(net)

    def outer(x: Tensor) -> Any:
        return inner(x) if x is not None else outer(x)

    return outer


def in_a_default(net: nn.Module) -> Function:
    def run(x: Tensor, *, by: nn.Module = net) -> Any:
        return by(x)

    return run


def in_a_wrapper(net: nn.Module) -> Function:
    return torch.enable_grad()(in_a_cell(net))


def in_a_partial(net: nn.Module) -> Function:
    return functools.partial(lambda by, x: by(x), net)


def as_a_method(net: nn.Module) -> Function:
    return net.forward


def in_a_vmap(net: nn.Module) -> Function:
    return torch.vmap(lambda x: net(x))


def of_the_module(net: nn.Module) -> Function:
    namespace: dict[str, Any] = {"net": net, "other": lambda: 1 / 0}
    code = "def inner(x): return net(x)\ndef run(x): return inner(x)\n"
    exec(compile(code, "<typed in>", "exec"), namespace)
    run: Function = namespace["run"]
    return run


HOLDING = [
    in_a_cell, two_deep, in_a_default, in_a_wrapper, in_a_partial, as_a_method, in_a_vmap,
    of_the_module,
]  # fmt: skip


def test_a_writer_of_rows_keeps_its_dialect_and_writes_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    with path.open("w") as file:
        made = copy_of(csv.DictWriter(file, ["loss"], delimiter=";"), "it")
        made.writerow({"loss": 1.0})
        assert made.writer.dialect.delimiter == ";"
    assert path.read_text() == ""


class Entries(dict[str, Tensor]):
    """Its entries are attributes, and asking for another one raises KeyError."""

    __getattr__ = dict.__getitem__


def test_attributes_that_refuse_keep_nothing_from_being_copied_and_put_back() -> None:
    held = Entries(memory=torch.zeros(3))
    made = copy_of(held, "it")
    made.memory.fill_(1.0)
    assert type(made) is Entries
    assert held.memory.tolist() == [0, 0, 0]
    with Restored(held):
        held.memory.fill_(2.0)
    assert held.memory.tolist() == [0, 0, 0]


class Columns(dict[str, Any]):
    """A key that is no text picks steps out of all entries, as torch-ac's DictList does."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return super().__getitem__(key)
        return Columns({name: one[key] for name, one in self.items()})

    def __setitem__(self, key: Any, item: Any) -> None:
        for name, one in item.items():
            dict.__getitem__(self, name)[key] = one


class Ordered(OrderedDict[str, Any]):
    """The same of a dict with an order of its own."""

    def __setitem__(self, key: Any, item: Any) -> None:
        raise TypeError("written by no one")


def test_a_dict_with_a_setter_of_its_own_is_copied() -> None:
    held = Columns(x=torch.arange(4.0), y=torch.ones(4))
    held.note = held["x"]  # type: ignore[attr-defined]
    made = copy_of(held, "the loss")
    assert type(made) is Columns and list(made) == ["x", "y"]
    assert torch.equal(made["x"], held["x"]) and made["x"] is not held["x"]
    assert made.note is made["x"]
    made[1:3] = {"x": torch.zeros(2)}
    assert made["x"].tolist() == [0, 0, 0, 3] and held["x"].tolist() == [0, 1, 2, 3]


def test_its_own_setter_is_no_reason_to_lose_the_order() -> None:
    held = Ordered()
    for name in ("b", "a"):
        OrderedDict.__setitem__(held, name, torch.ones(1))
    made = copy_of(held, "the loss")
    assert type(made) is Ordered and list(made) == ["b", "a"]
    made.move_to_end("b")
    assert (list(made), list(held)) == (["a", "b"], ["b", "a"])


@pytest.mark.parametrize("make", HOLDING)
def test_a_function_is_copied_with_the_network_it_calls(make: Callable[..., Function]) -> None:
    net = nn.Linear(2, 1)
    function = make(net)
    made, beside = copy_of((function, net), "the loss")
    assert not changed(made, net)
    assert weight_of(beside).grad is not None  # the two share the network, as they did
    assert torch.equal(made(torch.ones(1, 2)), function(torch.ones(1, 2)))
    assert changed(function, net)


@pytest.mark.parametrize("one", [torch.relu, weight_of, Holder, len, in_a_cell])
def test_what_holds_nothing_is_its_own_copy(one: Any) -> None:
    assert copy_of(one, "it") is one


def test_cells_that_functions_share_are_shared_by_their_copies() -> None:
    def counting() -> tuple[Function, Function]:
        count = 0

        def up() -> None:
            nonlocal count
            count += 1

        return up, lambda: count

    up, told = counting()
    new_up, new_told = copy_of((up, told), "it")
    new_up()
    assert (told(), new_told()) == (0, 1)


def test_parameters_stay_shared_between_policy_loss_and_optimizer() -> None:
    actor = QValueActor(nn.Linear(3, 2), in_keys=["observation"], action_space="categorical")
    loss = DQNLoss(actor, action_space="categorical", delay_value=False)
    optimizer = torch.optim.SGD(loss.parameters(), lr=1.0)
    before = [p.detach().clone() for p in actor.parameters()]
    copier = Copier(lasting=True)
    policy, objective = copier.whole(actor, "the policy"), copier.whole(loss, "the loss")
    stepped = copier.whole(optimizer, "the optimizer")
    assert [*map(id, policy.parameters())] == [*map(id, objective.parameters())]
    assert [*map(id, stepped.param_groups[0]["params"])] == [*map(id, policy.parameters())]
    for parameter in objective.parameters():
        parameter.grad = torch.ones_like(parameter)
    stepped.step()
    assert all(torch.equal(p, q) for p, q in zip(actor.parameters(), before, strict=True))
    assert not any(torch.equal(p, q) for p, q in zip(policy.parameters(), before, strict=True))
    assert copier.whole([policy], "what holds the copy")[0] is policy


def test_the_parameters_of_a_loss_are_copied_with_their_kind() -> None:
    inner = TensorDict({"w": nn.Parameter(torch.ones(2))}, [])
    params = TensorDictParams(inner, no_convert=True)
    made = copy_of(params, "it")
    assert type(made) is TensorDictParams
    assert made.no_convert is True
    assert [name for name, _ in made.named_parameters()] == ["w"]
    assert made["w"] is not params["w"]


def test_a_buffer_is_copied() -> None:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(8), batch_size=2, prefetch=1)
    buffer.extend(TensorDict({"x": torch.zeros(4)}, [4]))
    made = copy_of(buffer, "the buffer")
    made.extend(TensorDict({"x": torch.ones(4)}, [4]))
    made.sample()
    assert (len(buffer), len(made)) == (4, 8)
    assert buffer[:]["x"].sum() == 0


def test_ordered_entries_and_hooks_are_copied_and_what_is_shared_stays_shared() -> None:
    empty: OrderedDict[str, Tensor] = OrderedDict()
    named = OrderedDict(weight=torch.ones(1))
    named._metadata = {"version": 1}  # type: ignore[attr-defined]  # as a state_dict has it
    held, again, other = copy_of([empty, empty, named], "the lot")
    assert held is again
    assert held is not empty
    held["new"] = torch.zeros(1)
    assert not empty
    assert other["weight"] is not named["weight"]
    assert vars(other) == {"_metadata": {"version": 1}}

    module = nn.Linear(2, 2)
    twin = copy_of(module, "the module")
    twin.register_forward_hook(lambda *_: None)
    assert not module._forward_hooks


def test_a_generator_goes_its_own_way() -> None:
    generator = torch.Generator().manual_seed(3)
    made = copy_of(generator, "it")
    assert torch.equal(
        torch.rand(2, generator=made), torch.rand(2, generator=generator.clone_state())
    )
    assert generator.initial_seed() == 3


def counting() -> Any:
    yield 1


def test_what_cannot_be_copied_is_named_with_its_place() -> None:
    holder = Holder({"queue": [counting()]})
    with pytest.raises(CannotCopy) as caught:
        copy_of(holder, "the policy")
    said = str(caught.value)
    assert said.startswith("the policy cannot be copied (held.queue.0): TypeError: cannot pickle")
    assert "generator" in said


def test_a_cell_that_cannot_be_copied_is_named() -> None:
    steps = counting()
    with pytest.raises(CannotCopy, match=r"the loss cannot be copied \(steps\): TypeError"):
        copy_of(lambda: next(steps), "the loss")


@pytest.mark.usefixtures("forked_workers")
def test_an_env_in_a_closure_is_handed_on_whole() -> None:
    env = ParallelEnv(2, lambda: GymEnv("CartPole-v1"))
    try:
        env.reset()
        net = nn.Linear(2, 1)
        made = copy_of((lambda x: net(x) if env.batch_size else None), "the loss")
        assert not changed(made, net)
        assert not env.is_closed
    finally:
        env.close()


class Spoken(nn.Parameter):
    """A parameter that nobody may ask for its words."""

    def __repr__(self) -> str:
        raise AssertionError


def test_what_stands_under_a_parameter_is_not_put_in_words() -> None:
    """As the state of an optimiser does: its numbers would be printed for each copy."""
    held = {Spoken(torch.ones(2)): {"step": torch.zeros(1)}}
    ((key, value),) = copy_of(held, "the state").items()
    assert torch.equal(key, torch.ones(2))
    assert torch.equal(value["step"], torch.zeros(1))
    held[next(iter(held))]["step"] = (one for one in ())  # type: ignore[assignment]
    with pytest.raises(CannotCopy, match=r"the state cannot be copied \(Spoken\.step\)"):
        copy_of(held, "the state")
