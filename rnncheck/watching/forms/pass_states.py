"""Which arguments of a call on a training batch are states, and which state each is."""

from __future__ import annotations

from collections.abc import Mapping

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.watching.forms.plain_calls import Slot, ToldCall
from rnncheck.watching.forms.structures import Path


def states_given(
    tensors: Mapping[Path, Tensor],
    known: Mapping[Path, Slot],
    told: ToldCall,
    observed: Path,
    at: tuple[TensorDictBase, Tensor],
) -> dict[Path, Slot]:
    """The arguments that are states: under the name that they have while acting, else those of
    their form. Of several of one form, such as an actor's and a critic's, those that hold what was
    collected ``at`` the steps come first, then they are taken in turn."""
    carry = told.carry
    named = {path: slot for path, slot in known.items() if slot.key in carry}
    if named:
        return named
    fitting = {
        path: [slot for slot in carry.values() if _has_form(value, slot)]
        for path, value in tensors.items()
        if path != observed
    }
    held = {
        path: [slot for slot in slots if _was_there(tensors[path], slot, at)]
        for path, slots in fitting.items()
        if bool(tensors[path].any())  # states that are zero are alike
    }
    lead = tensors[observed].shape[:2]  # of rows and steps: a number of each of these is no state
    fitting = {p: [] if tensors[p].shape == lead else slots for p, slots in fitting.items()}
    found, taken = dict[Path, Slot](), set[tuple[str, ...]]()
    for choices in (held, fitting):
        for path, slots in choices.items():
            free = [slot for slot in slots if slot.key not in taken]
            if free and path not in found:
                found[path] = free[0]
                taken.add(free[0].key)
    return found


def _has_form(value: Tensor, slot: Slot) -> bool:
    rest = tuple(size for dim, size in enumerate(value.shape) if dim != slot.axis)
    return rest == slot.rest and value.ndim == len(slot.rest) + 1


def _was_there(value: Tensor, slot: Slot, at: tuple[TensorDictBase, Tensor]) -> bool:
    """Whether each of its rows is the state that was collected at one of the steps."""
    acted, places = at
    mine = slot.found(value.detach().cpu()).flatten(1)
    there = acted.get(slot.key)[places[:, 0].clamp_min(0), places[:, 1].clamp_min(0)].flatten(1)
    if mine.shape[1:] != there.shape[1:]:
        return False
    alike = [bool((row == there.to(row.dtype)).all(1).any()) for row in mine]
    return all(alike)
