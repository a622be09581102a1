"""A primer's shape, dtype, device or key differs from what the module reads.

Checks
    The state that the env's reset gives is held against the state that the module writes after one
    step: shape, dtype and device. Primed keys that look like a state and that no module reads are
    named too.

Why it matters
    A state of another shape raises late or broadcasts; one of another dtype changes after the first
    step; one under another name is never read.

Says nothing when
    the env primes no state.

Fix
    Let the module make its primer (``make_tensordict_primer``), or write the shape as
    ``(layers, hidden)``.

Example
    TensorDictPrimer({"h": Unbounded(shape=(1, 64))}, expand_specs=True)
"""

from __future__ import annotations

import re

from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.introspect import carry_keys, probe_step
from rnncheck.pipeline.subject.subject import all_reads, next_key
from rnncheck.results.model import Severity, Stage

MISFIT = r"shape|size|dimension|dtype|mat1|expand"  # how torch says that a tensor does not fit


def run(evidence: Evidence) -> Judgement:
    """Every primed key."""
    modules = [
        m for m in (evidence.pipeline.pristine_policy, evidence.pipeline.pristine_critic) if m
    ]
    carry = [key for module in modules for key in carry_keys(module)]
    primed = [key for key in primed_keys(evidence) if evidence.env.first.get(key, None) is not None]
    if not primed:
        raise NotApplicable("the env primes no state")
    findings = misfits(evidence, [k for k in primed if k in carry])
    read = {key for module in modules for key in all_reads(module)}
    missing = [key for key in carry if key not in primed]
    findings += [_unread(k, missing) for k in primed if k not in read and missing]
    return Judgement(tuple(findings), len(primed), "the primed states fit the modules")


def primed_keys(evidence: Evidence) -> list[Key]:
    """Keys that a TensorDictPrimer of the env declares."""
    env = evidence.env
    return [key for key in env.primed if key not in env.own]


def misfits(evidence: Evidence, keys: list[Key]) -> list[Observation]:
    """States whose form changes with the first step, or that the module refuses."""
    if not keys:
        return []
    out, error = probe_step(evidence.pipeline.pristine_policy, evidence.env)
    if out is None and _acted_on(evidence, keys):
        raise CouldNotLook(
            f"the policy cannot run one step ({error}), although it has acted on such states"
        )
    if out is None:
        without, same = probe_step(evidence.pipeline.pristine_policy, evidence.env, zeros=True)
        blamed = without is not None or (error != same and re.search(MISFIT, error) is not None)
        return [_refused(keys, error)] if blamed else []
    found = []
    for key in keys:
        given, written = evidence.env.first.get(key), out.get(next_key(key), None)
        if written is not None and form(given) != form(written):
            found.append(_misfit(key, given, written))
    return found


def _acted_on(evidence: Evidence, keys: list[Key]) -> bool:
    """Whether what was collected has these states in the form that a reset gives them."""
    steps, first = evidence.env.first.batch_dims + 1, evidence.env.first
    batches = [one for one in evidence.pipeline.batches if set(keys) <= set(tensor_keys(one))]
    return bool(batches) and all(
        one.get(key).dtype == first.get(key).dtype
        and one.get(key).shape[steps:] == first.get(key).shape[steps - 1 :]
        for one in batches
        for key in keys
    )


def form(value: Tensor) -> tuple[object, ...]:
    """Shape and dtype; a collector moves a state to where the module lies."""
    return tuple(value.shape), value.dtype


def _describe(value: Tensor) -> str:
    """A tensor's form in words."""
    return f"{list(value.shape)} {str(value.dtype).removeprefix('torch.')}"


def _misfit(key: Key, given: Tensor, written: Tensor) -> Observation:
    return _observed(
        key,
        f"the primer gives {dotted(key)} as {_describe(given)}, "
        f"the module writes {_describe(written)}",
        "the primer was written for another module or size",
    )  # fmt: skip


def _refused(keys: list[Key], error: str) -> Observation:
    return _observed(
        keys[0],
        f"the module refuses the primed {', '.join(map(dotted, keys))} ({error})",
        "the primed state has a shape or dtype that the module cannot use",
    )  # fmt: skip


def _unread(key: Key, missing: list[Key]) -> Observation:
    return _observed(
        key,
        f"the primer writes {dotted(key)!r}, which no module reads; "
        f"{dotted(missing[0])!r} is not primed",
        "the primer's key is not the one that the module reads",
    )  # fmt: skip


def _observed(key: Key, message: str, cause: str) -> Observation:
    return Observation(
        message=message,
        key=dotted(key),
        quantity="primed states that do not fit",
        measured=1.0,
        cause=cause,
        fix=(
            "use the module's own make_tensordict_primer(), or the same key, shape and dtype as it"
            " writes"
        ),
    )


RULE = Rule(
    code="WR104",
    name="primer-does-not-fit",
    holds="the states of a reset are those that the modules read",
    severity=Severity.ERROR,
    stage=Stage.ENV,
    run=run,
    needs=(Stage.ENV, Stage.POLICY),
)
