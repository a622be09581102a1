"""The policy and the critic stage, and the networks that a loss has beside them."""

from __future__ import annotations

from contextlib import suppress

from tensordict import TensorDictBase
from torch import nn
from torch.nn.parameter import is_lazy

from rnncheck.errors import Lacking, StageError
from rnncheck.pipeline.assembly.env_stage import EnvStage
from rnncheck.pipeline.assembly.factories import Offered, component_source
from rnncheck.pipeline.assembly.materialise import run_once, without_values
from rnncheck.pipeline.assembly.networks import Assembly
from rnncheck.pipeline.assembly.notes import BuildNotes
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.guard.calling import running
from rnncheck.pipeline.placing import forked_rng
from rnncheck.pipeline.plant.hooks import Hooks
from rnncheck.printable import counted
from rnncheck.results.model import Stage
from rnncheck.spec.model import Component, NetworkSpec, Spec


class NetworkStages:
    """Builds the networks of one spec against its env."""

    def __init__(self, spec: Spec, env: EnvStage, notes: BuildNotes) -> None:
        self._spec, self._env, self._notes = spec, env, notes
        self._policy: nn.Module | None = None
        self.critic: nn.Module | None = None

    @property
    def policy(self) -> nn.Module:
        """The policy."""
        if self._policy is None:
            raise RuntimeError("the policy stage comes before this one")
        return self._policy

    @property
    def offered(self) -> Offered:
        """What a factory of any later stage may ask for."""
        return {
            **self._env.offered,
            "policy": lambda: self.policy,
            "critic": lambda: self.critic,
        }

    def build_policy(self) -> str:
        """The policy."""
        self._policy = self._network(Stage.POLICY, self._spec.policy, self._env.offered)
        return _told(self._policy)

    def build_critic(self) -> None:
        """The critic, where there is one."""
        network = self._spec.critic
        if network is not None:
            offered = {**self._env.offered, "policy": lambda: self.policy}
            self.critic = self._network(Stage.CRITIC, network, offered)

    @property
    def judged_critic(self) -> nn.Module | None:
        """The critic, where it can be judged: one without values can neither run nor be copied."""
        if self.critic is None or self._without_values(Stage.CRITIC, self.critic):
            return None
        return self.critic

    def told_of_critic(self) -> str:
        """What the critic stage says of itself; nothing without a critic."""
        return "" if self.critic is None else _told(self.critic)

    def build_loss_network(self, network: NetworkSpec) -> nn.Module:
        """A network beside the policy and the critic, as some losses need one."""
        assembly = self._assembly(Stage.CRITIC, network, self.offered)
        with running("loss"):
            module = assembly.make()
            assembly.finish(module)
        return module

    def change(self, hooks: Hooks) -> None:
        """Change the networks before anything runs."""
        self._policy = hooks.policy(self.policy)
        if self.critic is not None:
            self.critic = hooks.critic(self.critic)

    def _network(self, stage: Stage, network: NetworkSpec, offered: Offered) -> nn.Module:
        place = network.factory or Component(at=network.at or (str(stage),))
        self._notes.sources[stage] = component_source(self._spec, place)
        assembly = self._assembly(stage, network, offered)
        with running(str(stage)):
            module = assembly.make()
        try:
            assembly.finish(module)
        except Lacking:
            raise
        except StageError as error:  # the module exists; what is wrong is for the checks to say
            self._notes.failures[stage] = error
        if stage not in self._notes.failures and (why := self._without_values(stage, module)):
            self._notes.failures[stage] = StageError(str(stage), why)
        return module

    def _without_values(self, stage: Stage, module: nn.Module) -> str:
        first = self._env.first if stage is Stage.POLICY else self._acted_first
        return without_values(module, first)

    def _assembly(self, stage: Stage, network: NetworkSpec, offered: Offered) -> Assembly:
        first = self._env.first if stage is Stage.POLICY else self._acted_first
        env = self._env
        return Assembly(self._spec, stage, network, env.env, first, env.device, offered)

    def _acted_first(self) -> TensorDictBase:
        """The env's first reset with what the policy writes beside it: what a critic reads."""
        td = self._env.first()
        with suppress(Exception), forked_rng():
            acted = run_once(copy_of(self.policy, "the policy"), td.clone())
            return td.update(acted.exclude("next"))
        return td


def _told(module: nn.Module) -> str:
    sizes = [one.numel() for one in module.parameters() if not is_lazy(one)]
    return counted(sum(sizes), "parameter")
