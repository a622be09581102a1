"""What the value estimator writes, and what the critic says along the true trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.estimator_calls import SHIFTED, estimated, written
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample, collected
from rnncheck.checks.rule import CouldNotLook
from rnncheck.pipeline.keys import Key, as_key, dotted, tensor_keys
from rnncheck.pipeline.subject.passes import StartStates, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, next_key


def per_step(evidence: Evidence, sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
    """The estimator's outputs of one batch as ``[rows, steps, ...]``, without states that passes
    leave behind."""
    carry = {name for k in carried(evidence) for name in (".".join(k), ".".join(next_key(k)))}
    over = ended(sample, "done")
    found = {
        name: value for name, value in written(evidence, sample, td).items() if name not in carry
    }
    valid = found.pop(SHIFTED, None)
    left_out = torch.zeros_like(over) if valid is None else _left_out(valid, over)
    return {
        name: _without(value, left_out | over if name.startswith("next.") else left_out)
        for name, value in found.items()
    }


def dropped(evidence: Evidence, sample: Sample) -> Tensor:
    """Steps ``[rows, steps]`` that the estimator itself marks as left out."""
    valid = estimated(evidence, sample.td).get(SHIFTED)
    none = torch.zeros_like(sample.valid)
    return none if valid is None else _left_out(valid, none)


def _left_out(valid: Tensor, like: Tensor) -> Tensor:
    """Steps outside the shifted pass, and the last one inside: TorchRL cuts the row there, whatever
    its done says."""
    left_out = ~valid.reshape(*like.shape, -1).any(-1)
    result = left_out.clone()
    result[:, :-1] |= left_out[:, 1:]
    return result


def _without(value: Tensor, out: Tensor) -> Tensor:
    """Entries that have no meaning as zeros: next values of done steps, steps that the estimator
    leaves out."""
    wide = out.reshape(*out.shape, *([1] * (value.ndim - 2)))
    return torch.where(wide, torch.zeros_like(value), value)


def carried(evidence: Evidence) -> list[Key]:
    """Carry keys of policy and critic."""
    critic = evidence.critic
    return [*evidence.policy.carry, *(critic.carry if critic is not None else ())]


@dataclass(frozen=True)
class Values:
    """The critic along the trajectories, by step number: V before the step, and where it is known;
    of the last recorded steps also V behind them."""

    value: Tensor
    has: Tensor
    behind: Tensor
    has_behind: Tensor

    def following(self, sample: Sample) -> tuple[Tensor, Tensor]:
        """V behind each step of the batch, and where it is known."""
        ids = sample.ids.clamp_min(0)
        after = sample.steps.successor[ids]
        inside, next_ids = after >= 0, after.clamp_min(0)
        wide = inside.reshape(*inside.shape, *([1] * (self.value.ndim - 1)))
        value = torch.where(wide, self.value[next_ids], self.behind[ids])
        return value, torch.where(inside, self.has[next_ids], self.has_behind[ids])


def true_values(evidence: Evidence, name: str | Key) -> Values:
    """The critic's (or policy's) value at every collected step, each trajectory replayed alone step
    by step."""
    return evidence.once("true values", lambda: _true_values(evidence, name), name)


def _true_values(evidence: Evidence, name: str | Key) -> Values:
    subject = valuing(evidence, name)
    steps, recording = collected(evidence), evidence.recording
    value, has = None, torch.zeros(len(steps.places), dtype=torch.bool)
    behind, has_behind = value, has.clone()
    for trajectory in recording.trajectories():
        if not trajectory.fresh:
            continue
        recorded = recording.gather(trajectory)
        row = trajectory.stretches[0].row % recording.env.rows
        fresh = {key: state[row : row + 1] for key, state in subject.fresh.items()}
        starts = torch.zeros(1, recorded.shape[1], dtype=torch.bool)
        starts[:, 0] = True
        inputs = subject.inputs_of(recorded)
        if (beyond := _step_beyond(subject, recorded, inputs)) is not None:
            inputs = torch.cat([inputs, beyond], 1)
            starts = torch.cat([starts, torch.zeros_like(starts[:, :1])], 1)
        out = unroll_subject(subject, inputs, starts, StartStates(fresh=fresh)).get(as_key(name))
        numbers = torch.tensor(
            [
                steps.numbers[(s.batch, s.row, t)]
                for s in trajectory.stretches
                for t in range(s.begin, s.end)
            ]
        )
        if value is None or behind is None:
            value = torch.zeros(len(steps.places), *out.shape[2:], dtype=out.dtype)
            behind = value.clone()
        value[numbers], has[numbers] = out[0, : len(numbers)], True
        if beyond is not None:
            behind[numbers[-1]], has_behind[numbers[-1]] = out[0, -1], True
    if value is None or behind is None:
        raise CouldNotLook("no trajectory was collected from its start")
    return Values(value, has, behind, has_behind)


def _step_beyond(
    subject: Subject, recorded: TensorDictBase, inputs: TensorDictBase
) -> TensorDictBase | None:
    """The step behind the last recorded one, ``[1, 1]``; None where not all that the subject reads
    of it was recorded."""
    there, found = set(tensor_keys(recorded)), inputs[:, -1:].clone()
    for key in tensor_keys(inputs):
        if next_key(key) in there:
            found.set(key, recorded.get(next_key(key))[:, -1:])
        elif key in subject.reads or not subject.reads:
            return None
    return found


def valuing(evidence: Evidence, name: str | Key) -> Subject:
    """The subject that writes the value ``name``."""
    for subject in (evidence.critic, evidence.policy):
        if subject is not None and as_key(name) in subject.writes:
            return subject
    raise CouldNotLook(f"neither critic nor policy writes {dotted(as_key(name))!r}")


def ended(sample: Sample, key: str) -> Tensor:
    """``[rows, steps]``: the recorded ``("next", key)`` is true."""
    flag: Tensor | None = sample.rows.get(("next", key), None)
    if flag is None:
        return torch.zeros_like(sample.valid)
    return flag.reshape(*sample.rows.shape, -1).any(-1) & sample.valid
