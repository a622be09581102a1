"""What acting gives at the steps of a training batch, those of random actions among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample, step_numbers, truth
from rnncheck.checks.evidence.trajectory_replay import Replayed, replays_of
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.recording.recording import Trajectory


@dataclass(frozen=True)
class ReplayedSample:
    """Sequential outputs at the steps of a sample, ``[rows, steps, ...]``; ``has`` says at which of
    them they are known."""

    outputs: dict[Key, Tensor]
    has: Tensor


def replayed_sample(evidence: Evidence, sample: Sample) -> ReplayedSample:
    """What the isolated replay gives at the steps of the sample. Nobody acted where actions were
    random: what the policy would have given there is known in rows that hold their trajectory from
    its beginning on. Raises CouldNotLook where no trajectory could be replayed."""
    known, ids = truth(evidence), sample.ids.clamp_min(0)
    outputs = {key: value[ids] for key, value in known.outputs.items()}
    has = sample.known & known.has[ids]
    for item in _random_replays(evidence, sample):
        numbers = step_numbers(sample.steps, item)
        for row, begin in (sample.ids == numbers[0]).nonzero().tolist():
            there = sample.ids[row, begin : begin + len(numbers)]
            same = int((there == numbers[: len(there)]).long().cumprod(0).sum())
            has[row, begin : begin + same] = True
            for key in outputs.keys() & set(tensor_keys(item.truth)):
                outputs[key][row, begin : begin + same] = item.truth.get(key)[0, :same]
    return ReplayedSample(outputs, has)


def _random_replays(evidence: Evidence, sample: Sample) -> Iterator[Replayed]:
    """Of trajectories that begin among random actions, and in the sample. Of what was made of such
    an action ahead of the next one nothing is known: the policy must read what the env shows."""
    subject, recording = evidence.policy, sample.steps.recording
    inputs = set(subject.reads) - set(subject.carry) - set(subject.flags)
    if not inputs <= set(recording.handed_on):
        return
    there = set(sample.ids[sample.known].tolist())

    def begins_there(one: Trajectory) -> bool:
        first = one.stretches[0]
        return one.fresh and sample.steps.numbers[first.batch, first.row, first.begin] in there

    found = recording.trajectories(random=True)
    yield from replays_of(evidence, filter(begins_there, found))
