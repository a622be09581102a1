"""The collect stage: the collector is opened, and its batches are taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tensordict import TensorDictBase

from rnncheck.errors import ComponentError
from rnncheck.pipeline.assembly import collectors
from rnncheck.pipeline.assembly.components import MULTI_PROCESS
from rnncheck.pipeline.assembly.env_stage import EnvStage
from rnncheck.pipeline.assembly.factories import Offered, component_source
from rnncheck.pipeline.assembly.more_batches import (
    MOST_ROUNDS,
    WARM_UP_SHARE,
    MoreBatches,
    no_more,
    warm_up_notice,
)
from rnncheck.pipeline.assembly.needs import refuse_batches
from rnncheck.pipeline.assembly.stored import writing
from rnncheck.pipeline.assembly.training import Training
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.plant.hooks import Hooks
from rnncheck.printable import counted
from rnncheck.results.model import Stage
from rnncheck.spec.model import Component, Spec


def has_env_workers(spec: Spec) -> bool:
    """Whether the envs run in processes of their own."""
    return spec.env.workers > 1 and spec.env.vectorize == "parallel"


def has_collector_workers(spec: Spec) -> bool:
    """Whether the collector runs in several processes."""
    return spec.collect is not None and spec.collect.use in MULTI_PROCESS


class CollectStage:
    """Opens the spec's collector and takes its batches. ``training`` has the replay buffer."""

    def __init__(self, spec: Spec, env: EnvStage, offered: Offered, training: Training) -> None:
        self._spec, self._env, self._offered, self._training = spec, env, offered, training
        self._collector: Any = None
        self.hooks = Hooks()

    def build(self, pipeline: Pipeline) -> str:
        """Open the collector and take its batches."""
        component = self._spec.collect
        if component is None:
            return ""
        pipeline.sources[Stage.COLLECT] = component_source(self._spec, component)
        buffered = collectors.declares_buffer(self._spec, component)
        wanted = collectors.wanted_batches(self._spec, component)
        refuse_batches(self._spec, component, wanted, self._env.env)
        self._collector = self._open(component, buffered)
        pipeline.collector = self._collector
        pipeline.acting_env = collectors.acting_env(self._collector)
        if self._spec._made is not None:
            pipeline.stored_random = self._spec._made.random
            pipeline.joins.extend(self._spec._made.joins)
            pipeline.disturbed = self._spec._made.disturbed
            pipeline.unstepped = self._spec._made.unstepped
            pipeline.learning = self._spec._made.learning
            pipeline.burn_ins = self._spec._made.burn_ins
            pipeline.as_seen = True
            pipeline.targets = self._spec._made.targets
            pipeline.apart = self._spec._made.apart
            pipeline.untrained = self._spec._made.untrained
            pipeline.left = self._spec._made.left
            pipeline.anew = self._spec._made.anew
            pipeline.never_reset = self._spec._made.never_reset
            pipeline.forgets = self._spec._made.forgets
            pipeline.counted = self._spec._made.counted
            pipeline.ends_by = self._spec._made.ends_by
            pipeline.shows_starts = self._spec._made.shows_starts
        with writing(pipeline.random_frames if buffered else 0):
            self._take(component, pipeline, buffered)
        if buffered:
            self._training.take_over(pipeline)
        pipeline.batches[:] = map(self.hooks.batch, pipeline.batches)
        pipeline.notices += self._behind_the_warm_up(pipeline)
        frames = sum(batch.numel() for batch in pipeline.batches)
        return f"{counted(len(pipeline.batches), 'batch')}, {counted(frames, 'frame')}"

    def closers(self) -> list[Any]:
        """What shuts the collector down."""
        return [getattr(self._collector, name, None) for name in ("shutdown", "close")]

    def _open(self, component: Component, buffered: bool) -> Any:
        maker = self._env.maker
        offered: dict[str, Callable[[], Any]] = {**self._offered, "env": maker}
        if buffered:
            offered[collectors.BUFFER_ARGUMENT] = self._buffer
        # worker processes take seconds to start: a Collector gets the ones that run already
        ready = self._env.env if has_env_workers(self._spec) else maker
        sources = collectors.Sources(ready, maker.for_worker(), maker.device)
        with collectors.opening():
            return collectors.open_collector(self._spec, component, offered, sources)

    def _take(self, component: Component, pipeline: Pipeline, buffered: bool) -> None:
        """Let the collector give its batches, or write them."""
        limit = collectors.wanted_batches(self._spec, component)
        if collectors.starts_in_background(self._spec, component):
            frames = limit * component.args["frames_per_batch"]
            collectors.run_in_background(self._collector, self._buffer(), frames)
            return
        source = collectors.stream_of(self._collector)
        inner = collectors.collect(source, limit, pipeline.batches, into_buffer=buffered)
        pipeline.collector = pipeline.collector if inner is None else inner
        alone = buffered or has_collector_workers(self._spec) or isinstance(source, TensorDictBase)
        if not alone:
            further = limit * (MOST_ROUNDS - 1) + pipeline.random_batches
            self._training.more = MoreBatches(source, further, self.hooks.batch)

    def _behind_the_warm_up(self, pipeline: Pipeline) -> list[str]:
        """Go on while all that was collected is the random policy's; the notice of it."""
        first, random = len(pipeline.batches), pipeline.random_batches
        if first > random or self._training.more is no_more:
            return []
        end = time.monotonic() + WARM_UP_SHARE * self._spec.verify.timeout
        while len(pipeline.batches) < random + first and time.monotonic() < end:
            if (batch := self._training.more()) is None:
                break
            pipeline.batches.append(batch)
        return [warm_up_notice(first, len(pipeline.batches), random)]

    def _buffer(self) -> Any:
        """The replay buffer for a collector that writes into it."""
        buffer = self._training.replay_buffer()
        if buffer is None and self._spec.collect is not None:
            raise ComponentError(
                "the collector writes into a replay buffer, and the spec has no `replay`",
                place=self._spec.locate((*self._spec.collect.at, collectors.BUFFER_ARGUMENT)),
                hint="add a `replay` section",
            )
        return buffer
