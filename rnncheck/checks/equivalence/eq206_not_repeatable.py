"""The same input twice gives different outputs: active dropout, or a state outside the tensordict.

Checks
    The same steps are run twice through one copy of the module with the same random seed, in both
    modes: any bit that differs comes from a state that the tensordict does not show. Then with two
    seeds and exploration off: a carried state may not differ at all, other outputs only where no
    dropout is active in the module or called by it.

Why it matters
    A state in an attribute is not replayed, not reset, and shared by all envs. Dropout that is left
    on makes the replayed policy another one than the policy that acted.

Says nothing when
    an output is drawn on purpose and not carried (a sampled action), a state is drawn where an
    episode starts alone and not anew in training (the head of an ensemble that acts), or noise
    follows TorchRL's exploration type; whether what was drawn is stored is CL406's question. Nor
    where a policy that draws its actions without asking draws a state in training as well (a
    latent), or is given there what was drawn (a goal that is stored). Running statistics are held
    still while anything is judged: buffers that a step moves, that keep their shape, and that come
    out alike whatever the order of the rows.

Fix
    Carry state under a key and ``("next", key)``; call ``policy.eval()`` or keep dropout out of the
    carried path.

Example
    self.h = h                 # no: td["next", "h"] = h
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rnncheck.checks.evidence.comparison import OutputChange, changes
from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.drawn_ahead import is_given_what_was_drawn
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.hidden_state import hidden_state
from rnncheck.checks.evidence.observations import sizes
from rnncheck.checks.evidence.random_outputs import random_outputs
from rnncheck.checks.evidence.recurrent_pass import as_collected
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.pipeline.keys import Key, declared, dotted, tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.passes import RunSettings, run_recurrent, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, all_reads, next_key
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage

RANDOM_STATE = (
    "the carried state depends on the random seed although exploration is off",
    (
        "random numbers are drawn on the way into the state: noise, zoneout, weights or latents"
        " drawn at each call"
    ),
    (
        "draw them only where exploration_type() asks for it; for a stochastic latent that is"
        " meant, use its mode under ExplorationType.DETERMINISTIC or ignore EQ206"
    ),
)
_UNSEEN = (
    "the carried state depends on the random seed, and the policy draws its actions without asking"
    " whether to explore: whether training draws that state too, as a latent, could not be seen"
)
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout")


def run(evidence: Evidence) -> Judgement:
    """Policy and critic (also those without carry keys: a hidden state is what is looked for)."""
    findings: list[Observation] = []
    compared = 0
    for subject in [s for s in (evidence.policy, evidence.stepped_critic) if s is not None]:
        made = constructed(evidence, subject)
        finding = _hidden(evidence, subject, made) or random_output(evidence, subject, made)
        findings += [finding] if finding else []
        compared += made.steps
    return Judgement(tuple(findings), compared, counted(compared, "step", "are repeatable"))


def _hidden(evidence: Evidence, subject: Subject, made: Constructed) -> Observation | None:
    found = hidden_state(evidence, subject, made)
    if found is None:
        return None
    return _observed(subject, made, found.change,
        message=f"{found.mode} mode: the same steps twice give different outputs",
        cause="state outside the tensordict: "
        + (", ".join(found.moved[:4]) or "not in an attribute"),
        fix="carry it under a key and ('next', key), primed and reset by the env",
    )  # fmt: skip


class DropoutCalls(TorchFunctionMode):
    """Counts functional dropout calls that are active."""

    def __init__(self) -> None:
        super().__init__()
        self.active = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in DROPOUTS:
            training = kwargs.get(
                "training", kwargs.get("train", args[2] if len(args) > 2 else True)
            )
            rate = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
            self.active += int(bool(training) and rate > 0)
        return func(*args, **kwargs)


def random_output(evidence: Evidence, subject: Subject, made: Constructed) -> Observation | None:
    """A state that differs between two seeds with exploration off, or outputs that do because
    dropout is on."""
    noisy = random_outputs(evidence, subject)
    if not noisy:
        return None
    names = dropout_modules(subject.module)
    with DropoutCalls() as calls:
        one = unroll_subject(subject, made.inputs, made.starts)
    dropout = bool(names or calls.active)
    carry = {next_key(key) for key in subject.carry}
    blamed = noisy if dropout else noisy & carry
    two = unroll_subject(subject, made.inputs, made.starts, settings=RunSettings(seed=1))
    drawn = set() if dropout else noisy & set(evidence.env.actions)
    before, until = _drawn_alike(one, two, drawn, made.starts)
    actionless = blamed & _without_actions(evidence, subject)
    asked = blamed and (drawn or actionless)
    training = _draws_in_training(subject, made) if asked else False
    if training is not False:
        actionless = frozenset()
    found = [
        *changes(one, two, sorted(actionless), until),
        *changes(one, two, sorted(blamed - actionless), before),
    ]
    if not found or (not dropout and _drawn_at_starts(subject, made, blamed)):
        return None
    if drawn and training is None:
        raise CouldNotLook(_UNSEEN)
    if drawn and training:  # it never asks whether to explore: a latent has no other way
        return None
    if drawn and is_given_what_was_drawn(evidence, subject, noisy):
        return None
    message, cause, fix = _dropout(names) if dropout else RANDOM_STATE
    return _observed(subject, made, found[0], message=message, cause=cause, fix=fix)


def _drawn_alike(
    one: TensorDictBase, two: TensorDictBase, drawn: Set[Key], starts: Tensor
) -> tuple[Tensor, Tensor]:
    """``[rows, steps]``, True before the first step of a row at which another action was drawn, and
    up to it: a state may hold the last action, and a policy may draw without asking whether to
    explore."""
    alike = torch.ones_like(starts)
    for key in drawn:
        same = (one.get(key) == two.get(key)).reshape(*starts.shape[:2], -1).all(-1)
        alike = alike & same.reshape(starts.shape)
    before = alike.reshape(*starts.shape[:2]).long().cumprod(1).bool()
    until = torch.cat([torch.ones_like(before[:, :1]), before[:, :-1]], 1)
    return before.reshape(starts.shape), until.reshape(starts.shape)


def _drawn_at_starts(subject: Subject, made: Constructed, states: Set[Key]) -> bool:
    """Whether they are drawn where an episode starts alone, as a skill or the head of an ensemble
    that acts for the whole of it is, and training does not draw them anew."""
    inside = torch.zeros_like(made.starts)
    one, two = (
        unroll_subject(subject, made.inputs, inside, settings=RunSettings(seed=s)) for s in (0, 1)
    )
    kept = all(torch.equal(one.get(key), two.get(key)) for key in states)
    return kept and _draws_in_training(subject, made) is False


def _draws_in_training(subject: Subject, made: Constructed) -> bool | None:
    """Whether the recurrent mode draws as acting does, as that of a stochastic latent; None where
    it cannot be run, and may."""
    td = as_collected(subject, made.batch(subject))
    try:
        one, two = (run_recurrent(subject, td, settings=RunSettings(seed=s)) for s in (0, 1))
    except Exception:  # the user's module may raise anything: other checks tell of it
        return None
    return any(not torch.equal(one.get(key), two.get(key)) for key in tensor_keys(one))


def _without_actions(evidence: Evidence, subject: Subject) -> set[Key]:
    """States that no action of the same step can be in: of modules that neither read nor write
    one."""
    actions = set(evidence.env.actions)
    return {
        next_key(key)
        for one in subject.carriers
        for key in one.keys
        if not actions & {*all_reads(one.module), *declared(one.module, "out_keys")}
    }


def _dropout(names: list[str]) -> tuple[str, str, str]:
    return (
        "the outputs depend on the random seed: dropout is active",
        "dropout in train mode: " + (", ".join(names[:4]) or "a functional dropout call"),
        "call eval() on the policy for acting and replay, or remove the dropout",
    )


def dropout_modules(module: nn.Module) -> list[str]:
    """Paths of the modules whose dropout is on."""
    found = []
    for path, part in module.named_modules():
        rate = getattr(part, "p", 0) if "Dropout" in type(part).__name__ else 0
        if isinstance(part, nn.RNNBase) and part.num_layers > 1:
            rate = part.dropout
        if part.training and isinstance(rate, int | float) and rate > 0:
            found.append(path or type(part).__name__)
    return found


def _observed(
    subject: Subject,
    made: Constructed,
    found: OutputChange,
    *,
    message: str,
    cause: str,
    fix: str,
) -> Observation:
    d = found.difference
    return Observation(
        stage=subject.stage,
        message=message,
        key=dotted(found.key),
        quantity=f"change of {dotted(found.key)} between two runs of the same steps",
        measured=d.worst,
        on=sizes(made),
        bound_formula="the same to the bit",
        cause=cause,
        fix=fix,
    )


RULE = Rule(
    code="EQ206",
    name="not-repeatable",
    holds="the same input gives the same output twice",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
