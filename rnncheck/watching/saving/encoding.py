"""Objects to the forms of a saved run. What cannot be one raises CannotKeep, with where it is."""

from __future__ import annotations

import argparse
import collections
import copy
import copyreg
import enum
import functools
import itertools
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.envs import EnvBase
from torchrl.objectives import LossModule

from rnncheck.numerics.bits import raw_bits
from rnncheck.pipeline.copying.handles import is_namespace
from rnncheck.pipeline.subject.modes import called_in_mode
from rnncheck.watching.forms.held_states import InsideOf
from rnncheck.watching.forms.named_switches import OwnSwitch
from rnncheck.watching.forms.plain_loss import run_lines
from rnncheck.watching.forms.plain_pass import CallPass
from rnncheck.watching.forms.plain_policy import PlainEnv, PlainPolicy
from rnncheck.watching.forms.shown_before import ShownBefore
from rnncheck.watching.saving.code_forms import function_node
from rnncheck.watching.saving.definitions import read_globally
from rnncheck.watching.saving.env_forms import env_node, shown_node
from rnncheck.watching.saving.forms import AT, DTYPES, NAMESPACES
from rnncheck.watching.saving.import_paths import CannotKeep, Home, path_of
from rnncheck.watching.saving.number_forms import (
    array_node,
    dtype_node,
    generator_node,
    torch_generator_node,
)
from rnncheck.watching.saving.plain_forms import (
    call_pass_node,
    inside_node,
    plain_env_node,
    plain_policy_node,
    registered_node,
    rollout_loss_node,
    vector_node,
)
from rnncheck.watching.seams.lines import around_of
from rnncheck.watching.seams.nowhere import Nowhere
from rnncheck.watching.seen import Making

MOST_BYTES = 512 * 2**20  # of tensors: chosen, some hundred times what a small agent has
_NEWOBJ = object().__reduce_ex__(4)[0]  # what pickle makes an object of a class by
_MOST_BITS = 63  # of a whole number
_MAIN = "__main__"


class Encoder:
    """Encodes what belongs together: what two objects share is kept once."""

    def __init__(self, home: Home, makings: Mapping[int, Making]) -> None:
        self.home, self.makings = home, makings
        self.modules: set[str] = set()  # that are named
        self.globals: dict[str, Any] = {}  # of the script: what kept functions of it read
        self.nodes: list[dict[str, Any] | None] = []
        self.data = bytearray()
        self._known: dict[int, int] = {}
        self._read: set[int] = set()  # functions and classes whose globals are kept, by id
        self._alive: list[Any] = []  # as long as their ids are keys

    def whole(self, value: Any) -> Any:
        """The form of ``value``; where it cannot be kept nothing of it stays behind."""
        count, size = len(self.nodes), len(self.data)
        before = dict(self._known), dict(self.globals), set(self._read)
        try:
            return self.form(value)
        except Exception as error:  # whatever an object of the user's raises
            del self.nodes[count:], self.data[size:]
            self._known, self.globals, self._read = before
            if isinstance(error, CannotKeep):
                raise
            raise CannotKeep(f"{type(value).__name__}: {error}") from error

    def form(self, value: Any) -> Any:
        """The form of one object inside a whole."""
        if value is None or isinstance(value, bool) or type(value) is str:
            return value
        if type(value) is int and value.bit_length() <= _MOST_BITS:
            return value
        if id(value) not in self._known:
            number = len(self.nodes)
            self.nodes.append(None)
            self._known[id(value)] = number
            self._alive.append(value)
            self.nodes[number] = self._node(value)
        return {AT: self._known[id(value)]}

    def _node(self, value: Any) -> dict[str, Any]:
        for kind, make in _KINDS:
            if isinstance(value, kind):
                return make(self, value)
        return self.object(value)

    def object(self, value: Any) -> dict[str, Any]:
        """What pickle would be told of it, where that is its class and its state."""
        registered = copyreg.dispatch_table.get(type(value))
        told = value.__reduce_ex__(4) if registered is None else registered(value)
        make, args, state, items, pairs, setter = (*told, *[None] * 6)[:6]
        plain = make is _NEWOBJ and not items and not pairs and setter is None
        if not plain or args[1:]:
            raise CannotKeep(f"a {type(value).__name__} cannot be kept without pickle")
        return {
            "kind": "object",
            "of": self.path(args[0]),
            "state": self.form(_state(value, state)),
        }

    def path(self, value: Any) -> str:
        """The import path of a class or function."""
        told = path_of(value, self.home, partly=True)
        self.modules.add(told.partition(":")[0])
        self.reads(value)
        return told

    def module(self, name: str) -> str:
        """What the module is imported as."""
        main = name == _MAIN
        if main and self.home.obstacle and not self.home.fixed:
            raise CannotKeep(f"it is the script's, and {self.home.obstacle}")
        self.modules.add(self.home.name if main else name)
        return self.home.name if main else name

    def reads(self, value: Any) -> None:
        """Keep the globals that a function or class of the script reads, where only its definitions
        are there later on."""
        if value.__module__ != _MAIN or not self.home.obstacle or id(value) in self._read:
            return
        self._read.add(id(value))
        held = vars(sys.modules[_MAIN])
        for name in sorted(read_globally(value) & held.keys()):
            if name not in self.home.fixed and name not in self.globals:
                self.globals[name] = None  # so that what reads itself comes to an end
                self.globals[name] = self._global(name, held[name], value)
            elif isinstance(held[name], (type, types.FunctionType)):
                self.reads(held[name])

    def _global(self, name: str, held: Any, reader: Any) -> Any:
        try:
            return self.form(held)
        except Exception as error:
            said = error if isinstance(error, CannotKeep) else f"{type(held).__name__}: {error}"
            raise CannotKeep(f"{reader.__qualname__} reads {name}: {said}") from error

    def tensor(self, value: Tensor) -> dict[str, Any]:
        """Its bytes go beside the forms."""
        if value.is_sparse or value.is_quantized or str(value.dtype)[6:] not in DTYPES:
            raise CannotKeep(f"a tensor of {value.dtype} and layout {value.layout}")
        raw = raw_bits(value).numpy().tobytes()
        if len(self.data) + len(raw) > MOST_BYTES:
            raise CannotKeep(f"it has more than {MOST_BYTES // 2**20} MiB of tensors")
        begin = len(self.data)
        self.data += raw
        return {
            "kind": "tensor",
            "dtype": str(value.dtype)[6:],
            "shape": list(value.shape),
            "begin": begin,
            "parameter": isinstance(value, nn.Parameter),
            "trained": value.requires_grad and value.is_leaf,
        }


def _state(value: Any, told: Any) -> Any:
    """What the object holds: TensorDictModule would tell its function as a pickle."""
    return dict(vars(value)) if isinstance(value, TensorDictModule) else told


def _number(encoder: Encoder, value: float) -> dict[str, Any]:
    return {"kind": "float", "is": value.hex()}


def _listed(kind: str) -> Callable[[Encoder, Any], dict[str, Any]]:
    def encode(encoder: Encoder, value: Any) -> dict[str, Any]:
        if type(value) not in (list, tuple, set, frozenset, torch.Size, collections.deque):
            raise CannotKeep(f"a {type(value).__name__} cannot be kept without pickle")
        return {"kind": kind, "of": [encoder.form(one) for one in value]}

    return encode


def _mapping(encoder: Encoder, value: dict[Any, Any]) -> dict[str, Any]:
    kinds: dict[type, str] = {dict: "dict", collections.OrderedDict: "ordered"}
    if type(value) not in kinds:
        raise CannotKeep(f"a {type(value).__name__} cannot be kept without pickle")
    if is_namespace(value):
        return {"kind": "globals", "of": encoder.module(value["__name__"])}
    pairs = [[encoder.form(key), encoder.form(item)] for key, item in value.items()]
    return {"kind": kinds[type(value)], "of": pairs}


def _default(encoder: Encoder, value: collections.defaultdict[Any, Any]) -> dict[str, Any]:
    pairs = [[encoder.form(key), encoder.form(item)] for key, item in value.items()]
    return {"kind": "default", "of": pairs, "made": encoder.form(value.default_factory)}


def _namespace(encoder: Encoder, value: Any) -> dict[str, Any]:
    if type(value) not in NAMESPACES.values():
        raise CannotKeep(f"a {type(value).__name__} cannot be kept without pickle")
    return {"kind": "namespace", "of": type(value).__name__, "held": encoder.form(vars(value))}


def _iterator(encoder: Encoder, value: Any) -> dict[str, Any]:
    """What is left of it; TorchRL's MLP keeps those that it was built by."""
    return {"kind": "iterator", "of": [encoder.form(one) for one in copy.copy(value)]}


def _repeated(encoder: Encoder, value: Any) -> dict[str, Any]:
    return {"kind": "repeat", "of": [encoder.form(one) for one in value.__reduce__()[1]]}


def _tensordict(encoder: Encoder, value: TensorDictBase) -> dict[str, Any]:
    pairs = [[key, encoder.form(item)] for key, item in value.to_tensordict().items()]
    return {"kind": "tensordict", "of": pairs, "batch": list(value.batch_size)}


def _enumerated(encoder: Encoder, value: enum.Enum) -> dict[str, Any]:
    return {"kind": "enum", "of": encoder.path(type(value)), "name": value.name}


def _named(encoder: Encoder, value: Any) -> dict[str, Any]:
    return {"kind": "name", "of": encoder.path(value)}


def _partial(encoder: Encoder, value: functools.partial[Any]) -> dict[str, Any]:
    if value.func is run_lines:
        return rollout_loss_node(encoder, *value.args)
    mode, inner = called_in_mode(value)
    if inner is not value:
        return _in_mode(encoder, mode, inner)
    parts = (value.func, value.args, value.keywords)
    return {"kind": "partial", "of": [encoder.form(one) for one in parts]}


def _in_mode(encoder: Encoder, mode: Any, inner: Any) -> dict[str, Any]:
    if not isinstance(mode, OwnSwitch):
        return {"kind": "in mode", "recurrent": mode, "of": encoder.form(inner)}
    parts = (mode.recurrent, mode.policy, mode.switches, inner)
    return {"kind": "switched", "of": [encoder.form(one) for one in parts]}


def _method(encoder: Encoder, value: types.MethodType) -> dict[str, Any]:
    if getattr(type(value.__self__), value.__name__, None) is not value.__func__:
        raise CannotKeep(f"the method {value.__name__} is not its class's own")
    return {"kind": "method", "of": encoder.form(value.__self__), "name": value.__name__}


def _function(encoder: Encoder, value: types.FunctionType) -> dict[str, Any]:
    """By its name, else by its code in its file."""
    inner = "<" in value.__qualname__ or around_of(value) is not None
    return function_node(encoder, value) if inner else _named(encoder, value)


def _loss(encoder: Encoder, value: LossModule) -> dict[str, Any]:
    making = encoder.makings.get(id(value))
    if making is None:
        raise CannotKeep(f"how the {type(value).__name__} was made was not seen")
    made = [list(making.args), making.kwargs, [list(call) for call in making.calls]]
    state = {name: one for name, one in value.state_dict().items() if isinstance(one, Tensor)}
    parts = [encoder.form(one) for one in (*made, state)]
    return {"kind": "loss", "of": encoder.path(type(value)), "made": parts}


_KINDS: tuple[tuple[Any, Callable[[Encoder, Any], dict[str, Any]]], ...] = (
    ((np.ndarray, np.generic), array_node),  # np.float64 is a float as well
    (np.dtype, dtype_node),
    (np.random.Generator, generator_node),
    (torch.Generator, torch_generator_node),
    (float, _number),
    (TensorDictBase, _tensordict),
    (Tensor, Encoder.tensor),
    (EnvBase, env_node),
    (LossModule, _loss),
    (ShownBefore, shown_node),
    (PlainEnv, plain_env_node),
    (gymnasium.Env, registered_node),
    (gymnasium.vector.VectorEnv, vector_node),
    (PlainPolicy, plain_policy_node),
    (CallPass, call_pass_node),
    (InsideOf, inside_node),
    ((argparse.Namespace, types.SimpleNamespace), _namespace),
    (Nowhere, lambda *_: {"kind": "nowhere"}),
    (torch.dtype, lambda _, value: {"kind": "dtype", "is": str(value)[6:]}),
    (torch.device, lambda _, value: {"kind": "device"}),
    (torch.Size, _listed("size")),
    (list, _listed("list")),
    (tuple, _listed("tuple")),
    ((set, frozenset), _listed("set")),
    (collections.defaultdict, _default),
    (dict, _mapping),
    ((type(iter([])), type(iter(()))), _iterator),
    (itertools.repeat, _repeated),
    (enum.Enum, _enumerated),
    (functools.partial, _partial),
    (types.MethodType, _method),
    (types.FunctionType, _function),
    ((type, types.BuiltinFunctionType), _named),
)
