"""What is measured: the policy over its recorded episodes, and a critic over the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictSequential
from torch import Tensor, nn

from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.env_facts import EnvFacts
from rnncheck.pipeline.subject.introspect import make_subject
from rnncheck.pipeline.subject.passes import RunSettings, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.recall.outputs import MeasuredOutput, measured_outputs
from rnncheck.recall.session import PlayedEpisode
from rnncheck.results.model import Stage

_BYTES = 2**26  # of one batch of windows, 64 MiB


class CannotTell(Exception):
    """A question that these episodes do not answer, and why."""


@dataclass(frozen=True)
class EpisodePool:
    """The steps of all recorded episodes, end to end."""

    inputs: TensorDictBase  # [steps]
    states: Mapping[Key, Tensor]  # [steps, ...], before each step
    lengths: tuple[int, ...]
    goes_on: bool = False  # the longest of them was left before its end

    @property
    def begins(self) -> list[int]:
        return [sum(self.lengths[:i]) for i in range(len(self.lengths))]

    def window(self, rows: Sequence[tuple[int, int]], steps: int) -> tuple[Tensor, Tensor]:
        """Step numbers ``[rows, steps]`` from ``(episode, step)`` on, and which of them are inside
        the episode; behind its end the last step stands."""
        begin = torch.tensor([self.begins[e] for e, _ in rows])
        last = torch.tensor([self.lengths[e] - 1 for e, _ in rows])
        at = torch.tensor([s for _, s in rows])[:, None] + torch.arange(steps)
        inside = (at >= 0) & (at <= last[:, None])
        return begin[:, None] + at.clamp(min=0).minimum(last[:, None]), inside


def pool_of(episodes: Sequence[PlayedEpisode]) -> EpisodePool:
    """All steps of ``episodes``. Raises CannotTell where none has an earlier step."""
    lengths = tuple(one.length for one in episodes)
    if max(lengths, default=0) < 2:
        raise CannotTell("every episode has a single step")
    inputs = torch.cat([one.inputs for one in episodes])
    keys = episodes[0].states
    states = {key: torch.cat([one.states[key] for one in episodes]) for key in keys}
    goes_on = any(not one.ended and one.length == max(lengths) for one in episodes)
    return EpisodePool(inputs, states, lengths, goes_on)


def affordable_rows(pool: EpisodePool, steps: int, wanted: int) -> int:
    """How many rows of so many steps fit into ``_BYTES``."""
    one = pool.inputs[0]
    size = sum(one.get(key).nbytes for key in tensor_keys(one))
    return max(8, min(wanted, _BYTES // max(1, int(size) * steps)))


@dataclass(frozen=True)
class Measured:
    """A network and the steps that it is measured on.

    ``not_its_own`` are outputs and states that another part is measured by; ``stored`` says whether
    collected data holds its states.
    """

    subject: Subject
    pool: EpisodePool
    agents: dict[str, int]
    actions: tuple[Key, ...]
    not_its_own: frozenset[Key] = frozenset()
    stored: bool = True

    @property
    def whose(self) -> str:
        """``policy`` or ``critic``."""
        return str(self.subject.stage)

    @property
    def states(self) -> list[Key]:
        """The carry keys whose own curves and facts are told."""
        return [key for key in self.subject.carry if key not in self.not_its_own]

    def outputs(self, out: TensorDictBase) -> list[MeasuredOutput]:
        """What it puts out. Raises CannotTell where there is nothing to compare."""
        found = measured_outputs(self.subject, out, self.agents, self.actions)
        mine = [one for one in found if self.not_its_own.isdisjoint(one.keys)]
        if not mine:
            raise CannotTell(f"the {self.whose} puts out no floats and no distribution")
        return mine


def whole_episodes(subject: Subject, pool: EpisodePool, settings: RunSettings) -> TensorDict:
    """Every episode from its first step, end to end ``[steps]``."""
    count, longest = len(pool.lengths), max(pool.lengths)
    at, inside = pool.window([(e, 0) for e in range(count)], longest)
    starts = torch.zeros(count, longest, dtype=torch.bool)
    starts[:, 0] = True
    return unroll_subject(subject, pool.inputs[at], starts, settings=settings)[inside]


def states_over(subject: Subject, pool: EpisodePool) -> Mapping[Key, Tensor]:
    """The states before each step that ``subject`` has on the episodes, ``[steps]``."""
    out, found = whole_episodes(subject, pool, RunSettings()), {}
    for key, fresh in subject.fresh.items():
        new = out.get(next_key(key), None)
        if new is None:
            raise CannotTell(f"the {subject.stage} does not write {'.'.join(key)}")
        before = torch.cat([new[:1], new[:-1]])
        rows = torch.arange(len(pool.lengths)) % len(fresh)
        before[pool.begins] = fresh[rows].to(before.dtype)
        found[key] = before
    return found


def measured_critic(module: nn.Module, policy: Measured, facts: EnvFacts) -> Measured | None:
    """The critic over the policy's episodes; None where no state reaches its values.

    One that reads what the policy makes of its observations, beside the action, is measured behind
    the policy, whose state it rests on. Raises CannotStep.
    """
    pool, subject = policy.pool, policy.subject
    given = whole_episodes(subject, pool, RunSettings()).exclude("next")
    extra = _first_outputs(subject, facts)
    critic = make_subject(Stage.CRITIC, module, facts, extra=extra)
    made = set(tensor_keys(given)) - set(tensor_keys(facts.first)) - set(facts.actions)
    if made & set(critic.reads):
        both = TensorDictSequential(subject.module, module)
        critic = make_subject(Stage.CRITIC, both, facts)
        wide, others = pool.inputs, frozenset((*tensor_keys(given), *subject.carry))
    else:
        wide, others = pool.inputs.clone().update(given), frozenset[Key]()
    if not critic.carry:
        return None
    bare = EpisodePool(critic.inputs_of(wide), {}, pool.lengths, pool.goes_on)
    states = states_over(critic, bare)
    stored = set(critic.carry) <= set(subject.carry) and bool(others)
    seen = replace(bare, states=states)
    return Measured(critic, seen, policy.agents, facts.actions, others, stored)


def _first_outputs(subject: Subject, facts: EnvFacts) -> TensorDictBase:
    """What the policy writes to the root in one step, ``[*batch]``."""
    inputs = subject.inputs_of(facts.first).reshape(facts.rows).unsqueeze(1)
    out = unroll_subject(subject, inputs, torch.ones(facts.rows, 1, dtype=torch.bool))[:, 0]
    return out.exclude("next").reshape(facts.first.batch_size)
