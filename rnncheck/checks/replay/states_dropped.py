"""Passes inside a loss that begin with zeros where the batch has the state that a row begins with,
told by what modules behind the memory give."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.burn_in_by_loss import warms_up
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, run_loss
from rnncheck.checks.evidence.module_copies import is_copy
from rnncheck.checks.evidence.module_outputs import ModuleOutputs
from rnncheck.checks.evidence.training_batches import Sample, make_sample
from rnncheck.checks.evidence.value_states import states_reach
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.recording.recording import Joint
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.printable import counted
from rnncheck.results.model import Stage, Where

_LEAST = 4  # steps of a row, of which the later half is a row as well


def drops_the_state(evidence: Evidence) -> Observation | None:
    """A pass that goes on from step to step, by a module that states reach while acting, and that
    none of the states moves which rows begin with inside of an episode, unmarked."""
    if evidence.pipeline.loss is None:
        return None
    try:
        for number, given in each_sample(evidence):
            keys = [key for key in evidence.policy.carry if key in tensor_keys(given.rows)]
            sample = _begun_inside(evidence, given, keys)
            at = _inside(sample, keys)
            if bool(at.any()) and not warms_up(evidence, sample) and _drops(evidence, sample, at):
                return _observed(keys, number, at)
    except Unanswered:  # a loss that raises is LS706's
        return None
    return None


def _begun_inside(evidence: Evidence, sample: Sample, keys: list[Key]) -> Sample:
    """The sample, or the later half of its rows, where these are whole rows as they were collected
    and begin with episodes, and such rows are collected too that do not."""
    steps, rows = sample.valid.shape[1], evidence.recording.batches
    whole = all(one.valid.shape[1] == steps for one in rows)
    if steps < _LEAST or not whole or bool(_inside(sample, keys).any()):
        return sample
    goes_on = any(bool((one.joints[:, 0] == Joint.CONTINUES).any()) for one in rows)
    as_collected = torch.isin(sample.ids[:, 0], torch.arange(len(sample.steps.places))[::steps])
    if not goes_on or not bool(as_collected.all()):
        return sample
    return make_sample(evidence, sample.td[..., steps // 2 :])


def _inside(sample: Sample, keys: list[Key]) -> Tensor:
    """First steps ``[rows, steps]`` of rows that begin inside of an episode, with no mark and a
    state that is not zero."""
    found = torch.zeros_like(sample.valid)
    found[:, 0] = sample.known[:, 0]
    for key in keys:
        found &= (sample.rows.get(key) != 0).reshape(*found.shape, -1).any(-1)
    unmarked = ~sample.flag if sample.flag is not None and keys else torch.zeros_like(found)
    return found & ~sample.trajectory_start() & unmarked


def _drops(evidence: Evidence, sample: Sample, at: Tensor) -> bool:
    """A memory that is a number for each step, such as a count, shows in nothing else."""
    states = [*evidence.policy.carry, *map(next_key, evidence.policy.carry)]
    there = [key for key in states if key in tensor_keys(sample.rows)]
    shown = [key for key in observed(evidence, sample) if key[0] != "next"]
    changed = ((at, there), (at, shown), (at.roll(1, 1), shown))
    base, *others = (
        _given(evidence, sample, td)
        for td in (sample.td, *(changed_batch(sample, steps, keys) for steps, keys in changed))
    )
    if any(len(one.seen) != len(base.seen) for one in others):
        return False
    calls = zip(base.modules, base.seen, *(one.seen for one in others), strict=True)
    given, dropping = set[int](), list[nn.Module]()
    for module, here, *moved in calls:
        by_state, by_step, by_next = (not torch.equal(here, one) for one in moved)
        if by_state:
            given.add(id(module))
        elif by_step and not by_next:  # the first step of another pass, it may be
            given.discard(id(module))
        elif id(module) not in given and _goes_on(here, *moved[1:]):
            dropping.append(module)  # not a window, which the state has left by now
    return _act_with_states(evidence, dropping)


def _given(evidence: Evidence, sample: Sample, td: TensorDictBase) -> ModuleOutputs:
    with ModuleOutputs(graphed=True, layers=True) as noted:
        run_loss(evidence, sample, td, per_element=False)
    return noted


def _goes_on(here: Tensor, by_step: Tensor, by_next: Tensor) -> bool:
    """Whether something moves with what is observed at either of two steps, one behind the
    other."""
    return bool((bits_differ(here, by_step) & bits_differ(here, by_next)).any())


def _act_with_states(evidence: Evidence, modules: list[nn.Module]) -> bool:
    """Whether one of them is a memory of the policy's, or states reach one while acting."""
    carriers = (part for one in evidence.policy.carriers for part in all_modules(one.module))
    own = [part for part in carriers if part._parameters]
    if any(is_copy(one, module) for one in own for module in modules):
        return True
    step = evidence.pipeline.batches[0].reshape(-1)[:1]
    return bool(modules) and all(
        states_reach(evidence, step, key, modules) for key in evidence.policy.carry
    )


def _observed(keys: list[Key], number: int, at: Tensor) -> Observation:
    count, row = int(at.sum()), int(at[:, 0].nonzero()[0])
    named = ", ".join(map(dotted, keys))
    return Observation(
        stage=Stage.LOSS,
        message=(
            f"a pass inside the loss begins with zeros at {counted(count, 'row')} that"
            f" {'begins' if count == 1 else 'begin'} inside of an episode: the batch has {named}"
            " there, and the pass is not given it"
        ),
        key=named,
        quantity="passes that the stored state does not move",
        measured=1.0,
        on=f"training batch {number}",
        bound_formula="none",
        where=Where((number, row), 0, first_step=0),
        cause="the state is left out on the way to the network (select, exclude, or no argument)",
        fix=f"give the pass {named} of the batch as well",
    )
