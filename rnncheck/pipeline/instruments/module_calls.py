"""Looking inside a loss: what its recurrent modules read and write while it runs, whoever holds
them."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.utils.weak import WeakIdKeyDictionary

from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.instruments.vmap import (
    has_no_graph_of_its_own,
    is_batched,
    under_vmap,
)
from rnncheck.pipeline.keys import Key, declared
from rnncheck.pipeline.placing import (
    forked_rng,
    on_cpu,
    place_of,
    placed,
    random_states,
    set_random_states,
)
from rnncheck.pipeline.subject.subject import next_key

CarryState = dict[Key, Tensor]


@dataclass(frozen=True)
class ModuleCall:
    """One forward pass of a recurrent module inside a loss: what it is fed and what it gives, as in
    its batch, on the CPU; the probe lies with the module."""

    module: nn.Module
    carry: tuple[Key, ...]
    output: Key
    x: Tensor
    y: Tensor
    given: TensorDictBase  # all that it read
    shape: torch.Size  # batch shape of the tensordict that it ran on
    again: Tensor | None = None  # y from the other states
    probe: Tensor | None = None  # zeros that were added to x: where y's gradient is asked for
    trained: bool = False  # one of the parameters that it ran with wants a gradient
    along: tuple[int, ...] = ()  # the batch dimensions that its memory runs along, where asked


@dataclass(frozen=True)
class _Open:
    """A pass that runs: what it was given, and the input that a probe was added to."""

    module: nn.Module
    td: TensorDictBase | None
    given: TensorDictBase | None
    random: tuple[Tensor, ...]
    fed: tuple[Key, Tensor] | None
    probe: Tensor | None


OtherStates = Callable[[int, nn.Module, TensorDictBase], CarryState | None]


class ModuleCalls:
    """Notes every pass of a carrying module while the context is open.

    The hooks are global: a network is seen wherever the loss keeps it. Passes under vmap are not
    noted. ``other`` gets the number of a pass, its module and what it reads; from the states that
    it gives the module is run once more, on the spot, with the weights and the random numbers of
    that pass. With ``probing``, passes that build a graph get a probe at their input, so that a
    loss that detaches its batch can be asked as well. With ``timing`` each module is run again to
    see along which dimensions it remembers.
    """

    def __init__(
        self, other: OtherStates | None = None, *, probing: bool = False, timing: bool = False
    ) -> None:
        self.passes: list[ModuleCall] = []
        self._other, self._probing, self._timing = other, probing, timing
        self._open: list[_Open] = []
        self._again = False
        self._known: MutableMapping[nn.Module, bool] = WeakIdKeyDictionary()

    def __enter__(self) -> ModuleCalls:
        self._handles = [
            hooks.register_module_forward_pre_hook(self._reads),
            hooks.register_module_forward_hook(self._wrote, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _carries(self, module: nn.Module) -> bool:
        """The module has states, and no part of it has."""
        if module not in self._known:
            inner = (part for part in all_modules(module) if part is not module)
            self._known[module] = bool(state_keys(module)) and not any(map(state_keys, inner))
        return self._known[module]

    def _reads(self, module: nn.Module, args: Any) -> None:
        if self._again or not self._carries(module):
            return
        td = _tensordict(args)
        read = None if td is None else td.select(*declared(module, "in_keys"), strict=False)
        given = None if read is None or under_vmap(read) else read.clone()  # vmap cannot clone it
        fed = None if td is None else main_input(module, td)
        probe = self._probe(td, fed)
        self._open.append(_Open(module, td, given, random_states(), fed, probe))

    def _probe(self, td: TensorDictBase | None, fed: tuple[Key, Tensor] | None) -> Tensor | None:
        if not self._probing or td is None or fed is None or not torch.is_grad_enabled():
            return None
        key, x = fed
        if has_no_graph_of_its_own() or td.is_locked:
            return None
        probe = torch.zeros_like(x).requires_grad_()
        td.set(key, x + probe)
        return probe

    def _wrote(self, module: nn.Module, args: Any, result: Any) -> None:
        if self._again or not self._open or self._open[-1].module is not module:
            return
        one = self._open.pop()
        if one.probe is not None and one.td is not None:
            _restore(module, one.td, one.fed)
        td = result if isinstance(result, TensorDictBase) else one.td
        if one.given is None or one.fed is None or td is None:
            return
        x, (key, y) = one.fed[1].detach(), _gave(module, td)
        if y is None or is_batched(y) or is_batched(x):
            return
        again = self._from_others(module, one.given, key, one.random)
        shape, keys = td.batch_size, state_keys(module)
        trained = any(p.requires_grad for p in module.parameters())
        along = self._along(module, one, key) if self._timing else ()
        seen = (on_cpu(x), on_cpu(y), on_cpu(one.given))
        self.passes.append(
            ModuleCall(module, keys, key, *seen, shape, again, one.probe, trained, along)
        )

    def _from_others(
        self, module: nn.Module, given: TensorDictBase, key: Key, random: tuple[Tensor, ...]
    ) -> Tensor | None:
        if self._other is None:
            return None
        states = self._other(len(self.passes), module, on_cpu(given))
        if states is None:
            return None
        td = given.clone()
        for name, value in states.items():
            td.set(name, placed(value, place_of(given)))
        again: Tensor = on_cpu(self._rerun(module, td, key, random))
        return again

    def _rerun(
        self, module: nn.Module, td: TensorDictBase, key: Key, random: tuple[Tensor, ...]
    ) -> Tensor:
        self._again = True
        try:
            with forked_rng(), torch.no_grad():
                set_random_states(random)
                y: Tensor = module(td).get(key)
                return y
        finally:
            self._again = False

    def _along(self, module: nn.Module, one: _Open, key: Key) -> tuple[int, ...]:
        """The dimensions in which a change of what is read first reaches what is given behind."""
        if one.given is None or one.fed is None:
            return ()
        base, found = self._rerun(module, one.given.clone(), key, one.random), []
        for dim, size in enumerate(one.given.batch_size):
            td, x = one.given.clone(), one.fed[1].detach().clone()
            x.narrow(dim, 0, 1).add_(1.0)
            moved = self._rerun(module, td.set(one.fed[0], x), key, one.random)
            behind = (moved != base).narrow(dim, 1, size - 1)
            if bool(behind.any()):
                found.append(dim)
        return tuple(found)


def _restore(module: nn.Module, td: TensorDictBase, fed: tuple[Key, Tensor] | None) -> None:
    """Take the probe out of what was read, where the module has not written its output there."""
    if fed is not None and fed[0] not in declared(module, "out_keys"):
        td.set(*fed)


def _tensordict(args: Any) -> TensorDictBase | None:
    return next((a for a in args if isinstance(a, TensorDictBase)), None)


def main_input(module: nn.Module, td: TensorDictBase) -> tuple[Key, Tensor] | None:
    """The module's first floating input that is no state."""
    states = state_keys(module)
    found = ((key, td.get(key, None)) for key in declared(module, "in_keys") if key not in states)
    dense = ((k, v) for k, v in found if isinstance(v, Tensor) and v.is_floating_point())
    return next(dense, None)


def _gave(module: nn.Module, td: TensorDictBase) -> tuple[Key, Tensor | None]:
    """The module's first output, before the states that it leaves."""
    keys = sorted(declared(module, "out_keys"), key=lambda key: key[0] == "next")
    value = td.get(keys[0], None)
    return keys[0], value if isinstance(value, Tensor) else None


def state_keys(module: nn.Module) -> tuple[Key, ...]:
    """The keys that the module reads and writes back under ``next``."""
    reads, writes = declared(module, "in_keys"), declared(module, "out_keys")
    return tuple(key for key in reads if next_key(key) in writes)


def state_keys_in(loss: Any) -> set[Key]:
    """The state keys of every network of a loss, also of those that TorchRL keeps without their
    parameters."""
    roots = [loss, *(vars(loss).values() if hasattr(loss, "__dict__") else ())]
    modules = (part for root in roots if isinstance(root, nn.Module) for part in all_modules(root))
    return {key for part in modules for key in state_keys(part)}
