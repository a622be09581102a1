"""The stages behind collection, in the user's order.

collect -> advantage on each collected batch -> replay (extend, sample) and ``batch`` -> loss;
``advantage.on: sample`` moves the estimator behind the replay and the ``batch`` factory.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.errors import ComponentError, Lacking, StageError, UnrepeatableError
from rnncheck.pipeline.assembly import replay as replaying
from rnncheck.pipeline.assembly.advantage import build_estimator
from rnncheck.pipeline.assembly.factories import Offered, call_factory, component_source, wrong_type
from rnncheck.pipeline.assembly.loss import Kit, MakeNetwork, build_loss, build_updater
from rnncheck.pipeline.assembly.more_batches import (
    TakeBatch,
    is_scarcity,
    more_batches_notice,
    no_more,
)
from rnncheck.pipeline.assembly.overfilling import is_too_large, overfill
from rnncheck.pipeline.assembly.refusals import explained
from rnncheck.pipeline.assembly.steps import tag, tagged
from rnncheck.pipeline.assembly.stored import contents
from rnncheck.pipeline.compat import runs_workers
from rnncheck.pipeline.copying.copies import CannotCopy, copy_of
from rnncheck.pipeline.copying.restoring import CannotUndo
from rnncheck.pipeline.guard.calling import running
from rnncheck.pipeline.instruments.call_loss import LossParts, form_loss
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.instruments.run_estimator import run_estimator
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.placing import placed
from rnncheck.pipeline.plant.hooks import Hooks
from rnncheck.pipeline.recording.batch_makers import Maker, NotedInputs
from rnncheck.pipeline.recording.made_batches import MadeBatches
from rnncheck.pipeline.recording.overfilled import Overfilled, is_own
from rnncheck.pipeline.recording.sampling import draw_samples
from rnncheck.pipeline.recording.turned import is_time_first, time_last
from rnncheck.printable import counted
from rnncheck.results.model import Stage
from rnncheck.spec.model import Component, LossSpec, ReplaySpec, Spec

COLLECTED, SAMPLED = "collect", "sample"


def order_of(spec: Spec) -> tuple[Stage, ...]:
    """The stages behind collection in the order in which they run."""
    if spec.advantage is not None and runs_on(spec) == SAMPLED:
        return Stage.REPLAY, Stage.ADVANTAGE, Stage.LOSS
    return Stage.ADVANTAGE, Stage.REPLAY, Stage.LOSS


def runs_on(spec: Spec) -> str:
    """Where the estimator runs: a collector that writes into the buffer leaves only the samples."""
    section = spec.advantage
    if section is None or not writes_into_replay(spec):
        return COLLECTED if section is None else section.on
    if section.on == COLLECTED and "on" in section.model_fields_set:
        raise ComponentError(
            "the collector writes straight into the replay buffer, before any estimator",
            place=spec.locate((*section.at, "on")),
            accepted="on: sample",
        )
    return SAMPLED


def writes_into_replay(spec: Spec) -> bool:
    """Whether ``collect: {replay_buffer: true}`` is said of one of TorchRL's collectors."""
    collect = spec.collect
    return collect is not None and collect.args.get("replay_buffer") is True


@dataclass
class Training:
    """Builds the replay, the estimator and the loss of one pipeline, and runs each once."""

    spec: Spec
    offered: Offered
    device: torch.device
    make_network: MakeNetwork
    scratch: Path | None = None
    hooks: Hooks = field(default_factory=Hooks)
    buffer: Any = None
    filled: bool = False  # by the collector itself
    tagged: list[TensorDictBase] = field(default_factory=list)
    more: TakeBatch = no_more  # one further batch of the collector, where it can go on
    told: list[str] = field(default_factory=list)  # what was done beyond the spec's own words
    time_first: bool = False  # the ``batch`` factory gives [T, B], as ``training_pass`` says

    def replay_buffer(self) -> Any:
        """The buffer, built when it is first asked for."""
        section = self.spec.replay
        if self.buffer is None and section is not None:
            self.buffer = self._built(section, self._folder())
            replaying.check_batch_size(self.spec, section, self.buffer)
        return self.buffer

    def _built(self, section: ReplaySpec, folder: Path) -> Any:
        return self.hooks.replay(replaying.build_replay(self.spec, section, self.offered, folder))

    def _folder(self) -> Path:
        if self.scratch is None:
            self.scratch = Path(tempfile.mkdtemp(prefix="rnncheck-"))
        return self.scratch / "storage"

    def steps(self, pipeline: Pipeline) -> list[TensorDictBase]:
        """The collected batches, numbered copies of them."""
        if not self.tagged:
            self.tagged = tagged(pipeline.batches)
        return self.tagged

    def take_over(self, pipeline: Pipeline) -> None:
        """What the collector wrote into the buffer, numbered there, unless it gave its batches as
        well."""
        self.filled = len(self.buffer) > 0
        if self.filled and not pipeline.batches:
            by_step = getattr(pipeline.collector, "extend_buffer", True) is False
            by_turns = runs_workers(pipeline.collector)
            held = contents(self.buffer, pipeline.random_frames, by_step=by_step, by_turns=by_turns)
            pipeline.batches.extend(held.batches)
            pipeline.stored_random = held.random

    # --- stages ------------------------------------------------------------------------------

    def advantage(self, pipeline: Pipeline) -> str:
        """Build the estimator and run it: on the collected batches or on the samples."""
        section = self.spec.advantage
        if section is None:
            return ""
        pipeline.sources[Stage.ADVANTAGE] = component_source(self.spec, section)
        made = build_estimator(self.spec, section, self.offered, self.device)
        pipeline.estimator = self.hooks.estimator(made)
        before = runs_on(self.spec) == COLLECTED
        batches = self._to_estimate(pipeline) if before else pipeline.samples
        done = [run_estimator(section, pipeline.estimator, batch) for batch in batches]
        if before:
            pipeline.estimated = done
        else:
            pipeline.samples = done
        return f"{section.use or section.factory} on {counted(len(done), 'batch')}"

    def _to_estimate(self, pipeline: Pipeline) -> list[TensorDictBase]:
        """The collected batches, or what a script was seen to give its estimator."""
        made = self.spec._made
        if made is not None:
            return list(made.estimated)
        return [self._moved(batch) for batch in self.steps(pipeline)]

    def _moved(self, batch: TensorDictBase) -> TensorDictBase:
        """On the spec's device, as a training loop moves what its buffer gives; on the CPU nothing
        is moved."""
        return batch if self.device.type == "cpu" else placed(batch, self.device)

    def replay(self, pipeline: Pipeline) -> str:
        """Fill and sample the replay buffer, let the ``batch`` factory work, or take the batches as
        they are."""
        if self.spec._made is not None:
            return self._seen(pipeline, self.spec._made)
        batches = pipeline.estimated or self.steps(pipeline)
        told = self._through_buffer(pipeline, batches)
        pipeline.samples = pipeline.samples if self.spec.replay is not None else list(batches)
        pipeline.samples = [self.hooks.sample(sample) for sample in pipeline.samples]
        made = self._handmade(pipeline)
        if pipeline.replay is not None and not self.filled and is_own(pipeline.replay):
            with suppress(Exception):  # it ran as the spec has it; what more may break is not asked
                self._overfill(pipeline, batches)
        return ", ".join(filter(None, (told, made)))

    def _seen(self, pipeline: Pipeline, made: MadeBatches) -> str:
        """The batches that a script was seen to train on."""
        component = self.spec.batch
        if component is None or not made.trained:
            return ""
        pipeline.sources[Stage.REPLAY] = component_source(self.spec, component)
        pipeline.samples = [self.hooks.sample(one.clone()) for one in made.trained]
        pipeline.whole = [one.clone() for one in made.whole]
        pipeline.makers.extend(made.makers)
        pipeline.openings.extend(made.openings)
        many = counted(len(made.trained), "training batch")
        return f"{many} of {list(pipeline.samples[0].shape)}, as the script made them"

    def _overfill(self, pipeline: Pipeline, batches: list[TensorDictBase]) -> None:
        """Fill a second buffer over its capacity: what runs over its write cursor shows there."""
        section, component = self.spec.replay, self.spec.batch
        pipeline.overfilled = Overfilled()
        if section is None or is_too_large(pipeline.replay, batches):
            return
        folder = self._folder().with_name("overfilled")
        second = self._built(section, folder)
        try:

            def draw() -> TensorDictBase:
                sample = self.hooks.sample(self._moved(draw_samples(section, second, 1)[0]))
                return sample if component is None else self._made(component, sample)

            def extend(batch: TensorDictBase) -> None:
                replaying.fill(section, second, [batch.clone()])

            pipeline.overfilled = overfill(second, extend, batches, draw)
        finally:
            replaying.stop_prefetching(second)

    def _through_buffer(self, pipeline: Pipeline, batches: list[TensorDictBase]) -> str:
        section = self.spec.replay
        if section is None:
            return ""
        pipeline.sources[Stage.REPLAY] = component_source(self.spec, section)
        pipeline.replay = self.replay_buffer()
        if not self.filled:
            self._fill(pipeline, section, batches)
        with NotedInputs(pipeline.replay) as noted:
            pipeline.samples = self._drawn(pipeline, section)
        pipeline.makers.extend(noted.makers())
        name = type(pipeline.replay).__name__
        many = counted(len(pipeline.samples), "sample")
        return f"{name}, {many} of {list(pipeline.samples[0].shape)}"

    def _drawn(self, pipeline: Pipeline, section: ReplaySpec) -> list[TensorDictBase]:
        """Samples; where too little was collected for the sampler, more is, as in a training run's
        first rounds."""
        first = len(pipeline.batches)
        while True:
            try:
                samples = draw_samples(section, pipeline.replay)
                break
            except StageError as error:
                batch = self.more() if is_scarcity(error) and not self.filled else None
                if batch is None:
                    raise explained(error, pipeline.replay, len(pipeline.batches)) from None
                self._extend(pipeline, section, batch)
        if len(pipeline.batches) > first:
            self.told.append(more_batches_notice(first, len(pipeline.batches)))
        return [self._moved(sample) for sample in samples]

    def _extend(self, pipeline: Pipeline, section: ReplaySpec, batch: TensorDictBase) -> None:
        """One more collected batch, on the way of those before it."""
        numbered = tag(batch.clone(), sum(one.numel() for one in pipeline.batches))
        pipeline.batches.append(batch)
        self.tagged.append(numbered)
        estimator = self.spec.advantage
        if pipeline.estimated and estimator is not None:
            numbered = run_estimator(estimator, pipeline.estimator, numbered)
            pipeline.estimated.append(numbered)
        self._fill(pipeline, section, [numbered])

    def _fill(self, pipeline: Pipeline, section: ReplaySpec, batches: list[TensorDictBase]) -> None:
        try:
            replaying.fill(section, pipeline.replay, batches)
        except StageError as error:
            raise explained(error, pipeline.replay) from None

    def _handmade(self, pipeline: Pipeline) -> str:
        component = self.spec.batch
        if component is None:
            return ""
        pipeline.batch_source = component_source(self.spec, component)
        pipeline.sources.setdefault(Stage.REPLAY, pipeline.batch_source)
        given = pipeline.samples[0].clone()
        pipeline.makers.append(Maker("batch", given, lambda data: self._made(component, data)))
        made = [self._made(component, sample.clone()) for sample in pipeline.samples]
        shape = list(made[0].shape)
        if self._declared_time_first() and all(map(is_time_first, made)):
            self.time_first, made = True, [time_last(one, 0) for one in made]
        pipeline.samples = made
        return f"{counted(len(made), 'batch')} of {shape} by {component.factory}"

    def _declared_time_first(self) -> bool:
        section, estimator = self.spec.training_pass, self.spec.advantage
        to_sample = estimator is not None and runs_on(self.spec) == SAMPLED
        return section is not None and section.time_first and not to_sample

    def _made(self, component: Component, data: TensorDictBase) -> TensorDictBase:
        try:
            batch = call_factory(self.spec, component, {**self.offered, "data": lambda: data})
        except ComponentError as error:
            if error.__cause__ is None or isinstance(error, Lacking):
                raise
            # what it raises on real data is the stage's outcome, as with a loss
            said = (error.message, error.place, error.frames)
            raise StageError("replay", said[0], place=said[1], frames=said[2]) from error.__cause__
        if not isinstance(batch, TensorDictBase):
            raise wrong_type(self.spec, component, batch, "a tensordict")
        return time_last(batch.detach(), 0) if self.time_first else batch.detach()

    def loss(self, pipeline: Pipeline) -> str:
        """Build the loss and call a copy of it once."""
        section = self.spec.loss
        if section is None:
            return ""
        pipeline.sources[Stage.LOSS] = component_source(self.spec, section)
        pipeline.samples = [self.hooks.trained(sample) for sample in pipeline.samples]
        pipeline.loss = self.hooks.loss(self.make_loss(pipeline, section, {}))
        if section.target_update is not None:
            pipeline.updater = build_updater(self.spec, section.target_update, pipeline.loss)
        told = section.use or str(section.factory)
        if self.spec._made is not None:
            self._repeated(pipeline)
        try:
            return f"{told}, {self._value(pipeline)}" if pipeline.samples else told
        except (CannotCopy, CannotUndo) as error:  # no fault of the loss: the checks say so
            pipeline.uncalled = str(error)
            return f"{told}, not called: {error}"

    def _repeated(self, pipeline: Pipeline) -> None:
        """Whether a script's loss can be called again: it did run there, so that what it raises
        here is nothing that it does wrong."""
        try:
            self._formed(pipeline, 0)
        except (StageError, CannotCopy, CannotUndo) as error:
            said = error.message if isinstance(error, StageError) else str(error)
            pipeline.loss = None
            raise UnrepeatableError(
                f"what the script does with its batch cannot be done again: {said}; a function of"
                " the batch that returns its loss, marked @rnncheck.loss, can"
            ) from error

    def make_loss(self, pipeline: Pipeline, section: LossSpec, instead: Offered) -> Any:
        """The loss; ``instead`` offers other networks than the pipeline's."""
        offered = {**self.offered, **instead}
        made = build_loss(
            self.spec, section, Kit(offered, pipeline.env, self.device, self.make_network)
        )
        if isinstance(made, OwnLoss):
            made.time_first = self.time_first
        return made

    def _value(self, pipeline: Pipeline) -> str:
        """The loss of the first training batch; every batch is tried."""
        total, parts = self._formed(pipeline, 0)
        for number in range(1, len(pipeline.loss_batches)):
            try:
                self._formed(pipeline, number)
            except StageError as error:
                said = f"{error.message} (training batch {number}; the ones before it run)"
                raise StageError("loss", said, place=error.place, frames=error.frames) from error
        named = f" ({', '.join(parts)})" if len(parts) > 1 else ""
        return f"{float(total.detach()):.4g}{named}"

    def _formed(self, pipeline: Pipeline, number: int) -> tuple[Tensor, LossParts]:
        trial = copy_of(pipeline.loss, "the loss")  # it may adapt itself with every call
        with running("loss"), torch.enable_grad():
            return form_loss(trial, pipeline.loss_batches[number])

    def close(self) -> None:
        """Stop prefetching and remove what was written."""
        replaying.stop_prefetching(self.buffer)
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)
