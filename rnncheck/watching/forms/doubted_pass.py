"""The recurrent pass of a loss that is not judged, as it reads something of every step that nobody
knows: where the pass itself reads nothing of that, it can be judged."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.watching.forms.in_form import InForm, in_form
from rnncheck.watching.seen import Acting, Called


def with_pass_alone(acting: Acting, passes: Sequence[Called]) -> InForm | None:
    """What acts with the pass of the first of these losses; None where there is none."""
    for called in passes:
        form = in_form(acting, called, None)
        return InForm(form.policy, form.batches, over_sequences=form.over_sequences)
    return None


def is_its_pass_known(acting: Acting, called: Called) -> bool:
    """Whether the pass in a loss gives the same whatever its ``doubts`` are."""
    with suppress(Exception):  # the user's lines may raise anything
        form = in_form(acting, called, None)
        if form.over_sequences is None or not form.trained:
            return False
        usual, batch = _given(form, form.trained[0]), form.trained[0]
        others = (in_form(acting, replace(called, module=one), None) for _, one in called.doubts)
        return all(_are_equal(usual, _given(other, batch)) for other in others)
    return False


def _given(form: InForm, batch: TensorDictBase) -> dict[Key, Tensor]:
    """What the pass gives of the batch, by key."""
    with measuring(recurrent=None):
        found = form.over_sequences(batch.clone())
    return {key: one.detach() for key, one in found.items()}


def _are_equal(some: dict[Key, Tensor], others: dict[Key, Tensor]) -> bool:
    alike = some.keys() == others.keys()
    return alike and all(torch.equal(one, others[key]) for key, one in some.items())
