"""The primer fills a reset with other than its declared default, differently each time.

Checks
    Two resets of one env must give the same initial state.

Why it matters
    TorchRL's modules zero the state at a start while acting, but start from the stored one in
    recurrent mode: with a random primer training and acting begin from different memories.

Says nothing when
    the env primes no state.

Fix
    Drop ``random=True`` from the primer; give a constant ``default_value`` if zero is not wanted.

Example
    TensorDictPrimer({"h": Unbounded(shape=(1, 64))}, default_value=0.0, expand_specs=True)
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """The same keys of two resets."""
    first, second = evidence.env.first, evidence.env.second
    keys = [k for k in evidence.policy_carry if first.get(k, None) is not None]
    if not keys:
        raise NotApplicable("the env primes no state")
    moving = [key for key in keys if bool(bits_differ(first.get(key), second.get(key)).any())]
    findings = tuple(_observed(evidence, key) for key in moving[:1])
    return Judgement(findings, len(keys), "two resets give the same initial state")


def _observed(evidence: Evidence, key: Key) -> Observation:
    size = float(gap(evidence.env.first.get(key), evidence.env.second.get(key)).max())
    return Observation(
        message=f"two resets start from different {dotted(key)}",
        key=dotted(key),
        quantity=f"max abs difference of {dotted(key)} between two resets",
        measured=size,
        bound_formula="the same to the bit",
        cause="the primer is random, or the state survives a reset",
        fix=(
            "use a constant default_value; a start state that is meant to be random is fine where"
            " the module uses it in both modes"
        ),
    )


RULE = Rule(
    code="WR105",
    name="random-initial-state",
    holds="every reset begins with the declared state",
    severity=Severity.WARNING,
    stage=Stage.ENV,
    run=run,
    needs=(Stage.ENV, Stage.POLICY),
)
