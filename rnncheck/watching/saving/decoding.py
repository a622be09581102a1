"""The forms of a saved run to objects. Nothing is run but what the import of a module runs, and
what the classes that are named do with their state.
"""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.objectives import LossModule

from rnncheck.pipeline.guard.user_frames import sentence
from rnncheck.pipeline.subject.modes import in_mode_of
from rnncheck.watching.forms.named_switches import OwnSwitch
from rnncheck.watching.saving import code_forms, env_forms, number_forms, plain_forms
from rnncheck.watching.saving.forms import AT, DTYPES, NAMESPACES
from rnncheck.watching.saving.import_paths import CannotKeep, found_at, module_at
from rnncheck.watching.seams.nowhere import Nowhere

_HERE = Path(__file__).parent


class Malformed(Exception):
    """This was not written by ``--save``."""


class Decoder:
    """Makes the objects of one saved run, each once."""

    def __init__(
        self, nodes: list[Any], data: bytes, folders: tuple[Path, ...], script: str = ""
    ) -> None:
        self._nodes, self._data, self.folders, self._script = nodes, data, folders, script
        self._made: dict[int, Any] = {}
        self._open: set[int] = set()
        self._read = 0  # bytes of tensors

    def whole(self, form: Any) -> Any:
        """The object of a form. Raises CannotKeep where it cannot be made again, Malformed where it
        is none."""
        try:
            return self.part(form)
        except (CannotKeep, Malformed):
            raise
        except Exception as error:
            kind = Malformed if _is_ours(error) else CannotKeep
            raise kind(sentence(error)) from error

    def part(self, form: Any) -> Any:
        """The object of one form inside a whole."""
        if form is None or isinstance(form, (bool, int, str)):
            return form
        if not isinstance(form, dict) or set(form) != {AT} or type(form[AT]) is not int:
            raise Malformed("a form is none")
        number = form[AT]
        if number in self._made:
            return self._made[number]
        if not 0 <= number < len(self._nodes) or number in self._open:
            raise Malformed("a form stands for nothing")
        self._open.add(number)
        try:
            self._made[number] = self._node(number, self._nodes[number])
        except BaseException:
            self._made.pop(number, None)
            raise
        finally:
            self._open.discard(number)
        return self._made[number]

    def _node(self, number: int, node: Any) -> Any:
        make = _KINDS.get(node.get("kind")) if isinstance(node, dict) else None
        if make is None:
            raise Malformed("a node has no kind")
        return make(self, node, number)

    def early(self, number: int, made: Any) -> None:
        """What it holds may hold it."""
        self._made[number] = made

    def tensor(self, node: dict[str, Any], _number: int) -> Tensor:
        """Of the bytes beside the forms."""
        dtype, shape, begin = DTYPES[node["dtype"]], node["shape"], node["begin"]
        if not all(type(one) is int and one >= 0 for one in (*shape, begin)):
            raise Malformed("a tensor has no shape")
        count = 1
        for one in shape:
            count *= one
        end = begin + count * dtype.itemsize
        if end > len(self._data):
            raise Malformed("a tensor is cut off")
        self._read += end - begin
        if self._read > len(self._data):
            raise Malformed("tensors share their bytes")
        raw = bytearray(self._data[begin:end])
        plain = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
        made = plain.reshape(shape).clone()
        if node["parameter"]:
            return nn.Parameter(made, requires_grad=bool(node["trained"]))
        return made.requires_grad_(bool(node["trained"]))

    def found(self, told: Any) -> Any:
        """The class or function that is named."""
        return found_at(told, self.folders, self._script)

    def module(self, told: Any) -> types.ModuleType:
        """The user's module that is named."""
        return module_at(told, self.folders, self._script)


def _is_ours(error: Exception) -> bool:
    """Whether a form was not what it must be; else a class could not take its state up."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and Path(trace.tb_frame.f_code.co_filename).parent == _HERE


def _object(decoder: Decoder, node: dict[str, Any], number: int) -> Any:
    kind = decoder.found(node["of"])
    if not isinstance(kind, type):
        raise Malformed("an object has no class")
    new: Any = kind
    made = new.__new__(new)
    decoder.early(number, made)
    state = decoder.part(node["state"])
    if hasattr(made, "__setstate__") and not isinstance(made, TensorDictModule):
        made.__setstate__(state)
        return made
    # TensorDictModule's own way would read a pickle
    plain, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    made.__dict__.update(plain or {})
    for name, item in (slots or {}).items():
        object.__setattr__(made, name, item)
    return made


def _list(decoder: Decoder, node: dict[str, Any], number: int) -> list[Any]:
    made: list[Any] = []
    decoder.early(number, made)
    made.extend(decoder.part(one) for one in node["of"])
    return made


def _dict(kind: Callable[[], dict[Any, Any]]) -> Callable[[Decoder, dict[str, Any], int], Any]:
    def decode(decoder: Decoder, node: dict[str, Any], number: int) -> dict[Any, Any]:
        made = kind()
        decoder.early(number, made)
        for key, item in node["of"]:
            made[decoder.part(key)] = decoder.part(item)
        return made

    return decode


def _default(decoder: Decoder, node: dict[str, Any], _number: int) -> Any:
    factory = decoder.part(node["made"])
    if factory not in (None, dict, list, int, float, set):
        raise CannotKeep("a defaultdict that makes what is none of Python's own")
    pairs = ((decoder.part(key), decoder.part(item)) for key, item in node["of"])
    return collections.defaultdict(factory, pairs)


def _tensordict(decoder: Decoder, node: dict[str, Any], _number: int) -> TensorDict:
    found = {str(key): decoder.part(item) for key, item in node["of"]}
    return TensorDict(found, batch_size=torch.Size(node["batch"]))


def _enumerated(decoder: Decoder, node: dict[str, Any], _number: int) -> Any:
    kind = decoder.found(node["of"])
    if not (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        raise Malformed("an enumerated value has no class")
    return kind[node["name"]]


def _partial(decoder: Decoder, node: dict[str, Any], _number: int) -> Any:
    function, args, given = (decoder.part(one) for one in node["of"])
    return functools.partial(function, *args, **given)


def _in_mode(decoder: Decoder, node: dict[str, Any], _number: int) -> Any:
    return in_mode_of(bool(node["recurrent"]), decoder.part(node["of"]))


def _switched(decoder: Decoder, node: dict[str, Any], _number: int) -> Any:
    recurrent, policy, switches, inner = (decoder.part(one) for one in node["of"])
    return in_mode_of(OwnSwitch(recurrent, policy, switches), inner)


def _method(decoder: Decoder, node: dict[str, Any], _number: int) -> Any:
    owner = decoder.part(node["of"])
    function = getattr(type(owner), str(node["name"]), None)
    if not isinstance(function, types.FunctionType):
        raise CannotKeep(f"{type(owner).__name__} has no method {node['name']} any more")
    return types.MethodType(function, owner)


def _loss(decoder: Decoder, node: dict[str, Any], _number: int) -> LossModule:
    kind = decoder.found(node["of"])
    if not (isinstance(kind, type) and issubclass(kind, LossModule)):
        raise Malformed("a loss has no class")
    args, kwargs, calls, state = (decoder.part(one) for one in node["made"])
    made = kind(*args, **kwargs)
    for name, more, named in calls:
        if name not in ("set_keys", "make_value_estimator"):
            raise Malformed("a loss was set up by what it has not")
        getattr(made, name)(*more, **named)
    made.load_state_dict(state, strict=False)
    return made


def _listed(kind: Callable[[Any], Any]) -> Callable[[Decoder, dict[str, Any], int], Any]:
    return lambda decoder, node, _: kind([decoder.part(one) for one in node["of"]])


_KINDS: dict[Any, Callable[[Decoder, dict[str, Any], int], Any]] = {
    "float": lambda _, node, __: float.fromhex(node["is"]),
    "tensor": Decoder.tensor,
    "tensordict": _tensordict,
    "namespace": lambda decoder, node, _: NAMESPACES[node["of"]](**decoder.part(node["held"])),
    "nowhere": lambda *_: Nowhere(),
    "array": number_forms.array_again,
    "numpy dtype": number_forms.dtype_again,
    "numpy generator": number_forms.generator_again,
    "torch generator": number_forms.torch_generator_again,
    "dtype": lambda _, node, __: DTYPES[node["is"]],
    "device": lambda *_: torch.device("cpu"),
    "size": _listed(torch.Size),
    "list": _list,
    "tuple": _listed(tuple),
    "set": _listed(set),
    "dict": _dict(dict),
    "globals": lambda decoder, node, _: vars(decoder.module(node["of"])),
    "ordered": _dict(collections.OrderedDict),
    "default": _default,
    "iterator": _listed(iter),
    "repeat": _listed(lambda parts: itertools.repeat(*parts[:2])),
    "enum": _enumerated,
    "partial": _partial,
    "in mode": _in_mode,
    "switched": _switched,
    "method": _method,
    "name": lambda decoder, node, _: decoder.found(node["of"]),
    "code": code_forms.function_again,
    "object": _object,
    "loss": _loss,
    "transformed": env_forms.transformed,
    "batched": env_forms.batched,
    "gym": env_forms.gym,
    "shown before": env_forms.shown_entries,
    "plain env": plain_forms.plain_env_again,
    "registered env": plain_forms.registered_again,
    "vector env": plain_forms.vector_again,
    "inside of": plain_forms.inside_again,
    "plain policy": plain_forms.plain_policy_again,
    "call pass": plain_forms.call_pass_again,
    "rollout loss": plain_forms.rollout_loss_again,
}
