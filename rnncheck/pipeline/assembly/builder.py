"""From a spec to a live pipeline, stage by stage: env, policy, critic, collect, then training.

    with Builder(spec) as builder:
        for stage in builder.stages:
            result = builder.run(stage)
        pipeline = builder.pipeline

``run`` raises a UserError where the spec or a factory is at fault, and a VersionError where env,
policy or critic are written for a newer TorchRL than the one installed; a later stage that is gets
skipped. What goes wrong while the user's pipeline runs is the stage's outcome and stands in
``failures``; so does a time-out.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import nn

from rnncheck.errors import Lacking, StageError, StageTimeout
from rnncheck.pipeline.assembly.collect_stage import (
    CollectStage,
    has_collector_workers,
    has_env_workers,
)
from rnncheck.pipeline.assembly.collectors import transform_advice
from rnncheck.pipeline.assembly.env_maker import resolve_device
from rnncheck.pipeline.assembly.env_stage import EnvStage
from rnncheck.pipeline.assembly.factories import importable
from rnncheck.pipeline.assembly.materialise import pristine_copy
from rnncheck.pipeline.assembly.network_stages import NetworkStages
from rnncheck.pipeline.assembly.notes import BuildNotes
from rnncheck.pipeline.assembly.other_losses import other_pipelines
from rnncheck.pipeline.assembly.own_functions import with_training_pass
from rnncheck.pipeline.assembly.training import Training, order_of
from rnncheck.pipeline.compat import weight_senders
from rnncheck.pipeline.guard.calling import release, stage_error
from rnncheck.pipeline.guard.closing import ChildProcesses, close_all
from rnncheck.pipeline.guard.timeout import time_limit
from rnncheck.pipeline.guard.user_frames import read_frame
from rnncheck.pipeline.guard.worker_log import WorkerLog
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.plant.hooks import Parts, Plant
from rnncheck.results.model import NOT_IN_SPEC, Outcome, Source, Stage, StageResult
from rnncheck.spec.model import Spec

# Between the seeds of two stages: the first prime above a million, more than the runs that anyone
# numbers, so that the stages of seed 0 and those of seeds 1, 2, ... do not meet.
_SEED_STRIDE = 1_000_003
_LARGEST_SEED = 2**32  # of numpy's seeds
_STAGES = tuple(Stage)
_BEFORE = (Stage.ENV, Stage.POLICY, Stage.CRITIC, Stage.COLLECT)


class Builder:
    """Builds and runs the stages of one spec, and closes what it opened.

    ``plant`` chooses changes to the parts once the networks are built.
    """

    def __init__(self, spec: Spec, plant: Plant | None = None) -> None:
        self.spec = spec
        self.stages = (*_BEFORE, *order_of(spec))
        self.pipeline: Pipeline | None = None
        self._plant, self._notes, self._scope = plant, BuildNotes(), ExitStack()
        device = resolve_device(spec)
        has_workers = has_env_workers(spec) or has_collector_workers(spec)
        self._log = WorkerLog() if has_workers else None
        log = self._log.path if self._log is not None else None
        self._env = EnvStage(spec, device, self._notes, self._scope, log)
        self._networks = NetworkStages(spec, self._env, self._notes)
        offered = self._networks.offered
        self._training = Training(spec, offered, device, self._networks.build_loss_network)
        self._collection = CollectStage(spec, self._env, offered, self._training)
        self._children = ChildProcesses()
        self._scope.enter_context(importable(spec.folder))

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(forced=kind is not None)

    @property
    def failures(self) -> dict[Stage, StageError]:
        """What the stages raised while they ran."""
        return self._notes.failures

    @property
    def notices(self) -> list[str]:
        """What the user should read besides the outcomes."""
        return self._notes.notices

    def run(self, stage: Stage) -> StageResult:
        """Build or run one stage. Raises UserError; everything else is the stage's outcome."""
        begin = time.perf_counter()
        outcome, detail = self._outcome(stage)
        raised = self.failures.get(stage)
        source = None if raised is None else raising_line(stage, raised)
        return StageResult(stage, outcome, detail, time.perf_counter() - begin, source)

    def loss_for(self, policy: nn.Module, critic: nn.Module | None) -> Any:
        """The spec's loss over other networks than the pipeline's own."""
        section = self.spec.loss
        if section is None:
            raise RuntimeError("the spec has no loss")
        offered = {"policy": lambda: policy, "critic": lambda: critic}
        return self._training.make_loss(self._built(), section, offered)

    def close(self, *, forced: bool = False) -> None:
        """Shut down the collector and the envs; no worker process is left behind."""
        senders = weight_senders(self.pipeline.collector if self.pipeline is not None else None)
        if forced or self.failures:
            self._children.reap()
        sending = [getattr(sender, "shutdown", None) for sender in senders]
        close_all([*self._collection.closers(), *sending, *self._env.closers()])
        self._training.close()
        self._children.reap()
        for failure in self.failures.values():
            release(failure)
        self._scope.close()
        if self._log is not None:
            self._log.close()

    # --- one stage ---------------------------------------------------------------------------

    def _outcome(self, stage: Stage) -> tuple[Outcome, str]:
        if self.pipeline is None and self.failures:
            return Outcome.NOT_LOOKED, f"the {next(iter(self.failures))} stage failed"
        if stage not in _BEFORE and (why := self._cannot_train(stage)):
            return Outcome.NOT_LOOKED, why
        try:
            detail = self._limited(stage)
        except Lacking as error:
            return self._without(stage, error)
        except StageError as error:
            found = self._from_worker(error)
            if isinstance(found, Lacking):
                return self._without(stage, found)
            self.failures[stage] = found
        if stage in self.failures:
            failure = self.failures[stage]
            return Outcome.ERROR, "\n".join(p for p in (failure.message, failure.frames) if p)
        return (Outcome.PASSED, detail) if detail else (Outcome.NOT_APPLICABLE, NOT_IN_SPEC)

    def _without(self, stage: Stage, error: Lacking) -> tuple[Outcome, str]:
        """Note why the stage is not there; without env, policy or critic nothing can be verified.

        What needs a newer TorchRL, or a kernel that this processor lacks, is in the spec, and
        nobody could look into it.
        """
        if self.pipeline is None:
            raise error
        self.pipeline.lacking[stage] = error.reason
        return Outcome.NOT_LOOKED, error.reason

    def _limited(self, stage: Stage) -> str:
        """Do the stage's work: seeded, within its time limit, its warnings sorted."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _seed(self.spec.seed, stage)
            try:
                with time_limit(str(stage), self.spec.verify.timeout):
                    return self._work(stage)()
            finally:
                self._notes.tell(transform_advice(caught))

    def _work(self, stage: Stage) -> Callable[[], str]:
        """What builds or runs the stage, and says in a few words what came of it."""
        first = {
            Stage.ENV: self._env.build,
            Stage.POLICY: self._networks.build_policy,
            Stage.CRITIC: self._finish_networks,
        }
        later = {
            Stage.COLLECT: self._collection.build,
            Stage.ADVANTAGE: self._training.advantage,
            Stage.REPLAY: self._replay,
            Stage.LOSS: self._loss,
        }
        return first[stage] if stage in first else lambda: later[stage](self._built())

    def _from_worker(self, error: StageError) -> StageError:
        """The parent of a failed worker process only sees that it failed; its log says why."""
        trouble = self._log.trouble() if self._log is not None else None
        if trouble is None or isinstance(error, StageTimeout):
            return error
        return stage_error(error.stage, trouble)

    def _cannot_train(self, stage: Stage) -> str:
        """Why a stage behind collection has nothing to work on.

        A failed estimator leaves the replay its data, and the loss of a script as well: that was
        seen.
        """
        section = getattr(self.spec, str(stage)) or (stage is Stage.REPLAY and self.spec.batch)
        if not section:
            return ""  # the stage says so itself
        first = self.stages.index(Stage.COLLECT)
        before = self.stages[first : self.stages.index(stage)]
        apart = stage is Stage.REPLAY or self.spec._made is not None
        needed = [one for one in before if not apart or one is not Stage.ADVANTAGE]
        failed = [one for one in needed if one in self.failures]
        if failed:
            return f"the {failed[0]} stage failed"
        lacking = self._built().lacking
        if newer := next((lacking[one] for one in needed if one in lacking), ""):
            lacking[stage] = newer
            return newer
        return "" if self._built().batches else "nothing is collected"

    # --- the pipeline ------------------------------------------------------------------------

    def _finish_networks(self) -> str:
        """The critic; then the env gets its state transforms, and the parts become a pipeline."""
        networks = self._networks
        networks.build_critic()
        self._env.complete(networks.policy, networks.critic)
        self._change()
        self.pipeline = self._whole()
        return networks.told_of_critic()

    def _change(self) -> None:
        """What was planted changes the parts before anything runs."""
        if self._plant is None:
            return
        parts = Parts(self.spec, self._env.env, self._networks.policy, self._networks.critic)
        hooks = self._collection.hooks = self._training.hooks = self._plant(parts)
        self._env.change(hooks.env)
        self._networks.change(hooks)

    def _whole(self) -> Pipeline:
        policy, critic = self._networks.policy, self._networks.judged_critic
        judged = with_training_pass(self.spec, policy, self._networks.offered)
        copied = pristine_copy(judged, "policy", self.notices)
        judging = None if critic is None else pristine_copy(critic, "critic", self.notices)
        return Pipeline(
            self.spec,
            self._env.maker,
            self._env.env,
            policy,
            copied,
            critic=critic,
            pristine_critic=judging,
            sources=self._notes.sources,
            failures=self.failures,
            notices=self.notices,
        )

    def _replay(self, pipeline: Pipeline) -> str:
        detail = self._training.replay(pipeline)
        self._notes.tell(self._training.told)
        return detail

    def _loss(self, pipeline: Pipeline) -> str:
        detail = self._training.loss(pipeline)
        made = self.spec._made
        if made is not None and made.others:
            pipeline.of_loss = made.first
            pipeline.others.extend(other_pipelines(pipeline, made.others, self._training))
        return "; ".join([detail, *(one.of_loss for one in pipeline.others)])

    def _built(self) -> Pipeline:
        if self.pipeline is None:
            raise RuntimeError("collect comes after env, policy and critic")
        return self.pipeline


def raising_line(stage: Stage, raised: StageError) -> Source | None:
    """The user's line that raised, with the lines around it."""
    at = raised.place
    if at is None:
        return None
    frame = read_frame(at.path, at.line)
    return Source(at.path, at.line, at.column, "python", str(stage), frame)


def _seed(seed: int, stage: Stage) -> None:
    """A seed of its own for every stage.

    What a later one builds anew must not come out as the spec's own policy.
    """
    own = (seed + _SEED_STRIDE * _STAGES.index(stage)) % _LARGEST_SEED
    torch.manual_seed(own)
    random.seed(own)
    np.random.seed(own)
