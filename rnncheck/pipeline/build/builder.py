"""From a spec to a live pipeline, stage by stage: env, policy, critic, collect, and what trains on it.

    with Builder(spec) as builder:
        for stage in builder.stages:
            result = builder.run(stage)
        pipeline = builder.pipeline

``run`` raises a UserError where the spec or a factory is at fault, and a VersionError where env, policy or critic are
written for a newer TorchRL than the one installed; a later stage that is gets skipped. What goes wrong while the user's pipeline runs is
the stage's outcome and stands in ``failures``; so does a time-out.
"""

from __future__ import annotations

import copy
import multiprocessing
import random
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.envs import EnvBase

from rnncheck.errors import ComponentError, StageError, StageTimeout, VersionError
from rnncheck.pipeline.build import collect as collecting
from rnncheck.pipeline.build import components as c
from rnncheck.pipeline.build.networks import Assembly
from rnncheck.pipeline.compat import weight_senders
from rnncheck.pipeline.build.env import (
    EnvMaker,
    missing_state_transforms,
    needs_resize,
    resolve_device,
)
from rnncheck.pipeline.build.factories import importable, source_of, spec_source
from rnncheck.pipeline.build.further import FACTOR, Stream
from rnncheck.pipeline.guard.calling import release, running
from rnncheck.pipeline.plant.hooks import Hooks, Parts, Plant
from rnncheck.pipeline.build.materialise import pristine_copy, run_once
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.build.stored import writing
from rnncheck.pipeline.guard.timeout import time_limit
from rnncheck.pipeline.build.training import Training, order_of
from rnncheck.pipeline.guard.worker_log import WorkerLog
from rnncheck.results.model import NOT_IN_SPEC, Outcome, Source, Stage, StageResult
from rnncheck.spec.model import Component, NetworkSpec, Spec

# Seconds that envs and collectors get to shut down before their workers are killed. Chosen: a
# worker ends the batch that it is at first; a shorter wait kills busy ones, a longer one is lost on
# those that hang.
CLOSING = 20.0
# Between the seeds of two stages: the first prime above a million, more than the runs that anyone
# numbers, so that the stages of seed 0 and those of seeds 1, 2, ... do not meet.
STRIDE = 1_000_003
LARGEST = 2**32  # of numpy's seeds
STAGES = tuple(Stage)
BEFORE = (Stage.ENV, Stage.POLICY, Stage.CRITIC, Stage.COLLECT)
NO_TORCHVISION = (
    "torchvision is not installed: Resize is done by torch.nn.functional.interpolate, same shape"
)


class Builder:
    """Builds and runs the stages of one spec, and closes what it opened."""

    def __init__(self, spec: Spec, plant: Plant | None = None) -> None:
        self.spec = spec
        self.plant = plant  # chooses changes to the parts once the networks are built
        self.hooks = Hooks()
        self.stages = (*BEFORE, *order_of(spec))
        self.pipeline: Pipeline | None = None
        self.sources: dict[Stage, Source] = {}
        self.failures: dict[Stage, StageError] = {}
        self.notices: list[str] = []
        device = resolve_device(spec)
        self._log = WorkerLog() if self._is_parallel() or _is_multi(spec) else None
        path = self._log.path if self._log is not None else None
        self._maker = EnvMaker(spec, device, notices=self.notices, log=path)
        self._collector: Any = None
        self._first: TensorDictBase | None = None
        self._env: EnvBase
        self._policy: nn.Module
        self._critic: nn.Module | None = None
        self._training = Training(spec, self._everything(), device, self._further_network)
        self._children = set(multiprocessing.active_children())
        self._scope = ExitStack()
        self._scope.enter_context(importable(spec.folder))

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(forced=kind is not None)

    # --- stages ------------------------------------------------------------------------------

    def run(self, stage: Stage) -> StageResult:
        """Build or run one stage. Raises UserError; everything else is the stage's outcome."""
        begin = time.perf_counter()
        outcome, detail = self._outcome(stage)
        return StageResult(stage, outcome, detail, time.perf_counter() - begin)

    def _outcome(self, stage: Stage) -> tuple[Outcome, str]:
        if self.pipeline is None and self.failures:
            return Outcome.SKIPPED, f"the {next(iter(self.failures))} stage failed"
        if stage not in BEFORE and (why := self._cannot_train(stage)):
            return Outcome.SKIPPED, why
        try:
            detail = self._limited(stage)
        except StageError as error:
            self.failures[stage] = self._from_worker(error)
        except VersionError as error:
            if self.pipeline is None:
                raise  # nothing can be verified
            self.pipeline.lacking[stage] = error.reason
            return Outcome.SKIPPED, error.reason
        if stage in self.failures:
            failure = self.failures[stage]
            return Outcome.ERROR, "\n".join(p for p in (failure.message, failure.frames) if p)
        return (Outcome.PASSED, detail) if detail else (Outcome.SKIPPED, NOT_IN_SPEC)

    def _limited(self, stage: Stage) -> str:
        """Run the stage's own method: seeded, within its time limit, its warnings sorted."""
        work: Callable[[], str] = getattr(self, f"build_{stage}")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _seed(self.spec.seed, stage)
            try:
                with time_limit(str(stage), self.spec.verify.timeout):
                    return work()
            finally:
                self._tell(collecting.advice(caught))

    def _from_worker(self, error: StageError) -> StageError:
        """The parent of a failed worker process only sees that it failed; its log says why."""
        trouble = self._log.trouble() if self._log is not None else None
        if trouble is None or isinstance(error, StageTimeout):
            return error
        return StageError(error.stage, trouble.message, place=trouble.place, frames=trouble.frames)

    def _tell(self, notices: list[str]) -> None:
        self.notices.extend(text for text in notices if text not in self.notices)

    def build_env(self) -> str:
        """The env, without the state primers that only the policy can name."""
        component = self.spec.env
        if component.factory is not None:
            self.sources[Stage.ENV] = source_of(self.spec, component)
        else:
            self.sources[Stage.ENV] = spec_source(self.spec, component)
        with running("env"):
            self._env = self._maker()
        if needs_resize() and any(one.use == "Resize" for one in component.transforms):
            self._tell([NO_TORCHVISION])
        name = component.use or component.factory
        return f"{component.workers} x {name}" if component.workers > 1 else str(name)

    def build_policy(self) -> str:
        """The policy, with its pristine copy to follow once its parameters exist."""
        self._policy = self._network(Stage.POLICY, self.spec.policy, {})
        return f"{_count(self._policy)} parameters"

    def build_critic(self) -> str:
        """The critic, where there is one; then the env gets the state transforms that it lacks."""
        network = self.spec.critic
        if network is not None:
            offered = {"policy": lambda: self._policy}
            self._critic = self._network(Stage.CRITIC, network, offered)
        self._complete_env()
        self._change()
        self.pipeline = self._whole()
        return "" if self._critic is None else f"{_count(self._critic)} parameters"

    def build_collect(self) -> str:
        """Open the collector and take its batches."""
        component, pipeline = self.spec.collect, self._built()
        if component is None:
            return ""
        pipeline.sources[Stage.COLLECT] = source_of(self.spec, component)
        buffered = collecting.declares_buffer(self.spec, component)
        self._collector = self._open(component, buffered)
        pipeline.collector = self._collector
        pipeline.acting_env = collecting.acting_env(self._collector)
        with writing(pipeline.random_frames if buffered else 0):
            self._take(component, pipeline, buffered)
        if buffered:
            self._training.take_over(pipeline)
        pipeline.batches[:] = map(self.hooks.batch, pipeline.batches)
        frames = sum(batch.numel() for batch in pipeline.batches)
        return f"{len(pipeline.batches)} batches, {frames} frames"

    def _take(self, component: Component, pipeline: Pipeline, buffered: bool) -> None:
        """Let the collector give its batches, or write them."""
        limit = collecting.wanted_batches(self.spec, component)
        if collecting.starts_in_background(self.spec, component):
            frames = limit * component.args["frames_per_batch"]
            collecting.run_in_background(self._collector, self._buffer(), frames)
            return
        source = collecting.stream_of(self._collector)
        inner = collecting.collect(source, limit, pipeline.batches, into_buffer=buffered)
        pipeline.collector = inner or pipeline.collector
        if not (buffered or _is_multi(self.spec) or isinstance(source, TensorDictBase)):
            self._training.more = Stream(source, limit * (FACTOR - 1), self.hooks.batch)

    def _open(self, component: Component, buffered: bool) -> Any:
        offered: dict[str, Callable[[], Any]] = {**self._everything(), "env": self._maker}
        if buffered:
            offered[collecting.BUFFER] = self._buffer
        ready = self._env if self._is_parallel() else self._maker
        sources = collecting.Sources(ready, self._maker.for_worker(), self._maker.device)
        with collecting.opening():
            return collecting.open_collector(self.spec, component, offered, sources)

    def _buffer(self) -> Any:
        """The replay buffer for a collector that writes into it."""
        buffer = self._training.replay_buffer()
        if buffer is None and self.spec.collect is not None:
            raise ComponentError(
                "the collector writes into a replay buffer, and the spec has no `replay`",
                place=self.spec.locate((*self.spec.collect.at, collecting.BUFFER)),
                hint="add a `replay` section",
            )
        return buffer

    def build_advantage(self) -> str:
        """The value estimator, run on the collected batches or on the samples."""
        return self._training.advantage(self._built())

    def build_replay(self) -> str:
        """The replay buffer and the ``batch`` factory: what the loss is called on."""
        detail = self._training.replay(self._built())
        self._tell(self._training.told)
        return detail

    def build_loss(self) -> str:
        """The loss, called once."""
        return self._training.loss(self._built())

    def loss_for(self, policy: nn.Module, critic: nn.Module | None) -> Any:
        """The spec's loss over other networks than the pipeline's own."""
        section = self.spec.loss
        if section is None:
            raise RuntimeError("the spec has no loss")
        offered = {"policy": lambda: policy, "critic": lambda: critic}
        return self._training.make_loss(self._built(), section, offered)

    def _cannot_train(self, stage: Stage) -> str:
        """Why a stage behind collection has nothing to work on; a failed estimator leaves the replay its data."""
        section = getattr(self.spec, str(stage)) or (stage is Stage.REPLAY and self.spec.batch)
        if not section:
            return ""  # the stage says so itself
        first = self.stages.index(Stage.COLLECT)
        before = self.stages[first : self.stages.index(stage)]
        needed = (Stage.COLLECT,) if stage is Stage.REPLAY else before
        failed = [one for one in needed if one in self.failures]
        if failed:
            return f"the {failed[0]} stage failed"
        lacking = self._built().lacking
        if newer := next((lacking[one] for one in needed if one in lacking), ""):
            lacking[stage] = newer
            return newer
        return "" if self._built().batches else "nothing is collected"

    def _is_parallel(self) -> bool:
        """Worker processes take seconds to start, so that a Collector gets the ones that run already."""
        return self.spec.env.workers > 1 and self.spec.env.vectorize == "parallel"

    # --- parts -------------------------------------------------------------------------------

    def _network(
        self, stage: Stage, network: NetworkSpec, offered: dict[str, Callable[[], Any]]
    ) -> nn.Module:
        place = network.factory or Component(at=network.at or (str(stage),))
        self.sources[stage] = source_of(self.spec, place)
        assembly = self._assembly(stage, network, offered)
        with running(str(stage)):
            module = assembly.make()
        try:
            assembly.finish(module)
        except StageError as error:  # the module exists; what it lacks is for the checks to say
            self.failures[stage] = error
        return module

    def _assembly(
        self, stage: Stage, network: NetworkSpec, offered: dict[str, Callable[[], Any]]
    ) -> Assembly:
        first = self._fresh_first if stage is Stage.POLICY else self._acted_first
        device = self._maker.device
        return Assembly(
            self.spec, stage, network, self._env, first, device, {**self._offered(), **offered}
        )

    def _further_network(self, network: NetworkSpec) -> nn.Module:
        """A network beside the policy and the critic, as some losses need one."""
        assembly = self._assembly(Stage.CRITIC, network, self._everything())
        with running("loss"):
            module = assembly.make()
            assembly.finish(module)
        return module

    def _acted_first(self) -> TensorDictBase:
        """The env's first reset with what the policy writes beside it: what a critic reads."""
        td = self._fresh_first()
        with suppress(Exception), torch.random.fork_rng(devices=[]):
            acted = run_once(copy.deepcopy(self._policy), td.clone())
            return td.update(acted.exclude("next"))
        return td

    def _offered(self) -> dict[str, Callable[[], Any]]:
        return {"env": self._one_env, "create_env_fn": lambda: self._maker}

    def _everything(self) -> dict[str, Callable[[], Any]]:
        """What any stage behind the networks may ask for."""
        return {
            **self._offered(),
            "policy": lambda: self._policy,
            "critic": lambda: self._critic,
        }

    def _one_env(self) -> EnvBase:
        """What a policy is written against: one copy, whose specs have no dimension of workers."""
        if self.spec.env.workers == 1:
            return self._env
        single = self._maker.single()
        self._scope.callback(_close_quietly, single)
        return single

    def _fresh_first(self) -> TensorDictBase:
        """A copy of the env's first reset, which is made when it is first asked for."""
        if self._first is None:
            with running("env"):
                self._first = self._env.reset().to(self._maker.device)
        return self._first.clone()

    def _complete_env(self) -> None:
        own = self.spec.env.use is not None and self.spec.env.primers == "auto"
        if own:
            with running("env"):
                missing = missing_state_transforms(self._env, self._policy, self._critic)
                self._maker.extra.extend(missing)
                self._env = self._maker.completed(self._env)

    def _change(self) -> None:
        """What was planted changes the parts before anything runs."""
        if self.plant is None:
            return
        parts = Parts(self.spec, self._env, self._policy, self._critic)
        hooks = self.hooks = self._training.hooks = self.plant(parts)
        self._maker.change = hooks.env
        self._env, self._policy = hooks.env(self._env), hooks.policy(self._policy)
        if self._critic is not None:
            self._critic = hooks.critic(self._critic)

    def _whole(self) -> Pipeline:
        critic = self._critic
        return Pipeline(
            self.spec,
            self._maker,
            self._env,
            self._policy,
            pristine_copy(self._policy, "policy", self.notices),
            critic=critic,
            pristine_critic=None
            if critic is None
            else pristine_copy(critic, "critic", self.notices),
            sources=self.sources,
            failures=self.failures,
            notices=self.notices,
        )

    def _built(self) -> Pipeline:
        if self.pipeline is None:
            raise RuntimeError("collect comes after env, policy and critic")
        return self.pipeline

    # --- closing -----------------------------------------------------------------------------

    def close(self, *, forced: bool = False) -> None:
        """Shut down the collector and the envs; no worker process is left behind."""
        inner = self.pipeline.collector if self.pipeline is not None else None
        senders = weight_senders(inner)
        if forced or self.failures:
            self._reap()
        closers = [getattr(self._collector, name, None) for name in ("shutdown", "close")]
        closers += [getattr(sender, "shutdown", None) for sender in senders]
        closers.append(getattr(getattr(self, "_env", None), "close", None))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for closer in filter(callable, closers):
                with suppress(Exception), time_limit("close", CLOSING):
                    closer()
        self._training.close()
        self._reap()
        for failure in self.failures.values():
            release(failure)
        self._scope.close()
        if self._log is not None:
            self._log.close()

    def _reap(self) -> None:
        for child in set(multiprocessing.active_children()) - self._children:
            child.kill()
            child.join(CLOSING)


def _is_multi(spec: Spec) -> bool:
    return spec.collect is not None and spec.collect.use in c.MULTI_PROCESS


def _close_quietly(env: EnvBase) -> None:
    with suppress(Exception):
        env.close()


def _seed(seed: int, stage: Stage) -> None:
    """A seed of its own for every stage: what a later one builds anew must not come out as the spec's own policy."""
    own = (seed + STRIDE * STAGES.index(stage)) % LARGEST
    torch.manual_seed(own)
    random.seed(own)
    np.random.seed(own)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
