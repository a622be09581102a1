"""A training pass that the user's own switch selects: plain attributes of modules that differ
between acting and training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensordict import TensorDictBase
from torch import nn
from torchrl.modules import set_recurrent_mode

from rnncheck.watching.seen import Called

_INIT = "is_init"
_PLAIN = (bool, int, float, str, type(None))
_NO_SWITCH = ("training",)  # dropout and the like: not which pass is run

Switches = dict[str, dict[str, Any]]  # by the module's path: attribute and value


def switches_of(module: nn.Module) -> Switches:
    """The plain attributes of all its parts."""
    return {
        path: {
            name: value
            for name, value in vars(part).items()
            if isinstance(value, _PLAIN) and name not in _NO_SWITCH and name[:1] != "_"
        }
        for path, part in module.named_modules()
    }


def switched_on(acting: Switches, training: Switches) -> Switches:
    """What has another value while training."""
    found: Switches = {}
    for path, held in training.items():
        before = acting.get(path, {})
        other = {k: v for k, v in held.items() if k in before and before[k] != v}
        if other:
            found[path] = other
    return found


def starts_inside(loss: Called) -> bool:
    """Whether a trajectory begins inside a row of what was trained on: else the pass need not know
    how to start anew, and batches that hold such starts are none that it gets."""
    for batch in loss.inputs:
        rows = batch.reshape(-1, batch.shape[-1])
        for key in rows.keys(True, True):
            last = key if isinstance(key, str) else key[-1]
            first = key if isinstance(key, str) else key[0]
            if last == _INIT and first != "next" and bool(rows.get(key)[:, 1:].any()):
                return True
    return False


class SwitchedPass:
    """The policy on a batch as the script runs it in training."""

    def __init__(self, switches: Switches, mode: bool | None) -> None:
        self._switches, self._mode = switches, mode

    def __call__(self, batch: TensorDictBase, policy: nn.Module) -> Any:
        """Run ``policy`` with the switches of training."""
        with switched(policy, self._switches), set_recurrent_mode(self._mode):
            return policy(batch)


@contextmanager
def switched(module: nn.Module, switches: Switches) -> Iterator[None]:
    """Set the attributes inside, and put them back."""
    parts = dict(module.named_modules())
    known = [
        (parts[p], k, v) for p, held in switches.items() if p in parts for k, v in held.items()
    ]
    before = [(part, name, getattr(part, name)) for part, name, _ in known]
    for part, name, value in known:
        setattr(part, name, value)
    try:
        yield
    finally:
        for part, name, value in before:
            setattr(part, name, value)
