"""The env stage: the env that a pipeline acts in, its maker, and its first reset."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.envs import EnvBase

from rnncheck.pipeline.assembly.env_maker import EnvMaker, missing_state_transforms, needs_resize
from rnncheck.pipeline.assembly.factories import Offered, transforms_source
from rnncheck.pipeline.assembly.notes import BuildNotes
from rnncheck.pipeline.guard.calling import running
from rnncheck.results.model import Stage
from rnncheck.spec.model import Spec

_NO_TORCHVISION = (
    "torchvision is not installed: Resize is done by torch.nn.functional.interpolate, same shape"
)


class EnvStage:
    """Opens the spec's env. ``scope`` closes the copies that are made beside it."""

    def __init__(
        self,
        spec: Spec,
        device: torch.device,
        notes: BuildNotes,
        scope: ExitStack,
        log: Path | None,
    ) -> None:
        self._spec, self._notes, self._scope = spec, notes, scope
        self.maker = EnvMaker(spec, device, notices=notes.notices, log=log)
        self._env: EnvBase | None = None
        self._first: TensorDictBase | None = None

    @property
    def env(self) -> EnvBase:
        """The open env."""
        if self._env is None:
            raise RuntimeError("the env stage comes first")
        return self._env

    @property
    def device(self) -> torch.device:
        """Where env and networks live."""
        return self.maker.device

    @property
    def offered(self) -> Offered:
        """What every factory may ask for."""
        return {"env": self._one_env, "create_env_fn": lambda: self.maker}

    def build(self) -> str:
        """The env, without the state primers that only the policy can name."""
        component = self._spec.env
        self._notes.sources[Stage.ENV] = transforms_source(self._spec, component)
        with running("env"):
            self._env = self.maker()
        if needs_resize() and any(one.use == "Resize" for one in component.transforms):
            self._notes.tell([_NO_TORCHVISION])
        name = component.use or component.factory
        return f"{component.workers} x {name}" if component.workers > 1 else str(name)

    def first(self) -> TensorDictBase:
        """A copy of the env's first reset, which is made when it is first asked for."""
        if self._first is None:
            with running("env"):
                self._first = self.env.reset().to(self.device)
        return self._first.clone()

    def complete(self, policy: nn.Module, critic: nn.Module | None) -> None:
        """Give the spec's own env the state transforms that the networks need and it lacks; a
        factory's where ``primers: always`` is said."""
        env = self._spec.env
        if env.primers != "always" and (env.use is None or env.primers != "auto"):
            return
        with running("env"):
            missing = missing_state_transforms(self.env, policy, critic)
            self.maker.extra.extend(missing)
            self._env = self.maker.completed(self.env)

    def change(self, change: Callable[[EnvBase], EnvBase]) -> None:
        """Change the open env and every one that is made from here on."""
        self.maker.change = change
        self._env = change(self.env)

    def closers(self) -> list[Any]:
        """What shuts the env down."""
        return [getattr(self._env, "close", None)]

    def _one_env(self) -> EnvBase:
        """What a policy is written against: one copy, whose specs have no dimension of workers."""
        if self._spec.env.workers == 1:
            return self.env
        single = self.maker.single()
        self._scope.callback(_close_quietly, single)
        return single


def _close_quietly(env: EnvBase) -> None:
    with suppress(Exception):
        env.close()
