"""The stages behind collection, in the user's order.

collect -> advantage on each collected batch -> replay (extend, sample) and ``batch`` -> loss; ``advantage.on: sample``
moves the estimator behind the replay and the ``batch`` factory.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase

from rnncheck.errors import ComponentError, StageError
from rnncheck.pipeline import replay as replaying
from rnncheck.pipeline.advantage import build_estimator, estimate
from rnncheck.pipeline.factories import call_factory, source_of, wrong_type
from rnncheck.pipeline.guard import running
from rnncheck.pipeline.hooks import Hooks
from rnncheck.pipeline.loss import Kit, MakeNetwork, build_loss, build_updater
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.nested import Offered
from rnncheck.pipeline.steps import tagged
from rnncheck.pipeline.train import form_loss
from rnncheck.results.model import Stage
from rnncheck.spec.model import Component, Spec

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

    def replay_buffer(self) -> Any:
        """The buffer, built when it is first asked for."""
        section = self.spec.replay
        if self.buffer is None and section is not None:
            self.buffer = replaying.build_replay(self.spec, section, self.offered, self._folder())
            replaying.check_batch_size(self.spec, section, self.buffer)
        return self.buffer

    def _folder(self) -> Path:
        if self.scratch is None:
            self.scratch = Path(tempfile.mkdtemp(prefix="rnncheck-"))
        return self.scratch / "storage"

    def steps(self, pipeline: Pipeline) -> list[TensorDictBase]:
        """The collected batches, numbered copies of them."""
        if not self.tagged:
            self.tagged = tagged(pipeline.batches)
        return self.tagged

    def take_over(self, batches: list[TensorDictBase]) -> list[TensorDictBase]:
        """What the collector wrote into the buffer, numbered there; nothing where it gave its batches as well."""
        self.filled = len(self.buffer) > 0
        if not self.filled or batches:
            return []
        return [replaying.number_contents(self.buffer)]

    # --- stages ------------------------------------------------------------------------------

    def advantage(self, pipeline: Pipeline) -> str:
        """Build the estimator and run it: on the collected batches or on the samples."""
        section = self.spec.advantage
        if section is None:
            return ""
        pipeline.sources[Stage.ADVANTAGE] = source_of(self.spec, section)
        made = build_estimator(self.spec, section, self.offered, self.device)
        pipeline.estimator = self.hooks.estimator(made)
        before = runs_on(self.spec) == COLLECTED
        batches = self.steps(pipeline) if before else pipeline.samples
        done = [estimate(section, pipeline.estimator, batch) for batch in batches]
        if before:
            pipeline.estimated = done
        else:
            pipeline.samples = done
        return f"{section.use or section.factory} on {_counted(len(done), 'batch')}"

    def replay(self, pipeline: Pipeline) -> str:
        """Fill and sample the replay buffer, let the ``batch`` factory work, or take the batches as they are."""
        batches = pipeline.estimated or self.steps(pipeline)
        told = self._through_buffer(pipeline, batches)
        pipeline.samples = pipeline.samples if self.spec.replay is not None else list(batches)
        pipeline.samples = [self.hooks.sample(sample) for sample in pipeline.samples]
        made = self._handmade(pipeline)
        return ", ".join(filter(None, (told, made)))

    def _through_buffer(self, pipeline: Pipeline, batches: list[TensorDictBase]) -> str:
        section = self.spec.replay
        if section is None:
            return ""
        pipeline.sources[Stage.REPLAY] = source_of(self.spec, section)
        pipeline.replay = self.replay_buffer()
        if not self.filled:
            replaying.fill(section, pipeline.replay, batches)
        pipeline.samples = replaying.draw(section, pipeline.replay)
        name = type(pipeline.replay).__name__
        return f"{name}, {len(pipeline.samples)} samples of {list(pipeline.samples[0].shape)}"

    def _handmade(self, pipeline: Pipeline) -> str:
        component = self.spec.batch
        if component is None:
            return ""
        pipeline.sources.setdefault(Stage.REPLAY, source_of(self.spec, component))
        made = [self._made(component, sample.clone()) for sample in pipeline.samples]
        pipeline.samples = made
        return f"{_counted(len(made), 'batch')} of {list(made[0].shape)} by {component.factory}"

    def _made(self, component: Component, data: TensorDictBase) -> TensorDictBase:
        try:
            batch = call_factory(self.spec, component, {**self.offered, "data": lambda: data})
        except ComponentError as error:
            if error.__cause__ is None:
                raise
            # what it raises on real data is the stage's outcome, as with a loss
            said = (error.message, error.place, error.frames)
            raise StageError("replay", said[0], place=said[1], frames=said[2]) from error.__cause__
        if not isinstance(batch, TensorDictBase):
            raise wrong_type(self.spec, component, batch, "a tensordict")
        return batch.detach()

    def loss(self, pipeline: Pipeline) -> str:
        """Build the loss and call a copy of it once."""
        section = self.spec.loss
        if section is None:
            return ""
        pipeline.sources[Stage.LOSS] = source_of(self.spec, section)
        pipeline.samples = [self.hooks.trained(sample) for sample in pipeline.samples]
        kit = Kit(self.offered, pipeline.env, self.device, self.make_network)
        pipeline.loss = self.hooks.loss(build_loss(self.spec, section, kit))
        if section.target_update is not None:
            pipeline.updater = build_updater(self.spec, section.target_update, pipeline.loss)
        told = section.use or str(section.factory)
        return f"{told}, {self._value(pipeline)}" if pipeline.samples else told

    def _value(self, pipeline: Pipeline) -> str:
        trial = _copied(pipeline.loss)  # some losses adapt themselves with every call
        with running("loss"), torch.enable_grad():
            total, parts = form_loss(trial, pipeline.samples[0])
        said = f" ({', '.join(parts)})" if len(parts) > 1 else ""
        return f"{float(total.detach()):.4g}{said}"

    def close(self) -> None:
        """Stop prefetching and remove what was written."""
        replaying.close(self.buffer)
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)


def _copied(loss: Callable[[TensorDictBase], Any]) -> Callable[[TensorDictBase], Any]:
    with suppress(Exception):
        return copy.deepcopy(loss)
    return loss


def _counted(count: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
