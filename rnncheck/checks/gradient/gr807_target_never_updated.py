"""The network that targets are made with is never given what was learned.

Checks
    In a script: networks that the loss runs, which begin as copies of one that an optimiser trains,
    and which neither an optimiser has nor who acts. Where the updates that were seen left one as it
    was, the script's own lines are read: none that may run again writes into it, hands it or its
    weights on, or steps an updater of TorchRL's that has it. And with other weights in it the loss
    must change, but not where every step of the batch is taken for an end: then what it gives is
    the value of what follows.
    In a spec: the loss's ``target_update``, stepped on a copy whose trained weights have moved.

Why it matters
    Targets stay those of a network that has learned nothing. The loss still falls, to the rewards
    and the noise of the first weights; whatever lies more than a step ahead is never learned.

Says nothing when
    no network begins as a copy of a trained one, or it was updated; when a line that was not
    reached may update it later, such as every thousandth step, or one that was may and did not
    change it; when what it gives enters the loss behind ends as well (a teacher, a reference
    policy), or the spec has no ``target_update``.

Fix
    Step the updater behind each update (``SoftUpdate``), or load the trained weights now and then.

Example
    optim.step()
    updater.step()     # SoftUpdate(loss_module, tau=0.005); its eps is 1 - tau
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import copied, each_sample, loss_of, run_loss
from rnncheck.checks.evidence.trained_memory import ends_with
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.copying.networks import networks_in
from rnncheck.pipeline.instruments.target_updates import left_by, shift
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage

_ENDS = ("terminated", "done")
_SHARE = 1e-6  # of what other weights move the loss by: less is rounding


def run(evidence: Evidence) -> Judgement:
    """Every network that stands beside a trained one."""
    loss_of(evidence)
    if evidence.pipeline.updater is not None:
        return _by_updater(evidence)
    targets = evidence.pipeline.targets
    if not targets:
        raise NotApplicable("no network was seen to begin as a copy of a trained one")
    left = [name for name, said in targets.items() if said == ""]
    unused = [name for name in left if not _values_what_follows(evidence, name)]
    left = [name for name in left if name not in unused]
    followed = sum(said is None for said in targets.values())
    if not left and not followed:
        raise NotApplicable(_why(targets))
    findings = (_observed(left[0], len(left)),) if left else ()
    note = counted(followed, "target network", "were updated")
    return Judgement(findings, followed + len(left), note)


def _why(targets: dict[str, str | None]) -> str:
    later = next((said for said in targets.values() if said), "")
    if not later:
        return "what stands beside a trained network gives no value of what follows"
    return f"no target was updated in what was seen: {later} may do so later"


def _values_what_follows(evidence: Evidence, name: str) -> bool:
    """Whether other weights of it change the loss, and do not where no step has any behind it."""
    for _, sample in each_sample(evidence):
        ended = _ended(sample)
        if ended is None:
            continue
        moved = _moved_by(evidence, sample, sample.td, name)
        if moved > 0.0:
            return _moved_by(evidence, sample, ended, name) <= _SHARE * moved
    return False


def _moved_by(evidence: Evidence, sample: Sample, td: TensorDictBase, name: str) -> float:
    """By how much the loss differs with other weights in the network."""
    totals = list[float]()
    for changes in (False, True):
        loss = copied(loss_of(evidence))
        if changes:
            for one in networks_in(loss):
                if ends_with(one.name, name):
                    shift(one.weights)
                    break
        run_of = run_loss(evidence, sample, td, loss=loss, per_element=False)
        totals.append(float(run_of.total.detach()))
    return abs(totals[1] - totals[0])


def _ended(sample: Sample) -> TensorDictBase | None:
    """The batch with an end at every step; None where nothing tells of any."""
    rows = sample.rows.clone()
    keys = [key for key in tensor_keys(rows) if key[0] == "next" and key[-1] in _ENDS]
    for key in keys:
        rows.set(key, torch.ones_like(rows.get(key)))
    return rows.reshape(sample.td.shape) if keys else None


def _by_updater(evidence: Evidence) -> Judgement:
    """A spec's own: a copy of it with its loss, whose trained weights have moved."""
    updater = evidence.pipeline.updater
    loss = getattr(updater, "loss_module", None)
    if loss is None:
        raise NotApplicable("the target updater is none of TorchRL's")
    names, left = left_by(updater, copied(loss))
    findings = (_observed(left[0], len(left), type(updater).__name__),) if left else ()
    note = counted(len(names), "target network", "were asked for")
    return Judgement(findings, len(names), note)


def _observed(name: str, count: int, updater: str = "") -> Observation:
    more = f" (and {count - 1} more)" if count > 1 else ""
    if not updater:
        seen = "no update that was seen changed it, and no line of the script may"
        cause = "its updater is never stepped, or the trained weights are never loaded into it"
    else:
        seen = f"{updater} leaves it as it is"
        cause = "the updater moves it by nothing: SoftUpdate's eps is what stays, 1 - tau"
    return Observation(
        message=f"the network that targets are made with is never updated: {name}{more}; {seen}",
        key=name,
        quantity="target networks that keep their first weights",
        measured=float(count),
        bound=0.0,
        bound_formula="every target network follows the trained one",
        cause=cause,
        fix=(
            "call updater.step() behind each optim.step() (SoftUpdate(loss, tau=0.005)), or"
            " target.load_state_dict(trained.state_dict()) every so many updates"
        ),
    )


RULE = Rule(
    code="GR807",
    name="target-never-updated",
    holds="every network that targets are made with is given what was learned",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
