"""What a script was seen to estimate and to train on, in the place of what a spec would make."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensordict import TensorDictBase
from torch import nn

from rnncheck.pipeline.recording.batch_makers import Maker
from rnncheck.pipeline.recording.ends_by import EndsBy
from rnncheck.spec.model import Spec


@dataclass(frozen=True)
class OtherTraining:
    """A loss, an estimator or both that a script calls beside those that its spec has: they are the
    sections of a ``spec`` of their own. ``critic`` is theirs, where it is another one."""

    name: str
    spec: Spec
    critic: nn.Module | None = None


@dataclass(frozen=True)
class MadeBatches:
    """Copies: ``estimated`` are what the estimator was given, ``trained`` what the loss was.

    ``whole`` are what the loss is called on where it makes the trained ones of these by itself.
    ``makers`` are the transforms that the script ran on samples.
    ``random`` of the collected ones are a random policy's, where they were read back from a buffer.
    ``openings`` ``[rows]`` are states that rows of later batches were ``collected`` with, and those
    ``given`` to training.
    ``joins`` ``[rows]`` are states that a later batch was to go on with, and those that it was
    ``given``. ``disturbed`` is where the script played its collector's env between two batches.
    ``apart``: no optimiser has the weights that act, and they were given nothing of what is
    stepped. ``untrained``: so many updates long, up to the script's end. ``left``: where the script
    may give them to what acts, empty where no line may; None where it did, or nobody asked.
    ``anew``: every batch began with a reset of all envs.
    ``never_reset``: the script puts its state back by itself, and no episode began behind another.
    ``forgets`` is what acts by recurrent layers that begin from zeros at every step.
    ``ends_by`` is what its episodes were seen to end by.
    ``shows_starts``: its env may show at an end what the next episode begins with.
    ``unstepped`` are the weights of its losses, by name, that no optimiser of the script has; None
    where that is not known. ``learning`` are those that the script's own backward gave a gradient.
    ``burn_ins`` are what the loss's pass is run on ahead of it, to make the states of its first
    steps.
    ``targets`` are networks of its losses of the kind of trained ones, by name: where the script
    may update one that it was not seen to, empty where it may not; None for those that it was.
    ``others`` are what is estimated and trained on beside these.
    """

    estimated: list[TensorDictBase] = field(default_factory=list)
    trained: list[TensorDictBase] = field(default_factory=list)
    whole: list[TensorDictBase] = field(default_factory=list)
    makers: list[Maker] = field(default_factory=list)
    random: int | None = None
    openings: list[TensorDictBase] = field(default_factory=list)
    joins: list[TensorDictBase] = field(default_factory=list)
    disturbed: str = ""
    unstepped: frozenset[str] | None = None
    learning: frozenset[str] = frozenset()
    burn_ins: list[TensorDictBase] = field(default_factory=list)
    targets: dict[str, str | None] = field(default_factory=dict)
    apart: bool = False
    untrained: int = 0
    left: str | None = None
    anew: bool = False
    never_reset: bool = False
    forgets: str = ""
    counted: frozenset[str] = frozenset()
    ends_by: EndsBy = EndsBy.ANY
    shows_starts: bool = False
    first: str = ""  # how the loss is called, where there are others
    others: list[OtherTraining] = field(default_factory=list)
