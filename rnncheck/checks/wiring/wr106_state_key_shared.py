"""Two recurrent modules use the same carry key.

Checks
    The carry keys of all innermost recurrent modules of policy and critic. A module that is used
    twice (a shared backbone) counts once, and so do a module and its copy with the same weights (an
    actor that is synchronised with its learner), unless the loss trains both.

Why it matters
    Each overwrites the other's state: the second layer reads the first one's memory, the critic the
    actor's. Shapes often agree, so nothing raises.

Says nothing when
    there is one recurrent module.

Fix
    Give each module keys of its own: ``in_keys=["embed", "h2", "c2"]``,
    ``out_keys=["features", ("next", "h2"), ...]``.

Example
    LSTMModule(..., in_keys=["x", "critic_h", "critic_c"],
               out_keys=["v", ("next", "critic_h"), ("next", "critic_c")])
"""

from __future__ import annotations

import torch

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.trained_memory import trained_memory
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.pipeline.subject.subject import Carrier, carriers
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Who uses which key."""
    users: dict[Key, list[str]] = {}
    found = distinct(evidence)
    for owner, carrier in found:
        for key in carrier.keys:
            users.setdefault(key, []).append(
                f"{owner} {carrier.path or type(carrier.module).__name__}"
            )
    if len(found) < 2:
        raise NotApplicable("there is at most one recurrent module")
    shared = {key: names for key, names in users.items() if len(names) > 1}
    findings = tuple(_observed(key, names) for key, names in list(shared.items())[:1])
    return Judgement(findings, len(users), f"{len(found)} recurrent modules use keys of their own")


def distinct(evidence: Evidence) -> list[tuple[str, Carrier]]:
    """Recurrent modules of policy and critic, each object once (also where copies share their
    parameters)."""
    pipeline, seen, found = evidence.pipeline, set[int](), list[tuple[str, Carrier]]()
    for owner, module in (("policy", pipeline.policy), ("critic", pipeline.critic)):
        for carrier in carriers(module) if module is not None else []:
            marks = {id(carrier.module), *(id(p) for p in carrier.module.parameters())}
            alike = (one for _, one in found if _is_copy(carrier, one))
            if not marks & seen and all(_both_trained(evidence, carrier, one) for one in alike):
                found.append((owner, carrier))
            seen |= marks
    return found


def _is_copy(one: Carrier, other: Carrier) -> bool:
    """Whether both have the same weights, as an actor that is synchronised with its learner: each
    goes on from what the other remembers."""
    mine, others = one.module.state_dict(), other.module.state_dict()
    if not mine or one.keys != other.keys or mine.keys() != others.keys():
        return False
    return all(
        mine[name].shape == others[name].shape and torch.equal(mine[name], others[name])
        for name in mine
    )


def _both_trained(evidence: Evidence, *alike: Carrier) -> bool:
    """Whether the loss trains each of them: then they are alike at the beginning alone."""
    trained = trained_memory(evidence)
    return all(trained & {id(p) for p in one.module.parameters()} for one in alike)


def _observed(key: Key, names: list[str]) -> Observation:
    return Observation(
        message=(
            f"{len(names)} recurrent modules carry their state under {dotted(key)!r}:"
            f" {', '.join(names)}"
        ),
        key=dotted(key),
        quantity="modules that use one carry key",
        measured=float(len(names)),
        bound=1.0,
        bound_formula="one",
        cause="the modules were built with the same (default) state keys",
        fix="give each recurrent module state keys of its own",
        source=Stage.CRITIC if "critic" in names[-1] else Stage.POLICY,
    )


RULE = Rule(
    code="WR106",
    name="state-key-shared",
    holds="every recurrent module has its own state keys",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
