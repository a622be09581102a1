"""Heads: the first steps of a few episodes, taken from the user's own env by the user's own policy.

They are what the module-level checks work on, so that those need no collector and inherit none of
its faults.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.subject.modes import MEASURING_SEED, measuring
from rnncheck.pipeline.subject.passes import call
from rnncheck.pipeline.subject.subject import Subject, next_key

PATTERN = (7, 3, 10, 1, 6, 5)  # steps per head: short, long, a single one; 32 as `verify.steps`
MAX_ROWS = 4  # envs of a batch that are looked at: chosen, an unroll's cost grows with them
MAX_HEADS = (
    24  # four times the pattern, the 128 steps of `--thorough`, also where episodes are short
)
MIN_HEADS = 3  # a first, a last, and one that has a neighbour on either side


@dataclass
class Heads:
    """``inputs[i]`` is ``[rows, length_i]``: what the policy may read at the first steps of episode
    ``i``; ``nexts[i]`` has what the env wrote under ``next`` in these steps."""

    inputs: list[TensorDictBase] = field(default_factory=list)
    nexts: list[TensorDictBase] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return int(self.inputs[0].shape[0])

    @property
    def steps(self) -> int:
        return sum(int(head.shape[1]) for head in self.inputs)


def done_keys(env: EnvBase) -> list[Key]:
    """The env's own end-of-episode entries, as tuples."""
    return [key if isinstance(key, tuple) else (key,) for key in env.done_keys]


def rows_done(nxt: TensorDictBase, keys: list[Key], rank: int) -> Tensor:
    """Which rows end at this step: any of the env's done entries; shape ``[*batch]`` flattened to
    rows."""
    flags = [nxt.get(key).flatten(rank).any(-1) for key in keys if nxt.get(key, None) is not None]
    ended: Tensor = on_cpu(torch.stack(flags).any(0).reshape(-1))
    return ended


def take_heads(subject: Subject, env: EnvBase, steps: int, longest: int | None = None) -> Heads:
    """Play ``PATTERN`` over and over until ``steps`` steps are there; an early end shortens a head.
    Where rows have ``longest`` steps at most, all heads together have no more; where each is run
    alone, each has what is burned in more, and that alone is limited."""
    burnt = subject.burnt_alone
    heads, pattern = Heads(), _within(None if burnt else longest)
    steps += burnt * MIN_HEADS
    while len(heads.inputs) < MAX_HEADS:
        length = pattern[len(heads.inputs) % len(pattern)] + burnt
        if burnt:
            length = min(length, longest or length)
        elif longest is not None:
            length = min(length, longest - heads.steps)
        if not length:
            break
        inputs, nexts = _play(subject, env, length, len(heads.inputs))
        heads.inputs.append(inputs)
        heads.nexts.append(nexts)
        if heads.steps >= steps and len(heads.inputs) >= MIN_HEADS:
            break
    return heads


def _within(longest: int | None) -> tuple[int, ...]:
    """The pattern, with at least the fewest heads among as many steps."""
    fewest = PATTERN[:MIN_HEADS]
    if longest is None or longest >= sum(fewest):
        return PATTERN
    return tuple(max(1, longest * one // sum(fewest)) for one in fewest)


def _play(
    subject: Subject, env: EnvBase, length: int, number: int
) -> tuple[TensorDictBase, TensorDictBase]:
    """One head: its inputs and what the env answered, ``[rows, length]`` each."""
    network, taken, answers = subject.copy(), [], []
    state = dict(subject.fresh)
    rows = max(1, torch.Size(subject.batch_shape).numel())
    keys, kept = done_keys(env), max(MAX_ROWS, subject.tile)
    with measuring(recurrent=False, explore=True, seed=MEASURING_SEED + number):
        td = env.reset()
        first = tensor_keys(td)  # what a module writes without declaring it comes later
        for t in range(length):
            given = td.select(*first, strict=False)
            taken.append(subject.inputs_of(given.clone()).reshape(rows)[:kept])
            td.update(_given(subject, td, state, t == 0))
            td.update(call(network, td.copy()))
            nxt = env.step(td)
            over = bool(rows_done(nxt["next"], keys, subject.rank).any())  # for all envs, then
            last = over or t == length - 1
            answers.append(_answer(subject, nxt, keys, last=last).reshape(rows)[:kept])
            state = {k: _kept(td, k, v, rows) for k, v in state.items()}
            if over:
                break
            td = env.step_mdp(nxt)
    return on_cpu(torch.stack(taken, 1)), on_cpu(torch.stack(answers, 1))


def _answer(
    subject: Subject, stepped: TensorDictBase, done: list[Key], *, last: bool
) -> TensorDictBase:
    """What the env wrote under ``next``, without the module's own states and the start flags.

    A head is cut as a time limit would cut it: ``done`` and ``truncated`` are true at its end,
    where the episode did not end by itself.
    """
    mine = {next_key(key) for key in (*subject.carry, *subject.flags)}
    keys = [key for key in tensor_keys(stepped) if key[0] == "next" and key not in mine]
    answer: TensorDictBase = stepped.select(*keys).clone()
    ended = {key[:-1]: stepped.get(next_key(key)) for key in done if key[-1] == "terminated"}
    for key in done if last else ():
        if key[-1] != "terminated" and next_key(key) in keys:
            flag = answer.get(next_key(key))
            over = ended.get(key[:-1]) if key[-1] == "truncated" else None
            cut = torch.ones_like(flag) if over is None else flag | ~over
            answer.set(next_key(key), cut)
    return answer


def _kept(td: TensorDictBase, key: Key, old: Tensor, rows: int) -> Tensor:
    new = td.get(next_key(key), None)
    return old if new is None else new.reshape(rows, *new.shape[td.ndim :])


def _given(
    subject: Subject, td: TensorDictBase, state: dict[Key, Tensor], first: bool
) -> TensorDictBase:
    rows = next(iter(state.values())).shape[0] if state else max(1, td.numel())
    given = TensorDict({}, batch_size=[rows])
    given.update(subject.flag_values(torch.full((rows,), first, dtype=torch.bool)))
    given.update(state)
    return given.reshape(td.shape)


@dataclass
class Constructed:
    """Heads laid end to end, in another order in every row: all that the module-level checks
    compare.

    All tensors are ``[rows, steps, ...]``. ``stored`` is the true state before each step, ``truth``
    the isolated float32 (or native) replay and ``oracle`` the float64 one, None where float64
    cannot be run.
    """

    inputs: TensorDictBase
    starts: Tensor
    segments: Tensor
    stored: dict[Key, Tensor]
    truth: TensorDictBase
    oracle: TensorDictBase | None
    nexts: TensorDictBase  # what the env wrote under ``next``; a segment's last step ends it

    @property
    def rows(self) -> int:
        return int(self.starts.shape[0])

    @property
    def steps(self) -> int:
        return int(self.starts.shape[1])

    @property
    def ends(self) -> Tensor:
        """Last steps of the segments, ``[rows, steps]``."""
        last = torch.ones_like(self.starts[:, :1])
        return torch.cat([self.starts[:, 1:], last], 1)

    def batch(self, subject: Subject, inputs: TensorDictBase | None = None) -> TensorDictBase:
        """The batch as collection would have stored it: inputs, flags, true states, answers."""
        td = TensorDict({}, batch_size=self.starts.shape)
        td.update({key: self.nexts.get(key) for key in tensor_keys(self.nexts)})
        source = self.inputs if inputs is None else inputs
        td.update({key: source.get(key) for key in tensor_keys(source)})
        td.update(subject.flag_values(self.starts))
        return td.update(self.stored)

    def window(self, skip: int) -> Constructed:
        """The same without the first ``skip`` steps: rows that begin in the middle of a segment."""
        return Constructed(
            self.inputs[:, skip:],
            self.starts[:, skip:],
            self.segments[:, skip:],
            {key: value[:, skip:] for key, value in self.stored.items()},
            self.truth[:, skip:],
            None if self.oracle is None else self.oracle[:, skip:],
            self.nexts[:, skip:],
        )


@dataclass(frozen=True)
class Piece:
    """One head of one row, replayed alone."""

    inputs: TensorDictBase
    stored: dict[Key, Tensor]
    truth: TensorDictBase
    oracle: TensorDictBase | None
    nexts: TensorDictBase


def lay_out(pieces: list[list[Piece]], rows: int, *, turned: bool = True) -> Constructed:
    """Row ``r`` gets the pieces of env ``r mod envs``, rotated by ``2 r`` if ``turned``."""
    arranged = []
    for row in range(rows):
        own = pieces[row % len(pieces)]
        turn = (2 * row) % len(own) if turned else 0
        arranged.append(list(enumerate(own[turn:] + own[:turn])))
    return Constructed(
        inputs=_grid([[p.inputs for _, p in row] for row in arranged]),
        starts=torch.stack([_starts([p for _, p in row]) for row in arranged]),
        segments=torch.stack([_numbers(row) for row in arranged]),
        stored={
            key: torch.cat([torch.cat([p.stored[key] for _, p in row], 1) for row in arranged])
            for key in arranged[0][0][1].stored
        },
        truth=_grid([[p.truth for _, p in row] for row in arranged]),
        oracle=_oracle(arranged),
        nexts=_grid([[p.nexts for _, p in row] for row in arranged]),
    )


def _grid(rows: list[list[TensorDictBase]]) -> TensorDictBase:
    return torch.cat([torch.cat(list(row), 1) for row in rows], 0)


def _oracle(arranged: list[list[tuple[int, Piece]]]) -> TensorDictBase | None:
    rows: list[list[TensorDictBase]] = []
    for row in arranged:
        found = [piece.oracle for _, piece in row if piece.oracle is not None]
        if len(found) < len(row):
            return None
        rows.append(found)
    return _grid(rows)


def _starts(pieces: list[Piece]) -> Tensor:
    marks = [torch.arange(piece.inputs.shape[1]) == 0 for piece in pieces]
    return torch.cat(marks)


def _numbers(row: list[tuple[int, Piece]]) -> Tensor:
    return torch.cat([torch.full((piece.inputs.shape[1],), i) for i, piece in row])
