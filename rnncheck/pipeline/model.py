"""The live objects that a spec stands for, and where each of them was written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tensordict import TensorDictBase
from torch import nn
from torchrl.envs import EnvBase

from rnncheck.errors import StageError
from rnncheck.pipeline.compat import (
    adds_policy_transforms,
    runs_workers,
    takes_turns,
    with_policy_transforms,
)
from rnncheck.pipeline.recording.batch_changes import changed_between
from rnncheck.pipeline.recording.batch_makers import Maker
from rnncheck.pipeline.recording.ends_by import EndsBy
from rnncheck.pipeline.recording.overfilled import Overfilled
from rnncheck.results.model import Source, Stage
from rnncheck.spec.model import Spec


@dataclass
class Pipeline:
    """What was built, stage by stage; a stage that the spec leaves out is None.

    ``pristine_policy`` and ``pristine_critic`` are copies taken before anything ran. ``batches``
    are the collected tensordicts, as the collector gave them. ``failures`` holds the stages that
    raised while they ran. ``samples`` are training batches: sampled from the replay buffer, made by
    the user's ``batch`` factory, or the estimated batches themselves; each of their steps holds its
    ``STEP_KEY`` number where the user's code kept it.
    """

    spec: Spec
    make_env: Callable[[], EnvBase]
    env: EnvBase
    policy: nn.Module
    pristine_policy: nn.Module
    critic: nn.Module | None = None
    pristine_critic: nn.Module | None = None
    collector: object | None = None
    acting_env: EnvBase | None = (
        None  # the env that the collector really steps, where it can be seen
    )
    batches: list[TensorDictBase] = field(default_factory=list)
    stored_random: int | None = (
        None  # leading random ``batches``, where they are a buffer's content
    )
    replay: Any = None  # the replay buffer
    estimator: Any = None  # the value estimator, called on a tensordict
    loss: Any = None  # the loss module, called on a tensordict
    uncalled: str = ""  # why the loss could not be called, which is no fault of it
    updater: Any = None  # the target updater, built from the loss
    estimated: list[TensorDictBase] = field(
        default_factory=list
    )  # collected batches after `on: collect`
    samples: list[TensorDictBase] = field(default_factory=list)  # what the loss is called on
    whole: list[TensorDictBase] = field(
        default_factory=list
    )  # what the loss is called on instead, where it makes the samples of these by itself
    openings: list[TensorDictBase] = field(
        default_factory=list
    )  # states of later rows, ``collected`` and ``given`` to training
    joins: list[TensorDictBase] = field(
        default_factory=list
    )  # states that a later batch was to go on with, and those it was ``given``
    disturbed: str = ""  # where a script played its collector's env between two batches
    unstepped: frozenset[str] | None = None  # weights of its losses that no optimiser has, by name
    learning: frozenset[str] = frozenset()  # those that the script's own backward gave a gradient
    # What a script runs the loss's pass on ahead of it, to make the states of its first steps.
    burn_ins: list[TensorDictBase] = field(default_factory=list)
    as_seen: bool = False  # of a script that was watched: what it does not do is not asked for
    # Networks of the kind of trained ones, by name: where the script may update one that it was not
    # seen to, empty where it may not; None for those that it was.
    targets: dict[str, str | None] = field(default_factory=dict)
    apart: bool = False  # what acts was given nothing of what the optimisers step
    untrained: int = 0  # where that stays so: the updates that were made
    left: str | None = None  # where what acts may be given them later, empty where no line may
    anew: bool = False  # every batch began with a reset of all envs
    counted: frozenset[str] = frozenset()  # buffers that moved while it acted
    forgets: str = ""  # what acts by recurrent layers that begin from zeros at every step
    never_reset: bool = False  # no episode began behind another, for a loop to put its state back
    ends_by: EndsBy = EndsBy.ANY  # what its episodes were seen to end by
    shows_starts: bool = False  # its env may show at an end what the next episode begins with
    overfilled: Overfilled | None = None  # a second buffer of the user's own, beyond its capacity
    batch_source: Source | None = None  # where the batch factory is written
    makers: list[Maker] = field(default_factory=list)  # what made the samples out of stored steps
    sources: dict[Stage, Source] = field(default_factory=dict)
    failures: dict[Stage, StageError] = field(default_factory=dict)
    lacking: dict[Stage, str] = field(
        default_factory=dict
    )  # skipped: TorchRL or the processor here lacks what they need
    notices: list[str] = field(default_factory=list)
    of_loss: str = ""  # what its loss is called, where a script has several
    others: list[Pipeline] = field(default_factory=list)  # the same with the script's other losses

    @property
    def loss_batches(self) -> list[TensorDictBase]:
        """What the loss is called on."""
        return self.whole or self.samples

    def make_acting_env(self) -> EnvBase:
        """A fresh env as the collector steps it: with the transforms that the collector itself
        adds."""
        env = self.make_env()
        if adds_policy_transforms(self.collector):
            env = with_policy_transforms(env, self.policy)
        return env

    @property
    def random_frames(self) -> int:
        """How many frames a random policy collected first: whole batches, where whole batches are
        handed over."""
        frames = int(getattr(self.collector, "init_random_frames", 0) or 0)
        size = int(getattr(self.collector, "requested_frames_per_batch", 0) or 0)
        whole = getattr(self.collector, "extend_buffer", True)
        return -(-frames // size) * size if frames > 0 and size and whole else max(0, frames)

    @property
    def random_batches(self) -> int:
        """How many of the first batches were collected by a random policy."""
        size = int(getattr(self.collector, "requested_frames_per_batch", 0) or 0)
        if self.stored_random is not None or not size:
            return self.stored_random or 0
        return -(-self.random_frames // size)

    @property
    def takes_turns(self) -> bool:
        """Whether consecutive batches may come from different workers."""
        stored = self.stored_random is not None and runs_workers(self.collector)
        return stored or takes_turns(self.collector)

    def training_source(self, key: str = "") -> Source:
        """Where the user wrote what made the training batches as they are: the batch factory, where
        there is no other or it changed the order or the entry ``key``; else the replay."""
        given = next((one.given for one in self.makers if one.name == "batch"), None)
        if self.batch_source is None or given is None or not self.samples:
            return self.source(Stage.REPLAY)
        by_batch = self.replay is None or changed_between(given, self.samples[0], key)
        return self.batch_source if by_batch else self.source(Stage.REPLAY)

    def source(self, stage: Stage) -> Source:
        """Where the user wrote this stage: the factory's ``def`` line, or the spec's line."""
        fallback = self.spec.locate((str(stage),))
        default = Source(fallback.path, fallback.line, fallback.column, "spec", str(stage))
        return self.sources.get(stage, default)
