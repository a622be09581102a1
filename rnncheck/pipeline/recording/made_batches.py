"""What a script was seen to estimate and to train on, in the place of what a spec would make."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensordict import TensorDictBase

from rnncheck.pipeline.recording.batch_makers import Maker


@dataclass(frozen=True)
class MadeBatches:
    """Copies: ``estimated`` are what the estimator was given, ``trained`` what the loss was.

    ``makers`` are the transforms that the script ran on samples.
    ``random`` of the collected ones are a random policy's, where they were read back from a buffer.
    """

    estimated: list[TensorDictBase] = field(default_factory=list)
    trained: list[TensorDictBase] = field(default_factory=list)
    makers: list[Maker] = field(default_factory=list)
    random: int | None = None
