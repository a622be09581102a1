"""Heads of episodes, each replayed alone, and the batches that are laid out of them."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.resets_seen import gets_whole_episodes, was_never_reset
from rnncheck.checks.rule import CouldNotLook
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.heads import Constructed, Piece, lay_out
from rnncheck.pipeline.subject.passes import IN_DOUBLE, StartStates, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.results.model import Stage


def replayed_heads(evidence: Evidence, subject: Subject) -> list[list[Piece]]:
    """Per env row, every head replayed alone."""
    return evidence.once("replayed heads of the", lambda: _pieces(evidence, subject), subject.stage)


def _pieces(evidence: Evidence, subject: Subject) -> list[list[Piece]]:
    heads = evidence.heads()
    if subject.stage is Stage.CRITIC:
        policy = replayed_heads(evidence, evidence.policy)
        inputs = [[_critic_inputs(subject, piece) for piece in row] for row in policy]
    else:
        inputs = [[head[row : row + 1] for head in heads.inputs] for row in range(heads.rows)]
    double = runs_in_double(evidence, subject, inputs[0][0])
    return [
        [
            _replay_alone(subject, head, row, double, answer[row : row + 1])
            for head, answer in zip(heads_of_row, heads.nexts, strict=True)
        ]
        for row, heads_of_row in enumerate(inputs)
    ]


def runs_in_double(evidence: Evidence, subject: Subject, inputs: TensorDictBase) -> bool:
    """Whether a float64 copy of the module runs a few steps."""
    return evidence.once(
        "float64 run of the", lambda: _runs_in_double(subject, inputs), subject.stage
    )


def constructed(evidence: Evidence, subject: Subject, rows: int | None = None) -> Constructed:
    """Heads end to end as the collector would lay them out; ``rows`` defaults to the env's."""
    pieces = replayed_heads(evidence, subject)
    if was_never_reset(evidence, subject) or gets_whole_episodes(evidence, subject):
        # Nothing says what it does with a second one.
        pieces = [[max(row, key=lambda one: one.inputs.shape[1])] for row in pieces]
        rows = len(pieces)
    count = rows or (1 if subject.rank == 0 else max(2, len(pieces)))
    return evidence.once(
        "batch of heads of the", lambda: lay_out(pieces, count), subject.stage, count
    )


def longest_head(evidence: Evidence, subject: Subject) -> Constructed:
    """The longest head of the first row, one segment; as many rows of it as the module takes."""
    piece = max(replayed_heads(evidence, subject)[0], key=lambda p: p.inputs.shape[1])
    return lay_out([[piece]], subject.tile)


def trained_head(evidence: Evidence, subject: Subject) -> tuple[Constructed, int]:
    """The longest head that recurrent mode runs with a graph, and how many steps of other heads
    stand ahead of it in its row: as many as a burn-in has, at least; its own where each trajectory
    is run alone."""
    if burnt := subject.burnt_alone:
        made = longest_head(evidence, subject)
        if made.steps <= burnt + 1:
            raise CouldNotLook(f"no episode's head is longer than the {burnt} steps of the burn-in")
        return made, burnt
    if not subject.burnt:
        return longest_head(evidence, subject), 0
    pieces = replayed_heads(evidence, subject)[0]
    ends = [sum(one.inputs.shape[1] for one in pieces[: n + 1]) for n in range(len(pieces))]
    begins = [n + 1 for n, end in enumerate(ends[:-1]) if end >= subject.burnt]
    if not begins:
        raise CouldNotLook(
            f"no episode's head lies behind the {subject.burnt} steps of the burn-in"
        )
    last = max(begins, key=lambda n: pieces[n].inputs.shape[1])
    return lay_out([pieces[: last + 1]], subject.tile, turned=False), ends[last - 1]


def _runs_in_double(subject: Subject, inputs: TensorDictBase) -> bool:
    some = inputs[:1, :3]  # several steps: the state that comes back must fit as well
    starts = torch.arange(some.shape[1]).unsqueeze(0) == 0
    try:
        states = StartStates(fresh=_row(subject, 0))
        out = unroll_subject(subject, some, starts, states, settings=IN_DOUBLE)
    except Exception:  # a module may create float32 tensors of its own
        return False
    kinds = {out.get(key).dtype for key in tensor_keys(out)}
    return torch.float64 in kinds


def _row(subject: Subject, row: int) -> dict[Key, Tensor]:
    return {key: value[row : row + 1] for key, value in subject.fresh.items()}


def _replay_alone(
    subject: Subject, head: TensorDictBase, row: int, double: bool, answer: TensorDictBase
) -> Piece:
    starts = torch.zeros(1, head.shape[1], dtype=torch.bool)
    starts[:, 0] = True
    fresh = _row(subject, row)
    states = StartStates(fresh=fresh)
    truth = unroll_subject(subject, head, starts, states)
    oracle = unroll_subject(subject, head, starts, states, settings=IN_DOUBLE) if double else None
    stored = {
        key: torch.cat([fresh[key].unsqueeze(1), truth.get(next_key(key))[:, :-1]], 1)
        for key in fresh
        if next_key(key) in tensor_keys(truth)
    }
    return Piece(head, stored, truth, oracle, answer)


def _critic_inputs(critic: Subject, piece: Piece) -> TensorDictBase:
    """What the critic may read at the steps of one of the policy's heads."""
    td = piece.inputs.clone()
    td.update(piece.truth.exclude("next"))
    return critic.inputs_of(td)
