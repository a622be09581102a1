"""What a sweep recommends, as data."""

from __future__ import annotations

from dataclasses import dataclass

from rnncheck.results.cells import Ratio

_COMPILE_CALLS = {
    "default": "policy.compile()",
    "reduce-overhead": 'policy.compile(mode="reduce-overhead")',
    "fullgraph": "policy.compile(fullgraph=True)",
}


@dataclass(frozen=True)
class Recommendation:
    """The fastest right variant for one purpose; ``gain`` is None where it is the reference itself.

    ``arguments`` go into LSTMModule or GRUModule. ``changes`` are shapes at which the answer is
    another.
    """

    purpose: str  # "training" or "acting"
    group: str  # the shape that it was measured at
    variant: str
    gain: Ratio | None
    arguments: dict[str, str]
    compile: str  # "eager", or how torch.compile is called
    changes: tuple[str, ...] = ()
    alone: bool = False  # no other variant was measured there and is right
    open: tuple[str, ...] = ()  # what is not settled, and what more time would buy, in words

    @property
    def sentence(self) -> str:
        """In words."""
        found = f"for {self.purpose} ({self.group}): {self.variant}, {self._why()}"
        return "; ".join([found, *self.open])

    @property
    def compiling(self) -> str:
        """The user's call that compiles it; empty where it runs eagerly."""
        return _COMPILE_CALLS.get(self.compile, "")

    def _why(self) -> str:
        gain = self.gain
        if gain is not None:
            interval = f"[{gain.low:.2f}, {gain.high:.2f}]"
            return f"{gain.value:.2f} times as fast as {gain.reference} {interval}"
        if self.alone:
            return "the only variant that was measured there and is right"
        return "nothing that was measured is clearly faster"
