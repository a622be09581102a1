"""Envs that a script steps by turns, as a vector env of its own does: one env of several rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor

from rnncheck.watching.forms.plain_calls import PlainCall, PlainStep, leaf_tensor
from rnncheck.watching.forms.sent_actions import CLIPPED, WAYS, sent
from rnncheck.watching.forms.shown_entries import side_by_side_shown
from rnncheck.watching.forms.structures import leaves_in
from rnncheck.watching.seams.acting_block import TAKEN
from rnncheck.watching.seams.next_rollout import LONGEST_ROLLOUT
from rnncheck.watching.seams.stepped_env import SteppedEnv


class Turns:
    """Puts the steps together that envs take one after the other on one call of who acts."""

    def __init__(self) -> None:
        self.together = SteppedEnv((), None)
        self._envs = list[SteppedEnv]()  # in the order of their turns
        self._calls: Sequence[PlainCall] = ()
        self._lines: PlainCall | None = None
        self._drawn = frozenset[str]()  # by their names, what each env's action is made of
        self._uneven = False  # not the same envs took part in every round

    def goes_on(self, shown: SteppedEnv | None, calls: Sequence[PlainCall]) -> bool:
        """Whether the env that is about to be stepped takes its turn in the round that others have
        begun: nobody has acted since, and it has had none."""
        return bool(self._envs) and not calls and shown not in self._envs

    def begin(self, calls: Sequence[PlainCall]) -> PlainCall | None:
        """A round begins, ahead of which these calls were made: which call acted in the one
        before."""
        acted = self._over()
        self._calls = calls
        return acted

    def turn(
        self, shown: SteppedEnv, lines: PlainCall | None, drawn: frozenset[str] = frozenset()
    ) -> None:
        """The env is about to be stepped; the lines of the loop may be what acted, and what they
        have ``drawn`` what its action is made of."""
        self._envs.append(shown)
        self._lines, self._drawn = self._lines or lines, self._drawn | drawn

    def end(self) -> None:
        """No more steps are taken for now."""
        self._over()
        self._calls = ()

    def _over(self) -> PlainCall | None:
        envs, calls, lines, drawn = self._envs, self._calls, self._lines, self._drawn
        self._envs, self._lines, self._drawn = [], None, frozenset()
        steps = [one.steps[-1] for one in envs if one.steps]
        if len(steps) < 2 or len(steps) < len(envs):
            return None
        together, made = self.together, tuple(one.env for one in envs)
        self._uneven = self._uneven or bool(together.steps and together.env != made)
        if self._uneven or len(together.steps) >= LONGEST_ROLLOUT:
            together.steps = []
            return None
        together.env = made
        together.steps.append(_as_one(made, steps, calls, lines, drawn))
        call = together.steps[-1].call
        return call if call.function is not None else None


def _as_one(
    envs: tuple[Any, ...],
    steps: Sequence[PlainStep],
    calls: Sequence[PlainCall],
    lines: PlainCall | None,
    drawn: frozenset[str],
) -> PlainStep:
    def rows(name: str) -> Any:
        values = [getattr(one, name) for one in steps]
        return np.stack([np.asarray(one) for one in values])

    action = rows("action")
    if lines is not None:  # what one of the envs got is no action of all
        given = {name: one for name, one in lines.result.items() if name != TAKEN}
        calls = [replace(lines, result=given), *calls]
    call = acted(calls, action)
    if call is None and (whole := _drawn_for_all(calls, drawn, len(envs))) is not None:
        call, action = calls[0], whole
    return PlainStep(
        envs,
        side_by_side_shown([one.seen for one in steps]),
        call or unseen_call(),
        action,
        side_by_side_shown([one.after for one in steps]),
        rows("reward"),
        rows("terminated"),
        rows("truncated"),
        rows("reset"),
    )


def _drawn_for_all(
    calls: Sequence[PlainCall], drawn: frozenset[str], number: int
) -> np.ndarray[Any, Any] | None:
    """What the lines have drawn for all envs, which each makes its own action of, if it is one
    thing."""
    given = calls[0].result if drawn else {}
    found = [leaf_tensor(one) for name, one in given.items() if name in drawn]
    rows = [one for one in found if one is not None and one.dim() and len(one) == number]
    return rows[0].numpy(force=True) if len(rows) == 1 else None


def unseen_call() -> PlainCall:
    """Stands for one that was not seen."""
    return PlainCall(unseen_call.__code__, None, {})


def acted(calls: Sequence[PlainCall], action: Any) -> PlainCall | None:
    """The latest of the calls that gave the action."""
    return next((call for call, _ in _given(calls, lambda one: same_action(one, action))), None)


def sent_from(
    calls: Sequence[PlainCall], action: Any, env: Any
) -> tuple[PlainCall, Any, str] | None:
    """The latest of the calls that gave what the action was clipped from, to what the env takes, or
    rescaled to that; what it gave, in the form of the action; and which of these."""
    space = getattr(env, "action_space", None)
    if not isinstance(space, gymnasium.spaces.Box) or np.shape(action) != space.shape:
        return None
    if not isinstance(action, np.ndarray):
        return None

    def fits(value: Tensor, way: str) -> bool:
        if value.numel() != action.size or not value.is_floating_point():
            return False
        whole = value.detach().cpu().numpy().reshape(space.shape)
        if way == CLIPPED:
            return same_action(torch.as_tensor(sent(whole, space, way)), action)
        within = space.is_bounded() and bool((np.abs(whole) <= 1).all())
        return within and bool(np.allclose(sent(whole, space, way), action, 1e-5, 1e-6))

    for way in WAYS:
        for call, value in _given(calls, functools.partial(fits, way=way)):
            return call, value.detach().cpu().numpy().reshape(space.shape), way
    return None


def _given(
    calls: Sequence[PlainCall], fits: Callable[[Tensor], bool]
) -> Iterator[tuple[PlainCall, Tensor]]:
    """What fits of what they gave, the latest first."""
    for call in reversed(calls):
        for _, value in leaves_in(call.result):
            value = leaf_tensor(value)
            if value is not None and fits(value):
                yield call, value


def _are_equal(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Told soon, as it is asked at every step; False where that needs a closer look."""
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def same_action(value: Tensor, action: Any) -> bool:
    """Whether they are the same numbers, in whatever form."""
    if isinstance(action, (bool, int, float)):
        return value.numel() == 1 and bool(value.item() == action)
    if isinstance(action, np.ndarray):
        if action.size != value.numel():
            return False
        if not value.is_floating_point() and _are_equal(value.numpy(force=True), action):
            return True
    try:
        wanted = torch.as_tensor(np.asarray(action)).reshape(-1)
    except (TypeError, ValueError):
        return False
    mine = value.detach().cpu().reshape(-1)
    if mine.dtype != wanted.dtype:
        mine, wanted = mine.double(), wanted.double()
    return mine.shape == wanted.shape and torch.equal(mine, wanted)
