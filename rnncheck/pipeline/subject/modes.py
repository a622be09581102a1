"""Recurrent and sequential mode, exploration and randomness, as one context."""

from __future__ import annotations

import functools
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import set_recurrent_mode
from torchrl.modules.tensordict_module import rnn

from rnncheck.pipeline.guard.timeout import pass_on_expired
from rnncheck.pipeline.keys import Key, declared
from rnncheck.pipeline.placing import accelerator, forked_rng, full_precision
from rnncheck.pipeline.subject.statistics import counting_nothing
from rnncheck.supervisor.interrupts import pass_on

MEASURING_SEED = 2**20 + 7  # any fixed number: two runs that must agree draw the same noise


@contextmanager
def measuring(
    *,
    recurrent: bool | None,
    explore: bool = False,
    grad: bool = False,
    seed: int = MEASURING_SEED,
    full: bool | None = None,
) -> Iterator[None]:
    """Run a module in one mode (None: the ambient one), reproducibly, and leave the random state as
    it was.

    Exploration is off unless ``explore``, so that outputs are functions of the inputs where they
    can be. With ``full`` (by default in every mode but the sequential one, which repeats what was
    acted) CUDA multiplies float32 in float32, not in tf32, which torch allows cuDNN by default: it
    would part the modes by more than a fault does. ``precision_as_set`` has the last word.
    """
    kind = ExplorationType.RANDOM if explore else ExplorationType.DETERMINISTIC
    pass_on_expired()  # what was swallowed inside what ran before
    pass_on()
    with (
        warnings.catch_warnings(),
        forked_rng(),
        counting_nothing(),
        _drawn_again(seed),
        full_precision() if (recurrent is not False if full is None else full) else nullcontext(),
        torch.set_grad_enabled(grad),
        set_exploration_type(kind),
        set_recurrent_mode(recurrent),
    ):
        warnings.simplefilter("ignore")
        _seed(seed)
        yield


@contextmanager
def _drawn_again(seed: int) -> Iterator[None]:
    """Python's and NumPy's random numbers and those of gymnasium's spaces, from the seed: a policy
    may explore by them."""
    mine, arrays = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    spaces = sys.modules.get("gymnasium.spaces")
    try:
        with nullcontext() if spaces is None else _seeded_spaces(spaces.Space, seed):
            yield
    finally:
        random.setstate(mine)
        np.random.set_state(arrays)


@contextmanager
def _seeded_spaces(kind: Any, seed: int) -> Iterator[None]:
    """``env.action_space.sample()`` draws the same again, and the space's own numbers stay."""
    own, drawn = kind.np_random, list[np.random.Generator]()

    def instead(_space: Any) -> np.random.Generator:
        if not drawn:
            drawn.append(np.random.default_rng(seed))
        return drawn[0]

    kind.np_random = property(instead)
    try:
        yield
    finally:
        kind.np_random = own


def _seed(seed: int) -> None:
    """As torch.manual_seed, which writes down the stack for every kind of device, also where there
    is none: a millisecond for each of a thousand runs."""
    if accelerator() is not None:
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


class InMode(nn.Module):
    """A loss, or another module, that always runs in one mode."""

    def __init__(self, module: nn.Module, recurrent: bool | None) -> None:
        super().__init__()
        self.module, self.recurrent = module, recurrent

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run it."""
        with set_recurrent_mode(self.recurrent):
            return self.module(*args, **kwargs)


class Setting(Protocol):
    """More than TorchRL's mode, which a script has set around a call."""

    def set(self) -> AbstractContextManager[None]:
        """Set it inside."""


Mode = bool | Setting | None


def in_mode_of(mode: Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called in that mode; itself where that is None."""
    return function if mode is None else functools.partial(run_in_mode, mode, function)


def run_in_mode(
    mode: bool | Setting, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """What the function gives there."""
    with set_recurrent_mode(mode) if isinstance(mode, bool) else mode.set():
        return function(*args, **kwargs)


def called_in_mode(function: Any) -> tuple[Mode, Any]:
    """The mode that ``in_mode_of`` calls a function in, and the function."""
    if isinstance(function, functools.partial) and function.func is run_in_mode:
        mode, inner = function.args[:2]
        return mode, inner
    return None, function


class InRecurrentMode(TensorDictModuleBase):
    """A network that always runs in recurrent mode."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.in_keys = [_written(key) for key in declared(network, "in_keys")]
        self.out_keys = [_written(key) for key in declared(network, "out_keys")]

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        """Run the network on ``td``."""
        with set_recurrent_mode(True):
            out: TensorDictBase = self.network(td)
        return out


def _written(key: Key) -> str | Key:
    """A key as users write it: one that is not nested is a string."""
    return key[0] if len(key) == 1 else key


class ModeQueries:
    """Counts how often anything asks TorchRL for the recurrent mode inside the context."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> ModeQueries:
        self._manager = rnn.recurrent_mode_state_manager
        self._original = self._manager.get_mode

        def counted() -> bool | None:
            caller = sys._getframe(
                1
            ).f_code  # whoever sets a mode keeps the one before: no question
            self.count += caller is not set_recurrent_mode.__enter__.__code__
            mode: bool | None = self._original()
            return mode

        self._manager.get_mode = counted
        return self

    def __exit__(self, *_: object) -> None:
        del self._manager.get_mode
