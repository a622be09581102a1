"""The same input twice gives different outputs: active dropout, or a state outside the tensordict.

Checks
    The same steps are run twice through one copy of the module with the same random seed, in both modes: any bit
    that differs comes from a state that the tensordict does not show. Then with two seeds and exploration off: a
    carried state may not differ at all, other outputs only where no dropout is active in the module or called by it.

Why it matters
    A state in an attribute is not replayed, not reset, and shared by all envs. Dropout that is left on makes the
    replayed policy another one than the policy that acted.

Says nothing when
    an output is drawn on purpose and not carried (a sampled action), or noise follows TorchRL's exploration type.

Fix
    Carry state under a key and ``("next", key)``; call ``policy.eval()`` or keep dropout out of the carried path.

Example
    self.h = h                 # no: td["next", "h"] = h
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rnncheck.checks.evidence.compare import Change, changes, sizes, source_of
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Judgement, Rule, Skip
from rnncheck.pipeline.keys import dotted, tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.subject import Subject, next_key, run_recurrent, unroll
from rnncheck.results.model import Finding, Severity, Stage

RANDOM_STATE = (
    "the carried state depends on the random seed although exploration is off",
    "random numbers are drawn on the way into the state: noise, zoneout, weights or latents drawn at each call",
    "draw them only where exploration_type() asks for it; for a stochastic latent that is meant, "
    "use its mode under ExplorationType.DETERMINISTIC or ignore EQ206",
)
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout")


def run(evidence: Evidence) -> Judgement:
    """Policy and critic (also those without carry keys: a hidden state is what is looked for)."""
    findings: list[Finding] = []
    compared = 0
    for subject in [s for s in (evidence.policy, evidence.critic) if s is not None]:
        made = evidence.constructed(subject)
        finding = hidden_state(evidence, subject, made) or random_output(evidence, subject, made)
        findings += [finding] if finding else []
        compared += made.steps
    return Judgement(tuple(findings), compared, f"{compared} steps are repeatable")


def hidden_state(evidence: Evidence, subject: Subject, made: Constructed) -> Finding | None:
    """A second run of one copy differs from the first."""
    module = subject.copy()
    before = attributes(module)
    for mode in ("sequential", "recurrent"):
        try:
            found = twice(evidence, subject, made, module, mode)
        except Skip:
            continue
        if found:
            moved = sorted(changed_attributes(before, attributes(module)))
            return _finding(
                evidence, subject, made, found[0],
                message=f"{mode} mode: the same steps twice give different outputs",
                cause="state outside the tensordict: " + (", ".join(moved[:4]) or "not in an attribute"),
                fix="carry it under a key and ('next', key), primed and reset by the env",
            )  # fmt: skip
    return None


def twice(
    evidence: Evidence, subject: Subject, made: Constructed, module: nn.Module, mode: str
) -> list[Change]:
    """What differs between two runs of the same copy."""
    if mode == "sequential":
        one, two = (unroll(subject, made.inputs, made.starts, module=module) for _ in range(2))
    else:
        batch = evidence.shaped(subject, made.batch(subject))
        try:
            runs = [run_recurrent(subject, batch, module=module) for _ in range(2)]
        except Exception as error:
            raise Skip(str(error)) from error
        one, two = (r.reshape(made.starts.shape) for r in runs)
    keys = [key for key in tensor_keys(one) if key in tensor_keys(two)]
    return changes(one, two, keys, torch.ones_like(made.starts))


def attributes(module: nn.Module) -> dict[str, Any]:
    """Tensors, numbers and containers of tensors that modules hold outside their parameters."""
    held: dict[str, Any] = {}
    for path, part in module.named_modules():
        prefix = f"{path}." if path else ""
        own = {k: v for k, v in vars(part).items() if not k.startswith("_") or k == "_buffers"}
        for name, value in {**own, **dict(part._buffers)}.items():
            if isinstance(value, Tensor | int | float | tuple | list) and not isinstance(
                value, bool
            ):
                held[prefix + name] = value.clone() if isinstance(value, Tensor) else value
    return held


def changed_attributes(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Names whose value is another one, or new."""
    return {name for name, value in after.items() if not _equal(before.get(name), value)}


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return left.shape == right.shape and torch.equal(left, right)
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return type(left) is type(right) and bool(left == right)


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


def random_output(evidence: Evidence, subject: Subject, made: Constructed) -> Finding | None:
    """A state that differs between two seeds with exploration off, or outputs that do because dropout is on."""
    noisy = evidence.noisy(subject)
    if not noisy:
        return None
    names = dropout_modules(subject.module)
    with DropoutCalls() as calls:
        one = unroll(subject, made.inputs, made.starts)
    dropout = bool(names or calls.active)
    carry = {next_key(key) for key in subject.carry}
    blamed = noisy if dropout else noisy & carry
    two = unroll(subject, made.inputs, made.starts, seed=1)
    found = changes(one, two, sorted(blamed), torch.ones_like(made.starts))
    if not found:
        return None
    message, cause, fix = _dropout(names) if dropout else RANDOM_STATE
    return _finding(evidence, subject, made, found[0], message=message, cause=cause, fix=fix)


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


def _finding(
    evidence: Evidence,
    subject: Subject,
    made: Constructed,
    found: Change,
    *,
    message: str,
    cause: str,
    fix: str,
) -> Finding:
    d = found.difference
    return Finding(
        code="EQ206",
        stage=subject.stage,
        message=message,
        key=dotted(found.key),
        quantity=f"change of {dotted(found.key)} between two runs of the same steps",
        measured=d.worst,
        on=sizes(made),
        bound=0.0,
        bound_formula="the same to the bit",
        passing_bound=d.worst,
        cause=cause,
        fix=fix,
        source=source_of(evidence, subject),
    )


RULE = Rule(
    code="EQ206",
    name="not-repeatable",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
