"""A multi-process collector records what a single process would not (mode, state, reset).

Checks
    Where the collector runs workers of its own, every trajectory that they recorded is replayed
    alone in this process, step by step: outputs, states and start flags must be those of a single
    process.

Why it matters
    A recurrent mode that is set in the main process does not reach the workers, and their batches
    are joined end to end: neither shows in the rewards.

Says nothing when
    the collector runs in this process, or no recorded output is a function of the observations.

Fix
    Leave the mode to the collector, give every worker an env with its primers, and do not join
    workers' rows (``cat_results=0`` joins them along time for unbatched envs).

Example
    MultiSyncCollector([make_env] * 2, policy, cat_results="stack", ...)
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.trajectory_replay import (
    acted_mismatch,
    compared_keys,
    place,
    replayed,
)
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.compat import runs_workers
from rnncheck.pipeline.keys import dotted
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """The workers' trajectories against this process."""
    if not runs_workers(evidence.pipeline.collector):
        raise NotApplicable("the collector runs in this process")
    items = replayed(evidence)
    compared = sum(len(compared_keys(evidence, i)) * i.recorded.shape[1] for i in items)
    found = acted_mismatch(evidence)
    if found is None:
        return Judgement((), compared, f"{compared} outputs of the workers are a single process's")
    item, worst = found
    d = worst.difference
    finding = Observation(
        message=f"a worker recorded another {dotted(worst.key)} than a single process gives",
        key=dotted(worst.key),
        quantity=f"max abs difference of {dotted(worst.key)}, worker against this process",
        measured=d.worst,
        on=f"a recorded trajectory of {item.recorded.shape[1]} steps",
        bound=worst.bound,
        bound_formula=worst.formula,
        where=place(item, d.step, d.feature, d.first_step),
        cause="mode, state or resets differ in the worker: see CL401 to CL405",
        fix="set modes inside the worker's policy, prime every worker's env",
    )
    return Judgement((finding,), compared)


RULE = Rule(
    code="CL407",
    name="worker-differs",
    holds="worker processes record what one process would",
    severity=Severity.ERROR,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
