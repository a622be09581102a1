"""Where a pipeline that is being built can be changed: the seam at which ``selftest`` plants its
faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn
from torchrl.envs import EnvBase

from rnncheck.errors import RnncheckError
from rnncheck.spec.model import Spec


class CannotPlant(RnncheckError):
    """A change has nothing to take hold of in this pipeline; the message says what is missing."""


def unchanged(part: Any) -> Any:
    """The part as it is."""
    return part


@dataclass(frozen=True)
class Parts:
    """What is built when the changes are chosen: everything but the collector and what trains on
    it."""

    spec: Spec
    env: EnvBase
    policy: nn.Module
    critic: nn.Module | None


@dataclass(frozen=True)
class Hooks:
    """One function for each part of a pipeline; it gets the part and returns it, changed or not.

    ``env`` gets every env that is made, ``batch`` every collected batch, ``replay`` every buffer
    that is made, ``sample`` every training batch before the user's ``batch`` factory, ``trained``
    the same as the loss gets it. The networks are changed before their pristine copies are taken.
    """

    env: Callable[[EnvBase], EnvBase] = unchanged
    policy: Callable[[nn.Module], nn.Module] = unchanged
    critic: Callable[[nn.Module], nn.Module] = unchanged
    batch: Callable[[Any], Any] = unchanged
    replay: Callable[[Any], Any] = unchanged
    sample: Callable[[Any], Any] = unchanged
    trained: Callable[[Any], Any] = unchanged
    estimator: Callable[[Any], Any] = unchanged
    loss: Callable[[Any], Any] = unchanged


Plant = Callable[[Parts], Hooks]
