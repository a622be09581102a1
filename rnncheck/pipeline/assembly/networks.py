"""One network of the spec, whole: from its module list or its factory, materialised, with its
weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.envs import EnvBase

from rnncheck.errors import ComponentError
from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.assembly.factories import Offered, call_factory, wrong_type
from rnncheck.pipeline.assembly.materialise import is_unfinished, run_once
from rnncheck.pipeline.assembly.module_list import MODULE_LIKE, NetworkBuilder
from rnncheck.pipeline.assembly.weights import load_weights
from rnncheck.pipeline.copying.copies import CannotCopy, copy_of
from rnncheck.pipeline.guard.calling import raising_as, running
from rnncheck.pipeline.keys import as_key, declared, dotted
from rnncheck.results.model import Stage
from rnncheck.spec.model import Component, NetworkSpec, Spec


@dataclass
class Assembly:
    """What a network is made from. ``first`` gives a fresh copy of the env's first reset."""

    spec: Spec
    stage: Stage
    network: NetworkSpec
    env: EnvBase
    first: Callable[[], TensorDictBase]
    device: torch.device
    offered: Offered

    def make(self) -> nn.Module:
        """The network; its lazy parameters may still be open when it cannot run yet."""
        if self.network.factory is not None:
            return self._from_factory(self.network.factory)
        is_critic = self.stage is Stage.CRITIC
        builder = NetworkBuilder(
            self.spec, self.network, self.env, self.first(), self.device, self.offered, is_critic
        )
        module = builder.build()
        if not is_critic:
            self._check_acts(module)
        return module

    def finish(self, module: nn.Module) -> None:
        """Give lazy parameters their sizes and load the weights."""
        if is_unfinished(module):
            with running(str(self.stage)):
                run_once(module, self.first())
        load_weights(self.spec, self.network, module)

    def _from_factory(self, component: Component) -> nn.Module:
        made = call_factory(self.spec, component, self.offered)
        if not isinstance(made, nn.Module):
            raise wrong_type(self.spec, component, made, MODULE_LIKE)
        if self.device.type != "cpu":
            made = made.to(self.device)
        keyed = hasattr(made, "in_keys") and hasattr(made, "out_keys")
        if not keyed and not isinstance(made, TensorDictModuleBase):
            self._check_takes_tensordict(component, made)
        return made

    def _check_takes_tensordict(self, component: Component, made: nn.Module) -> None:
        """A module without keys is fine when it is called with a tensordict and returns one."""

        def convert(error: BaseException) -> ComponentError:
            return wrong_type(self.spec, component, made, MODULE_LIKE)

        try:
            trial = copy_of(made, "the module")
        except CannotCopy:  # it cannot be tried: the checks that would run it say so
            return
        with raising_as(convert):
            if not isinstance(run_once(trial, self.first()), TensorDictBase):
                raise TypeError("no tensordict")

    def _check_acts(self, module: nn.Module) -> None:
        written = declared(module, "out_keys")
        for key in self.env.action_keys:
            if as_key(key) not in written:
                raise ComponentError(
                    f"the policy never writes {dotted(as_key(key))!r}, the env's action",
                    place=self.spec.locate((*self.network.at, "modules")),
                    accepted=f"it writes {c.listed_names(dotted(one) for one in written)}",
                    hint="end it with QValueModule or ProbabilisticActor, or name it in out_keys",
                )
