"""What is noted of one env of a plain loop: what it showed, and what its steps gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from rnncheck.watching.forms.four_parts import OLD_PARTS, FiveParts, five_parts
from rnncheck.watching.forms.plain_calls import PlainCall, PlainStep
from rnncheck.watching.forms.sent_actions import AS_IT_IS
from rnncheck.watching.forms.shown_entries import with_parts_copied, with_rows
from rnncheck.watching.seams.next_rollout import LONGEST_ROLLOUT


@dataclass(eq=False)
class SteppedEnv:
    """An env that the script steps: what it showed last, and what its steps gave."""

    env: Any
    seen: Any
    mode: Any = None  # in which it begins anew, once it was asked: "" where it has none
    over: Any = None  # envs whose episode is over, where they begin anew with the next step
    way: str = AS_IT_IS  # what is made of actions ahead of it
    steps: list[PlainStep] = field(default_factory=list)

    def begins(self, shown: Any) -> None:
        """It was reset, and shows this: the script itself may end an episode."""
        if self.steps and self.steps[-1].rows == 1:
            last = self.steps[-1]
            last.truncated = last.truncated or not last.terminated
        self.seen, self.over = with_parts_copied(shown), None

    def gave(self, call: PlainCall, action: Any, found: tuple[Any, ...]) -> None:
        """A step that the call acted in, by what gymnasium's ``step`` gave."""
        after, reward, terminated, truncated, info = found
        begun = self.over
        if begun is None:
            single = isinstance(terminated, bool)
            begun = False if single else np.zeros_like(np.asarray(terminated))
        final = info.get("final_obs", info.get("final_observation")) if info else None
        if self.mode is None:
            told = getattr(self.env, "metadata", None)  # TorchRL's envs side by side ask each
            self.mode = (told.get("autoreset_mode") if isinstance(told, Mapping) else "") or ""
        over = self.mode == AutoresetMode.NEXT_STEP
        ended = np.asarray(terminated) | np.asarray(truncated) if over or final is not None else ()
        step = PlainStep(
            self.env,
            self.seen,
            call,
            action,
            with_parts_copied(_with(after, final, ended)),
            with_parts_copied(reward),
            with_parts_copied(terminated),
            with_parts_copied(truncated),
            begun,
            way=self.way,
        )
        self.over = ended if over else None
        self.seen = with_parts_copied(after)
        self.keep(step)

    def notes_as_five(self, note: Callable[[Any], None], found: Any, inside: Any) -> None:
        """What its step gave, in five parts, if it is a step; ``inside`` of which another env's
        gave that."""
        if isinstance(found, tuple) and len(found) == OLD_PARTS and np.ndim(found[2]) == 0:
            if not isinstance(self.env, FiveParts):
                self.env = FiveParts(self.env)
            found = five_parts(found, inside if _is_step(inside) else None)
        if _is_step(found):
            note(found)

    def keep(self, step: PlainStep) -> None:
        """It was stepped, as long as a rollout is not too long."""
        if len(self.steps) < LONGEST_ROLLOUT:
            self.steps.append(step)


def _is_step(found: Any) -> bool:
    return isinstance(found, tuple) and len(found) > OLD_PARTS


def are_several(inner: Sequence[tuple[Any, Any]], found: Any) -> bool:
    """Whether an env whose ``reset`` gave ``found``, and meanwhile reset these ``inner`` ones, each
    with what it showed, shows several side by side, be it one alone. A wrapper shows one, in
    whatever way: with a dict as gymnasium's do, or by itself as those of older gyms."""
    if not inner or (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict)):
        return False
    if len({id(_innermost(env)) for env, _ in inner}) > 1:
        return True
    shown = inner[-1][1][0] if isinstance(inner[-1][1], tuple) else inner[-1][1]
    if _count(found) != 1:
        return False
    return _count(shown) != 1 or np.shape(found[0]) == np.shape(shown)


def _innermost(env: Any) -> Any:
    """What wrappers hold as ``env``."""
    while (inner := getattr(env, "__dict__", {}).get("env")) is not None:
        env = inner
    return env


def _count(shown: Any) -> int:
    return len(shown) if isinstance(shown, (list, tuple)) or np.ndim(shown) else 0


def _with(after: Any, final: Any, ended: Any) -> Any:
    """What the envs showed at the end of their steps: where they were reset, what they showed
    before that."""
    numbers = () if final is None else np.flatnonzero(ended)
    found = {int(number): final[number] for number in numbers if final[number] is not None}
    return with_rows(after, found) if found else after
