"""The seams at which a script trains: estimators, losses, optimisers, recurrent modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import FunctionType
from typing import Any
from weakref import ref

from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torchrl.envs import BurnInTransform
from torchrl.modules import GRUModule, LSTMModule
from torchrl.objectives import LossModule
from torchrl.objectives.value import ValueEstimatorBase

from rnncheck.pipeline.guard.user_frames import calling_place
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.watching.forms.switches import set_otherwise
from rnncheck.watching.observer import Watching, modes_now
from rnncheck.watching.seams.calls import one_after_the_other, writers_of
from rnncheck.watching.seams.graphs import nodes_of
from rnncheck.watching.seams.patching import hear_modules, kinds_of, replace
from rnncheck.watching.seen import KEPT, Called, copy_now

_COMPILED = "_orig_mod"  # under which `torch.compile` holds the module that it was given


def training_seams(watching: Watching, scope: ExitStack) -> None:
    """Open the seams until ``scope`` ends."""
    seen = watching.seen
    losses = _Losses(watching, seen.losses)
    replace(scope, LossModule, "__call__", losses)
    compiled = _Compiled(losses)
    hear_modules(watching, scope, compiled.called, compiled.gave)
    for kind, name in _parts():
        replace(scope, kind, name, _Parts(watching, seen.losses, vars(kind)[name]))
    replace(scope, LossModule, "convert_to_functional", _Wired(watching))
    replace(scope, ValueEstimatorBase, "__call__", _Estimates(watching, seen.estimators))
    replace(scope, BurnInTransform, "forward", _Transforms(watching, seen.transforms))
    replace(scope, ValueEstimatorBase, "__init__", _Made(watching))
    replace(scope, Optimizer, "__init__", _Optimiser(watching))
    for kind in (LSTMModule, GRUModule):
        replace(scope, kind, "__call__", _Counted(watching))
    hear_modules(watching, scope, _Plain(watching))


def update_seams(watching: Watching, scope: ExitStack) -> None:
    """Open those of the optimisers' steps until ``scope`` ends."""
    before = register_optimizer_step_pre_hook(lambda one, *_: watching.before_update(one))
    scope.callback(before.remove)
    after = register_optimizer_step_post_hook(lambda *_: watching.after_update())
    scope.callback(after.remove)


class _Calls:
    """Calls of a module on a tensordict, by the script itself."""

    def __init__(self, watching: Watching, into: list[Called]) -> None:
        self._watching, self._into = watching, into
        # By the module's id what with a graph its last call left in the batch.
        self._left = dict[int, list[ref[Tensor]]]()

    def __call__(self, original: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
        self.begins(module, args, kwargs)
        with self._watching.inside():
            result = original(module, *args, **kwargs)
        self.ends(module, args, result)
        return result

    def begins(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """It is about to be called."""
        if self._is_of_use():
            self._count(type(module).__name__)
            if args and isinstance(args[0], TensorDictBase):
                self._note(module, args[0])
                self._look_back(module, args[0])
                self._look_at(module, kwargs)

    def ends(self, module: Any, args: Any, result: Any) -> None:
        """It gave this."""
        if self._into is self._watching.seen.losses and self._watching.looks:
            self._gave(module, result)
            if args and isinstance(args[0], TensorDictBase):
                self._left[id(module)] = [ref(one) for one in _with_a_graph(args[0])]

    def _is_of_use(self) -> bool:
        return self._watching.looks

    def _look_back(self, module: Any, data: TensorDictBase) -> None:
        """What the script did with ``data`` before."""

    def _look_at(self, module: Any, given: dict[str, Any]) -> None:
        """What else it was called with."""

    def _gave(self, module: Any, result: Any) -> None:
        nodes = nodes_of(result)
        self._watching.seen.given[self._called(module)] = nodes
        if (known := self._known(module)) is not None:
            known.trains = known.trains or bool(nodes)

    def _called(self, module: Any) -> int:
        """What tells its result from others."""
        return id(module)

    def _known(self, module: Any) -> Called | None:
        return next((one for one in self._into if one.module is module), None)

    def _is_fed(self, module: Any, data: TensorDictBase) -> bool:
        """Whether something in it was computed with parameters that are trained, by others than the
        last call of the module: it may be called once for each of its networks."""
        left = [one() for one in self._left.get(id(module), ())]
        return any(all(one is not known for known in left) for one in _with_a_graph(data))

    def _count(self, name: str) -> None:
        seen = self._watching.seen
        if self._into is not seen.transforms:
            seen.judged[name] = seen.judged.get(name, 0) + 1

    def _fits(self, module: Any) -> bool:
        """Whether it is run as the module's own call runs it."""
        return True

    def _note(self, module: Any, data: TensorDictBase) -> None:
        if self._watching.seen.moved_on or not self._fits(module):
            return
        known = self._known(module)
        if known is None:
            known = Called(module, calling_place(4), modes_now())
            self._into.append(known)
        known.fed = known.fed or self._is_fed(module, data)
        if len(known.inputs) < KEPT:
            known.inputs.append(copy_now(data))


class _Transforms(_Calls):
    """Calls of a transform of batches, by the script or as one that its buffer has."""

    def _is_of_use(self) -> bool:
        return self._watching.looks or self._watching.draws


class _Losses(_Calls):
    """Calls of a loss module, of which one may leave it to its caller to reduce what it gives."""

    def _look_back(self, module: Any, data: TensorDictBase) -> None:
        known = self._known(module)
        if known is None:
            return
        _note_switches(known, self._watching)
        known.unreduced = known.unreduced or getattr(module, "reduction", None) == "none"
        looks = known.unreduced or known.added_to
        for look in self._watching.at_an_unreduced_loss if looks else ():
            look(sys._getframe(3), known, data)


class _Compiled:
    """Calls of a loss module that the script has compiled: nothing of what runs in it is seen."""

    def __init__(self, losses: _Losses) -> None:
        self._losses = losses

    def called(self, module: nn.Module, inputs: Any) -> None:
        """A module is about to run, maybe one that holds what was compiled."""
        if isinstance(inner := module._modules.get(_COMPILED), LossModule):
            self._losses.begins(inner, inputs, {})

    def gave(self, module: nn.Module, inputs: Any, *told: Any) -> None:
        """It has run, or raised."""
        if isinstance(inner := module._modules.get(_COMPILED), LossModule):
            self._losses.ends(inner, inputs, told[-1])


class _Parts(_Calls):
    """Calls of a part of a loss module, such as ``loss.actor_loss(batch)``: its batches are trained
    on as those of ``loss(batch)`` are, which all of its parts are in."""

    def __init__(self, watching: Watching, into: list[Called], part: FunctionType) -> None:
        super().__init__(watching, into)
        # Those named `…_loss` run in the mode of the module's own call, others in whichever is set.
        self._sets_its_mode = part.__code__ is LossModule.forward.__code__

    def _called(self, module: Any) -> int:
        return hash((id(self), id(module)))

    def _fits(self, module: Any) -> bool:
        """The module's own call sets recurrent mode."""
        if self._sets_its_mode:
            return True
        networks = self._watching.seen.networks_of(module).values()
        parts = (part for one in networks for part in one.modules())
        if modes_now().recurrent or not any(isinstance(p, LSTMModule | GRUModule) for p in parts):
            return True
        self._watching.seen.unjudged[str(calling_place(5))] = (
            f"a part of {type(module).__name__} is called out of recurrent mode, which the loss"
            " module's own call sets, and is not judged: call the part inside `with"
            " set_recurrent_mode(True)`, or the loss module itself"
        )
        return False


def _parts() -> Iterator[tuple[type, str]]:
    """The classes of TorchRL's losses, with the names of their methods that return a loss."""
    for kind in kinds_of(LossModule)[1:]:
        for name, value in list(vars(kind).items()):
            public = "loss" in name and name[:1] != "_" and isinstance(value, FunctionType)
            if public and kind.__module__.startswith("torchrl."):
                yield kind, name


class _Estimates(_Calls):
    """Calls of an estimator. One without a network gets values that the script made before: their
    network is what its lines called on the same tensordict."""

    def _look_back(self, module: Any, data: TensorDictBase) -> None:
        seen = self._watching.seen
        _note_switches(self._known(module), self._watching)
        known = any(owner is module for owner, _, _ in seen.networks)
        if known or seen.moved_on or getattr(module, "value_network", None) is not None:
            return
        found = list(writers_of([module.tensor_keys.value], data, self._watching.calls))
        if found:
            seen.networks.append((module, "value_network", one_after_the_other(found)))

    def _look_at(self, module: Any, given: dict[str, Any]) -> None:
        known, told = self._known(module), given.get("time_dim")
        if known is not None and isinstance(told, int):
            known.time_dim = told


def _note_switches(known: Called | None, watching: Watching) -> None:
    """How parts of who acts are set while a loss or an estimator runs for the first time."""
    if known is not None and len(known.inputs) == 1:
        known.switches = known.switches or set_otherwise(watching.seen.actor())


def _with_a_graph(data: TensorDictBase) -> list[Tensor]:
    """What in it was computed with parameters that are trained."""
    return [one for key in tensor_keys(data) if (one := data.get(key)).requires_grad]


class _Wired:
    """The networks that a loss is made of, before it takes their parameters."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    def __call__(
        self,
        original: Callable[..., Any],
        loss: Any,
        module: Any,
        module_name: str,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        self._watching.seen.networks.append((loss, module_name, module))
        return original(loss, module, module_name, *args, **kwargs)


class _Made:
    """The value network that an estimator is made of."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    def __call__(self, original: Callable[..., None], made: Any, *args: Any, **kwargs: Any) -> None:
        original(made, *args, **kwargs)
        network = kwargs.get("value_network")
        if network is not None and self._watching.looks:
            self._watching.seen.networks.append((made, "value_network", network))


class _Optimiser:
    """An optimiser that the script makes."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    def __call__(self, original: Callable[..., None], made: Any, *args: Any, **kwargs: Any) -> None:
        self._watching.seen.optimisers += self._watching.looks
        with self._watching.inside():
            original(made, *args, **kwargs)
        self._watching.optimisers.add(made)


class _Counted:
    """Calls of a recurrent module, by class and mode."""

    def __init__(self, watching: Watching) -> None:
        self._counts = watching.seen.recurrent

    def __call__(self, original: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
        mode = "sequence" if modes_now().recurrent else "step"
        reads, writes = _told(module.in_keys), _told(module.out_keys)
        name = f"{type(module).__name__} ({mode}: {reads} -> {writes})"
        self._counts[name] = self._counts.get(name, 0) + 1
        return original(module, *args, **kwargs)


def _told(keys: list[Any]) -> str:
    return ", ".join(key if isinstance(key, str) else ".".join(key) for key in keys)


class _Plain:
    """Calls of torch's own recurrent layers."""

    def __init__(self, watching: Watching) -> None:
        self._counts = watching.seen.layers

    def __call__(self, module: nn.Module, _inputs: Any) -> None:
        if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
            name = type(module).__name__
            self._counts[name] = self._counts.get(name, 0) + 1
