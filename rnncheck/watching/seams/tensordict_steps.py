"""The seam of a loop over the steps of an env that is none of TorchRL's, in which modules act on
tensordicts that the loop makes, and TorchRL's losses train them."""

from __future__ import annotations

from dataclasses import dataclass
from types import FrameType
from typing import Any

from tensordict import TensorDictBase
from torch import nn

from rnncheck.errors import Place, first_line
from rnncheck.pipeline.guard.user_frames import calling_place
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.watching.forms.named_switches import modes_of
from rnncheck.watching.forms.on_tensordicts import Names, action_entry, as_td_step, env_of, names_of
from rnncheck.watching.forms.own_env import is_own_env
from rnncheck.watching.forms.plain_calls import PlainStep
from rnncheck.watching.forms.switches import switches_of
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.calls import one_after_the_other, writers_of
from rnncheck.watching.seams.harmless import harmless
from rnncheck.watching.seams.plain_steps import PlainSteps
from rnncheck.watching.seams.stepping import Stepping
from rnncheck.watching.seen import Acting, CalledOn, copy_now


def tensordict_step_seams(watching: Watching, steps: PlainSteps, stepping: Stepping) -> None:
    """Hear of the steps that ``steps`` follows, and of the calls that ``stepping`` notes."""
    noting = TensordictSteps(watching, steps, stepping)
    watching.at_a_step.append(noting.stepped)
    at = watching.at_a_backward.index(steps.backward)
    watching.at_a_backward[at : at + 1] = [noting.ahead, steps.backward, noting.backward]


@dataclass(frozen=True)
class _Acted:
    """What stood in the loop's tensordict as the env was stepped."""

    calls: list[CalledOn]
    td: TensorDictBase
    copied: TensorDictBase
    ahead: frozenset[Key]  # before modules wrote into it
    place: Place


@dataclass(frozen=True)
class _Step:
    acted: _Acted
    step: PlainStep
    action: Key
    modules: tuple[nn.Module, ...]


class TensordictSteps:
    """Tells of the steps as of those of one of TorchRL's envs, where they are told in no other way.
    It never raises into the script: it looks no longer then."""

    def __init__(self, watching: Watching, steps: PlainSteps, stepping: Stepping) -> None:
        self._watching, self._plain, self._stepping = watching, steps, stepping
        self._acted: _Acted | None = None
        self._before: PlainStep | None = None
        self._steps = list[_Step]()
        self._acting: Acting | None = None  # the first of them, as it acted
        self._names: Names | None = None  # once they are told
        self._over = False

    @harmless
    def stepped(self) -> None:
        """The script has stepped an env."""
        seen = self._watching.seen
        if self._over or (seen.acting and self._names is None):
            return
        settled = self._settle()
        if settled is not None and self._names is not None and seen.frozen:
            self._tell_later(settled, self._names)
        calls = list(self._watching.calls)
        self._watching.calls.clear()
        if calls:
            td = calls[-1][1]
            ahead = self._stepping.keys_ahead
            self._acted = _Acted(calls, td, copy_now(td), ahead, calling_place(3))
            self._before = self._plain.latest

    def _settle(self) -> _Step | None:
        """What the latest step gave is known now: it, where an entry had its action."""
        acted, self._acted = self._acted, None
        step = self._plain.latest
        if acted is None or step is None or step is self._before:
            return None
        wrote = [key for key in tensor_keys(acted.copied) if key not in acted.ahead]
        action = action_entry(acted.copied, wrote, step.action)
        modules = tuple(writers_of([action], acted.td, acted.calls)) if action else ()
        if not modules or action is None:
            return None
        self._steps.append(_Step(acted, step, action, modules))
        self._note_actor(modules, acted.place)
        return self._steps[-1]

    def _note_actor(self, modules: tuple[nn.Module, ...], place: Place) -> None:
        """Who acts, with its switches as they are while it does."""
        if self._acting is None:
            whole = one_after_the_other(list(modules))
            self._acting = Acting("steps", whole, None, place)
            self._acting.switches, self._acting.trains = switches_of(whole), modes_of(whole)

    @harmless
    def ahead(self, _frame: FrameType, _loss: Any) -> None:
        """``loss.backward()``, ahead of all else: tell of the steps so far, where what trains is
        TorchRL's, and the tensordicts hold a state."""
        seen = self._watching.seen
        trains = any(one.own is None for one in (*seen.losses, *seen.estimators))
        if self._over or seen.acting or not trains or self._acting is None:
            return
        self._settle()
        first = self._steps[0].acted
        carried = {key[1:] for key in tensor_keys(first.copied) if key[0] == "next"}
        if carried & first.ahead and not self._tell(self._acting):
            self._plain.stop()

    @harmless
    def backward(self, _frame: FrameType, _loss: Any) -> None:
        """``loss.backward()``: tell of the steps so far, where nothing else does."""
        seen = self._watching.seen
        if self._over or seen.acting or not seen.plain or self._acting is None:
            return
        self._settle()
        if said := self._tell(self._acting):
            self._over = True
            seen.plain = f"{seen.plain}; as steps of TorchRL's: {said}"

    def _tell(self, acting: Acting) -> str:
        """Why they are no steps of one of TorchRL's; nothing where they are."""
        first = self._steps[0]
        env, modules = first.step.env, first.modules
        mine = [one for one in self._steps if one.modules == modules and one.step.env is env]
        steps, tds = [o.step for o in mine], [o.acted.copied for o in mine]
        names = names_of(steps, tds, sorted(first.acted.ahead), first.action)
        if names is None:
            return "what the env shows is in no entry ahead of who acts"
        try:
            acting.make_env = acting.env = env_of(first.step, tds[0], names)
        except Exception as error:  # an env of the user's may be anything
            return first_line(error)
        made = [as_td_step(td, step, names) for td, step in zip(tds, steps, strict=True)]
        self._watching.seen.plain, self._names = "", names
        self._plain.only_steps = True
        acting.ahead, acting.shows_starts = first.acted.ahead, is_own_env(first.step.env)
        wrote = [key for key in tensor_keys(tds[0]) if key not in acting.ahead]
        self._stepping.tell(acting, made, wrote)
        return ""

    def _tell_later(self, latest: _Step, names: Names) -> None:
        """Of a step behind an update: others judge what later rollouts begin with."""
        self._over = True
        step = as_td_step(latest.acted.copied, latest.step, names)
        self._watching.move_on(self._acting, step)

    def give_up(self, error: Exception) -> None:
        """Follow nothing any more."""
        self._over = True
