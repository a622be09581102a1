"""Whose rewards weigh the steps of an agent, in an estimator or a loss of the user's own: its own,
or those of another agent alone. Told by other rewards of one agent at a time, at every step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.estimator_calls import batches, made_by, written
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, float_inputs
from rnncheck.checks.evidence.row_credit import LEAST_PLACES, Seeded, all_same, moved_at
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.pipeline.keys import Key, dotted, tensor_keys

MOST = 8  # agents: chosen, each of them takes a run of the estimator
SMALLEST = 1e-5  # share of the largest move below which it is rounding


@dataclass(frozen=True)
class OtherAgents:
    """Each agent's ``reward`` moves the ``key`` of one agent alone, and of some it is another's."""

    key: Key
    reward: Key
    batch: int
    agents: int
    steps: int  # that move


def of_other_agents(evidence: Evidence) -> OtherAgents | None:
    """The first number of each agent and step that is made so; None too where that is not told."""
    try:
        keys = made_by(evidence)
        found = batches(evidence) if keys else []
        told = (_of_batch(evidence, number, one, keys) for number, one in enumerate(found))
        return next((one for one in told if one is not None), None)
    except Unanswered:  # an estimator that raises is VL605's
        return None


def _of_batch(
    evidence: Evidence, number: int, sample: Sample, keys: list[Key]
) -> OtherAgents | None:
    for reward, agents in _rewards(sample):
        base = written(evidence, sample, sample.td)
        after = [_paid(evidence, sample, reward, agent) for agent in range(agents)]
        for key in keys:
            moved = [_moved(base.get(dotted(key)), one.get(dotted(key)), agents) for one in after]
            known = [one.tolist() for one in moved if one is not None]
            if len(known) == agents and (steps := _exchanged(known)):
                return OtherAgents(key, reward, number, agents, steps)
    return None


def _rewards(sample: Sample) -> Iterator[tuple[Key, int]]:
    """Rewards ``[rows, steps, agents, ...]`` of several agents."""
    for key in tensor_keys(sample.rows):
        if key[0] == "next" and key[-1] == "reward":
            shape = sample.rows.get(key).shape[2:]
            if shape and 1 < shape[0] <= MOST:
                yield key, int(shape[0])


def _paid(evidence: Evidence, sample: Sample, reward: Key, agent: int) -> dict[str, Tensor]:
    """What the estimator makes where this agent has other rewards."""
    rows = sample.rows.clone()
    value = rows.get(reward).clone()
    drawn = torch.randn(value[:, :, agent].shape, generator=torch.Generator().manual_seed(7))
    value[:, :, agent] += (1 + value.abs().max()) * drawn.to(value.dtype)
    return written(evidence, sample, rows.set(reward, value).reshape(sample.td.shape))


def _moved(before: Tensor | None, after: Tensor | None, agents: int) -> Tensor | None:
    """At which agents ``[agents]`` how many steps move; None where it is not of each agent."""
    if before is None or after is None or before.shape != after.shape:
        return None
    if before.shape[2:3] != (agents,):
        return None
    gaps = (after - before).abs().nan_to_num().reshape(*before.shape[:3], -1).amax(-1)
    moves: Tensor = (gaps > SMALLEST * max(float(gaps.max()), SMALLEST)).flatten(0, 1).sum(0)
    return moves


def _exchanged(moved: list[list[int]]) -> int:
    """How many steps of others move, where every agent moves one alone, and no two the same; by
    agent, those of each agent. What is shared, or made of one agent's for all, is no exchange."""
    places = [[agent for agent, count in enumerate(one) if count] for one in moved]
    if any(len(one) != 1 for one in places) or len({one[0] for one in places}) < len(moved):
        return 0
    return sum(
        count for n, one in enumerate(moved) for agent, count in enumerate(one) if agent != n
    )


def weighed_with_others(evidence: Evidence) -> OtherAgents | None:
    """The same of a loss, by the gradient at what layers give for each agent, which is told by what
    the agent observes."""
    try:
        for number, sample in each_sample(evidence)[:1]:
            for reward, agents in _rewards(sample):
                asked = _Agents(evidence, sample, 0, agents)
                for key in (reward, *_made(sample, agents)):
                    if (count := asked.exchanged(key)) >= LEAST_PLACES:
                        return OtherAgents(key, reward, number, agents, count)
    except Unanswered:
        return None
    return None


def _made(sample: Sample, agents: int) -> list[Key]:
    """Numbers of each agent and step that were not collected."""
    size = sample.valid.numel() * agents
    keys = float_inputs(sample.rows, root=True, following=False)
    shaped = [key for key in keys if sample.rows.get(key).shape[2:3] == (agents,)]
    return [
        key
        for key in shaped
        if key not in sample.steps.columns and sample.rows.get(key).numel() == size
    ]


@dataclass(frozen=True)
class _Agents(Seeded):
    """One agent is the part that is asked, in all rows."""

    agents: int

    def exchanged(self, key: Key) -> int:
        """At how many places of others the entry of an agent moves a layer, of layers at which each
        agent's moves one alone; 0 where a network reads it."""
        (given, before), found = self._base, list[list[Tensor | None]]()
        for agent in range(self.agents):
            own, gradients = self._gradients(self.other(agent, [key]))
            if not all_same(given, own):
                return 0
            found.append(gradients)
        places = [self._places(agent) for agent in range(self.agents)]
        return sum(
            _exchanged([[_count(at[n], old, new[n]) for at in places] for new in found])
            for n, old in enumerate(before)
        )

    def rest(self, row: int, keys: list[Key]) -> None:
        """What one agent is shown may reach the places of others: ``exchanged`` reckons with it."""

    def other(self, row: int | None, keys: list[Key]) -> TensorDictBase:
        """The batch with other values of this agent, or of all of them."""
        every = changed_batch(self.sample, self.sample.valid, keys)
        if row is None:
            return every
        rows, new = self.sample.rows.clone(), every.reshape(self.sample.rows.shape)
        for key in keys:
            value = rows.get(key).clone()
            if value.shape[2:3] == (self.agents,):
                value[:, :, row] = new.get(key)[:, :, row]
                rows.set(key, value)
        return rows.reshape(self.sample.td.shape)


def _count(at: Tensor | None, before: Tensor | None, after: Tensor | None) -> int:
    """Places where the gradient moves."""
    if at is None or before is None or after is None:
        return 0
    return int((at & moved_at(before, after)).sum())
