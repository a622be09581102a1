"""Tools for mending the state keys of a pipeline that is built again."""

from __future__ import annotations

from functools import partial
from typing import Any

from tensordict import TensorDictBase
from torch import nn

from rnncheck.pipeline.keys import Key, declared
from rnncheck.pipeline.plant.module_changes import Call, wrap
from rnncheck.pipeline.subject.subject import carriers, next_key

Renamed = dict[str, dict[Key, Key]]  # by path of a module in its network, old keys to new ones


def in_the_way(policy: nn.Module, critic: nn.Module | None) -> tuple[Renamed, Renamed]:
    """Of policy and critic the modules that carry under a key that another one uses before them.

    One module that both run is no other one.
    """
    used, seen = set[Key](), set[int]()
    found: tuple[Renamed, Renamed] = ({}, {})
    for network, renamed in zip((policy, critic), found, strict=True):
        for one in [] if network is None else carriers(network):
            marks = {id(one.module), *map(id, one.module.parameters())}
            if not marks & seen and set(one.keys) & used:
                renamed[one.path] = {key: _own(key, used) for key in one.keys}
            used |= {*one.keys, *renamed.get(one.path, {}).values()}
            seen |= marks
    return found


def _own(key: Key, used: set[Key]) -> Key:
    names = ((*key[:-1], f"{key[-1]}_{number}") for number in range(2, len(used) + 3))
    return next(name for name in names if name not in used)


def with_own_keys(network: nn.Module, renamed: Renamed) -> nn.Module:
    """``network`` whose modules at these paths, and what they stand in, name the new keys."""
    for path, keys in renamed.items():
        own = network.get_submodule(path)
        both = {**keys, **{next_key(old): next_key(new) for old, new in keys.items()}}
        for name in ("in_keys", "out_keys"):
            if declared(own, name):
                setattr(own, name, [both.get(key, key) for key in declared(own, name)])
        wrap(own, partial(_under_both, both))
    for container in reversed(list(network.modules())):
        _declare_again(container)
    return network


def _under_both(
    keys: dict[Key, Key], _module: nn.Module, call: Call, td: TensorDictBase
) -> TensorDictBase:
    """The call of a module that reads the new keys, or only says so: the old ones hold the same,
    and are as before behind it."""
    before = {key: td.get(key, None) for pair in keys.items() for key in pair}
    for old, new in keys.items():
        _put(td, old, before[new])
    out = call(td)
    for old, new in keys.items():
        if new[0] == "next" and out.get(new, None) is before[new]:
            _put(out, new, out.get(old, None))
        _put(out, old, before[old])
    return out


def _put(td: TensorDictBase, key: Key, value: Any) -> None:
    if value is not None:
        td.set(key, value)
    elif key in td.keys(include_nested=True):
        td.del_(key)


def _declare_again(container: nn.Module) -> None:
    """The keys of a network that is made of others, as these name them now."""
    parts = [part for part in container.children() if isinstance(part, nn.ModuleList)]
    inner = [module for part in parts for module in part if declared(module, "in_keys")]
    if not inner or not declared(container, "in_keys"):
        return
    reads, writes = dict[Key, None](), dict[Key, None]()
    for module in inner:
        reads |= dict.fromkeys(k for k in declared(module, "in_keys") if k not in writes)
        writes |= dict.fromkeys(declared(module, "out_keys"))
    container.in_keys, container.out_keys = list(reads), list(writes)  # type: ignore[assignment]
