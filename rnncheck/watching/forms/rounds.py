"""Loops that make what they are given another batch under the same name, ahead of a loss."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from tensordict import TensorDictBase
from torchrl.modules import set_recurrent_mode

from rnncheck.pipeline.copying.restoring import Restored
from rnncheck.pipeline.instruments.own_loss import TrainStep
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.watching.forms.same_numbers import same_numbers
from rnncheck.watching.seams.ahead import made_of
from rnncheck.watching.seams.ahead_lines import ways_to
from rnncheck.watching.seen import Called, MadeAhead, Sightings


def settle_rounds(seen: Sightings) -> None:
    """Note a loop's lines as lines around the loss, where what they make of what was collected is
    what the script was seen to hold behind them."""
    for loss in seen.losses:
        proved = (one for one in loss.rounds if any(_makes(one, site) for site in seen.ahead))
        loss.around += proved
        loss.rounds = []


def _makes(lines: Called, site: MadeAhead) -> bool:
    """Whether the lines ahead of the site make of what was collected what was held there."""
    given, name = lines.inputs[0], lines.batch
    held = [one[name] for one in site.batches if name in one]
    ways = ways_to(site.scene, name, {name}) if held else ()
    return any(_is_among(_made(function, given, lines), given, held) for function in ways)


def _made(function: FunctionType, given: TensorDictBase, lines: Called) -> Any:
    """None where the lines raise."""
    recurrent = lines.modes.recurrent
    try:
        with (
            measuring(recurrent=recurrent, grad=False),
            Restored(function),
            TrainStep(),
            set_recurrent_mode(recurrent),
        ):
            return function(given.clone())
    except Exception:  # lines of the user's may raise anything
        return None


def _is_among(again: Any, given: TensorDictBase, held: list[TensorDictBase]) -> bool:
    if not isinstance(again, TensorDictBase):
        return False
    keys = made_of(again, set(tensor_keys(given)))
    return bool(keys) and any(
        one.shape == again.shape and same_numbers(again, one, keys) for one in held
    )
