"""The value estimator on a copy of a batch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from tensordict import TensorDictBase
from torchrl.modules import set_recurrent_mode

from rnncheck.errors import StageError
from rnncheck.pipeline.guard.calling import running
from rnncheck.spec.model import AdvantageSpec


def run_estimator(
    component: AdvantageSpec, estimator: Callable[[TensorDictBase], Any], td: TensorDictBase
) -> TensorDictBase:
    """What the estimator makes of a copy of ``td``.

    An estimator named by ``use`` runs in recurrent mode, as the reference pages do, unless the spec
    says ``recurrent_mode: false``; a factory's is called as it is.
    """
    named = component.use is not None and component.recurrent_mode
    batch = td.clone()
    with running("advantage"), set_recurrent_mode(True) if named else nullcontext():
        result = estimator(batch)
    result = batch if result is None else result
    if not isinstance(result, TensorDictBase):
        kind = type(result).__name__
        raise StageError("advantage", f"the estimator gave an object of type {kind}, no tensordict")
    return result.detach()
