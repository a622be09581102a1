"""Whether recurrent layers run on one step from zeros where a policy acts, and over sequences where
it is trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rnncheck.watching.forms.plain_calls import PlainCall
from rnncheck.watching.forms.structures import leaves_in

Layer = nn.RNNBase | nn.RNNCellBase
LAYERS = (nn.RNNBase, nn.RNNCellBase)


class FreshLayers:
    """Hears what torch's recurrent layers are run on."""

    def __init__(self) -> None:
        self._since = list[bool]()  # the last step: whether each call forgot
        self.remembers = False  # one ran over a sequence, or from a state, with gradients
        self.wanted = True  # no call that acted was given a state so far

    def gave(
        self,
        layer: Layer,
        inputs: tuple[Any, ...],
        named: Mapping[str, Any],
        calls: Iterable[PlainCall],
    ) -> None:
        """A layer has run inside of the calls."""
        states = [*inputs[1:], *(one for name, one in named.items() if name == "hx")]
        zeros = not any(bool(one.any()) for one in _tensors(states))
        forgot = zeros and _steps(layer, inputs[0] if inputs else named["input"]) == 1
        self.remembers |= torch.is_grad_enabled() and not forgot
        self._since.append(forgot)
        for call in calls:
            call.forgets = forgot and call.forgets is not False

    def stepped(self, call: PlainCall | None, *, lines: bool) -> None:
        """The env was stepped behind the call; where lines acted, all since the last step is
        theirs."""
        if call is not None and lines:
            call.forgets = all(self._since) if self._since else None
        self.wanted = self.wanted and (call is None or call.forgets is not False)
        self._since.clear()

    def told(self, calls: Iterable[PlainCall]) -> None:
        """What is known of acting, at the first loss: a policy that is trained on single steps as
        well has nothing to forget."""
        for call in calls:
            call.forgets = call.forgets and self.remembers


def _steps(layer: Layer, given: Any) -> int:
    """Over how many it runs; 0 where that is not known."""
    if isinstance(layer, nn.RNNCellBase):
        return 1
    if not isinstance(given, Tensor):  # a packed sequence
        return 0
    return given.shape[1 if layer.batch_first and given.ndim == 3 else 0]


def _tensors(values: Any) -> list[Tensor]:
    return [one for _, one in leaves_in(values) if isinstance(one, Tensor)]
