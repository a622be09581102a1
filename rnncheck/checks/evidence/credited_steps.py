"""Which steps of a loss an entry of each step weighs: its own, or others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import AT_INPUT, observed, without_memory
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.layer_gradients import layer_gradients
from rnncheck.checks.evidence.loss_calls import (
    UNREAD,
    changed_batch,
    each_sample,
    float_inputs,
    run_loss,
)
from rnncheck.checks.evidence.loss_isolation import loss_gradients
from rnncheck.checks.evidence.module_outputs import ModuleOutputs
from rnncheck.checks.evidence.recorded_entries import orders
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import NotApplicable, Unanswered
from rnncheck.numerics.perturb import perturbed
from rnncheck.pipeline.keys import Key, tensor_keys

TELLING = 8  # steps on either side: chosen, by chance 2 ** -16 together
_DRAWS, _FEW = 1, 64  # halves that are drawn; one episode has so few steps that it takes more
MOSTLY = 0.9  # share of these that must agree: a clipped or masked step does not move
_PARTS = "parts"  # of the policy: what they gave while acting, which no loss reads
SMALLEST = 1e-4  # share of the largest move below which a step is taken not to move


@dataclass(frozen=True)
class Credited:
    """``[rows, steps]``: where an entry was changed, and where the gradient moved. ``read``: a
    network gives something else with it."""

    key: Key
    changed: Tensor
    moved: Tensor
    valid: Tensor
    read: bool = False


@dataclass(frozen=True)
class CreditMoves:
    """``[rows, steps]``: the gradient at what is observed there is another one; it was or is none
    at all at steps that are not ``weighed``. ``read`` as in ``Credited``."""

    steps: Tensor
    weighed: Tensor
    read: bool


def credited(evidence: Evidence) -> dict[Key, list[tuple[int, Credited]]]:
    """What changes of actions, of rewards and of what was made of them move, where each step stands
    alone, with the number of the training batch. NotApplicable where no gradient tells."""
    return evidence.once("credited steps", lambda: _credited(evidence, marked=True))


def credited_as_marked(evidence: Evidence) -> dict[Key, list[tuple[int, Credited]]]:
    """The same with the start flags as they are, as far as the gradients at what layers behind the
    memory give can tell: a loss may take an entry of the step before inside of episodes alone."""
    return evidence.once("credited as marked", lambda: _credited(evidence, marked=False))


def _credited(evidence: Evidence, *, marked: bool) -> dict[Key, list[tuple[int, Credited]]]:
    found = dict[Key, list[tuple[int, Credited]]]()
    for number, sample in each_sample(evidence):
        if not marked and (
            keeps_memory(evidence, sample) or not layer_gradients(evidence, sample, sample.td)
        ):
            continue
        for one in _in_batch(evidence, sample, marked):
            found.setdefault(one.key, []).append((number, one))
    return found


def _in_batch(evidence: Evidence, sample: Sample, marked: bool) -> Iterator[Credited]:
    actions = set(evidence.env.actions)
    draws = _DRAWS if int(sample.valid.sum()) >= _FEW else 4 * _DRAWS
    labels = labels_of(evidence, sample)
    weights = [*_weights(evidence, sample), *labels]
    for key, seed in itertools.product(weights, range(draws)):
        changed, rows = _other(evidence, sample, key, seed, exchanged=key in labels)
        found = moves(evidence, sample, rows, marked=marked) if bool(changed.any()) else None
        if found is not None and bool(found.steps.any()) and (key in actions or not found.read):
            valid = sample.valid & found.weighed & (marked | _inside(sample))
            yield Credited(key, changed, found.steps, valid, found.read)


def _inside(sample: Sample) -> Tensor:
    """``[rows, steps]``: no episode or row begins or ends there."""
    starts = torch.ones_like(sample.valid) if sample.flag is None else sample.flag.clone()
    starts[:, 0] = True
    return ~(starts | torch.cat([starts[:, 1:], starts[:, :1]], 1))


def is_put_right(evidence: Evidence, key: Key, words: str) -> bool:
    """Whether the loss takes the entry from where it stands: it weighs each step with one that
    stands as far on the other side."""
    try:
        found = credited(evidence).get(key, [])
    except Unanswered:
        return False
    return opposite(words, other_step([one for _, one in found]))


def opposite(words: str, others: str) -> bool:
    """Whether one order undoes the other."""
    told = words.split(" ")
    turned = {"earlier": "later", "later": "earlier"}
    return bool(others) and " ".join(turned.get(one, one) for one in told) == others


def other_step(found: list[Credited]) -> str:
    """Whose step the entry weighs in place of its own, in words; empty where it is its own, or
    where several are moved."""
    counts = dict[str, Tensor]()
    for one in found:
        for words, order in orders(one.changed.shape):
            counts[words] = counts.get(words, torch.zeros(6)) + _agreeing(one, order)
    for words, (on, on_moved, off, off_still, every, same) in counts.items():
        shares = on_moved >= MOSTLY * on, off_still >= MOSTLY * off, same >= MOSTLY * every
        if min(on, off) >= TELLING and all(map(bool, shares)):
            return words.split(";")[0]
    return ""


def _agreeing(one: Credited, order: Tensor) -> Tensor:
    """Of the steps that move only if others' entries weigh them how many there are and how many do
    so; of those that move only if their own does how many, and how many stay; of all how many, and
    how many are as if it were others'."""
    told = one.changed.flatten()[order]
    valid = one.valid & one.valid.flatten()[order]
    on, off = valid & told & ~one.changed, valid & one.changed & ~told
    masks = (on, on & one.moved, off, off & ~one.moved, valid, valid & (told == one.moved))
    return torch.tensor([float(mask.sum()) for mask in masks])


def _weights(evidence: Evidence, sample: Sample) -> list[Key]:
    """Actions, rewards, and numbers of each step that were made behind collecting, such as
    advantages."""
    present = set(tensor_keys(sample.rows))
    actions = [key for key in evidence.env.actions if key in present]
    return [*actions, *made_of_steps(evidence, sample), *recorded_numbers(evidence, sample)]


def recorded_numbers(evidence: Evidence, sample: Sample) -> list[Key]:
    """Numbers of each step that acting gave and the loss may read, such as the log-probability of
    the action."""
    skip = {*made_of_steps(evidence, sample), *evidence.policy.carry, *evidence.env.actions}
    skip |= set(observed(evidence, sample)) if evidence.policy.reads else set()
    shape, columns = sample.rows.shape.numel(), sample.steps.columns
    found = float_inputs(sample.rows, root=True, following=False)
    own = [key for key in found if key in columns and key not in skip and key[0] != _PARTS]
    return [key for key in own if sample.rows.get(key).numel() == shape]


def labels_of(evidence: Evidence, sample: Sample) -> list[Key]:
    """What else was made of each step behind collecting, and the loss reads: what a teacher would
    do, and whatever has more than one number."""
    skip = {*_seen(evidence, sample), *evidence.env.actions, *made_of_steps(evidence, sample)}
    labels = [
        key
        for key in tensor_keys(sample.rows)
        if key[0] not in (*UNREAD, "next")
        and key not in skip
        and sample.rows.get(key).dtype != torch.bool
    ]
    if not labels:
        return []
    other = sample.rows.clone()
    for key in labels:
        other.update(_other(evidence, sample, key, 0, exchanged=True)[1].select(key))
    try:
        totals = [
            run_loss(evidence, sample, td.reshape(sample.td.shape), per_element=False).total
            for td in (sample.rows, other)
        ]
    except Unanswered:  # a loss that takes certain numbers alone, such as probabilities
        return []
    return [] if torch.equal(*totals) else labels


def made_of_steps(evidence: Evidence, sample: Sample) -> list[Key]:
    """Rewards, and numbers of each step that were made behind collecting."""
    seen, shape = _seen(evidence, sample), sample.rows.shape.numel()
    made = float_inputs(sample.rows, root=True, following=False)
    weights = [k for k in made if k not in seen and sample.rows.get(k).numel() == shape]
    return [*rewards(sample), *weights]


def _seen(evidence: Evidence, sample: Sample) -> set[Key]:
    """What was collected, and what the policy reads and carries."""
    read = observed(evidence, sample) if evidence.policy.reads else []  # or it may read anything
    return {*read, *evidence.policy.carry, *sample.steps.columns}


def rewards(sample: Sample) -> list[Key]:
    """What the env gave for each step, in floats."""
    following = float_inputs(sample.rows, root=False, following=True)
    return [key for key in following if key[-1] == "reward"]


def other_values(evidence: Evidence, sample: Sample, key: Key) -> tuple[Tensor, TensorDictBase]:
    """Half of the steps ``[rows, steps]``, and the rows with the entry of another step there."""
    return _other(evidence, sample, key, 0, exchanged=True)


def _other(
    evidence: Evidence, sample: Sample, key: Key, seed: int, *, exchanged: bool = False
) -> tuple[Tensor, TensorDictBase]:
    """Half of the steps with another value of the entry, that of another step where ``exchanged``
    (a distribution, say) or where it is no float. Where all actions are the same one, another that
    the env has."""
    made, value = torch.Generator().manual_seed(11 + seed), sample.rows.get(key)
    half = (torch.rand(sample.valid.shape, generator=made) < 0.5) & sample.valid
    if value.is_floating_point() and not exchanged:
        new = perturbed(value, half, made)
    else:
        new = _of_other_steps(value, half, made)
    if key in evidence.env.actions and torch.equal(new, value):
        new = _of_the_spec(evidence, key, value, half, made)
    changed = (new != value).reshape(*half.shape, -1).any(-1)
    return changed, sample.rows.clone().set(key, new)


def _of_the_spec(
    evidence: Evidence, key: Key, value: Tensor, half: Tensor, made: torch.Generator
) -> Tensor:
    """Integers between the spec's limits, one-hot vectors turned; others as they are."""
    limits = evidence.env.action_limits.get(key)
    if limits is not None and limits[1] > limits[0]:
        return perturbed(value, half, made, limits)
    one_hot = value.ndim > half.ndim and bool((value.sum(-1) == 1).all())
    wide = half.reshape(*half.shape, *[1] * (value.ndim - half.ndim)).to(value.device)
    return torch.where(wide, value.roll(1, -1), value) if one_hot else value


def _of_other_steps(value: Tensor, half: Tensor, made: torch.Generator) -> Tensor:
    """At ``half`` the value of a step that has another one."""
    flat = value.reshape(half.numel(), *value.shape[2:]).clone()
    old, places = flat.clone(), half.flatten().nonzero()[:, 0].tolist()
    for place in places:
        for other in torch.randperm(len(old), generator=made).tolist():
            if not torch.equal(old[other], old[place]):
                flat[place] = old[other]
                break
    return flat.reshape(value.shape)


def moves(
    evidence: Evidence, sample: Sample, rows: TensorDictBase, *, marked: bool = True
) -> CreditMoves | None:
    """What moves with ``rows`` in the place of the batch's, where every step is ``marked`` as a
    start, or none but those that are. None where the networks are called
    otherwise, or nothing moves. NotApplicable where the loss has no gradient at what is
    observed."""
    old, before = evidence.once(
        f"gradients of steps alone {marked}",
        lambda: _given(evidence, sample, sample.td, marked),
        sample,
    )
    if not old:
        raise NotApplicable(
            "the loss has no gradient at what is observed, by which a step would move"
        )
    new, after = _given(evidence, sample, rows.reshape(sample.td.shape), marked)
    if len(before) != len(after):
        return None
    shape = sample.valid.shape
    alike = [name for name in old.keys() & new.keys() if old[name].shape == new[name].shape]
    size = _largest([new[name] - old[name] for name in alike], shape)
    if not bool(size.any()):
        return None
    weighed = _largest([one[name] for one in (old, new) for name in alike], shape) > 0
    read = not all(map(torch.equal, before, after))
    return CreditMoves(size > SMALLEST * float(size.max()), weighed, read)


def _largest(values: list[Tensor], shape: torch.Size) -> Tensor:
    """``[rows, steps]``: the largest number of each step, whatever its sign."""
    size = torch.zeros(shape)
    for value in values:
        own = value.double().abs().nan_to_num().reshape(*shape, -1).amax(-1)
        size = size.maximum(own.to(size.dtype))
    return size


def _given(
    evidence: Evidence, sample: Sample, td: TensorDictBase, marked: bool
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The gradients at what is observed, where every step stands alone, and what modules gave.
    Where no flag could cut a memory, the gradients at what layers behind it give."""
    by_layer = not marked or keeps_memory(evidence, sample)
    with ModuleOutputs() as outputs:
        gradients = layer_gradients(evidence, sample, td) if by_layer else {}
    if gradients:
        return gradients, outputs.seen
    with ModuleOutputs() as outputs:
        gradients = without_memory(loss_gradients(evidence))(sample, td)
    return _of_their_steps(gradients), outputs.seen


def _of_their_steps(gradients: dict[str, Tensor]) -> dict[str, Tensor]:
    """Where a loss takes all observations but the first of a row from the next ones, as one does
    that makes T+1 steps of them, the gradient there belongs to the step behind."""
    found = dict(gradients)
    for name, own in gradients.items():
        other = AT_INPUT + "next." + name.removeprefix(AT_INPUT)
        following = gradients.get(other)
        if following is not None and following.shape == own.shape and not bool(own[:, 1:].any()):
            found[name] = torch.cat([own[:, :1], following[:, :-1]], 1)
            del found[other]
    return found


def keeps_memory(evidence: Evidence, sample: Sample) -> bool:
    """Whether the loss runs over layers of torch that no start flag cuts, and one of its layers
    tells what each step of them is given."""
    if any(type(one.module).__module__.startswith("torchrl.") for one in evidence.policy.carriers):
        return False
    return evidence.once("keeps its memory", lambda: _keeps_memory(evidence, sample), sample)


def _keeps_memory(evidence: Evidence, sample: Sample) -> bool:
    rows, steps = sample.valid.shape
    at = torch.zeros_like(sample.valid)
    at[rows // 2, steps // 2] = True
    keys = [key for key in observed(evidence, sample) if key[0] != "next"]
    alone = without_memory(loss_gradients(evidence))
    base, other = alone(sample, sample.td), alone(sample, changed_batch(sample, at, keys))
    moved = _largest([other[name] - base[name] for name in base.keys() & other.keys()], at.shape)
    beside = bool((moved[~at] > SMALLEST * float(moved.max())).any())
    return beside and bool(layer_gradients(evidence, sample, sample.td))
