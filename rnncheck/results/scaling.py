"""How a variant's cost grows along one axis of the sweep, as data."""

from __future__ import annotations

from dataclasses import dataclass

BENT = 0.15  # relative distance of a point from the fit that is told; chosen, it changes no number


@dataclass(frozen=True)
class Scaling:
    """``time ~ axis ** exponent`` from a least-squares line through the logarithms, with its 95 %
    interval.

    Along ``resets`` the model is ``time = base * (1 + exponent * resets)`` instead: probabilities
    may be 0.
    """

    phase: str
    variant: str
    axis: str
    points: tuple[tuple[float, float], ...]  # value of the axis, median seconds
    exponent: float
    low: float
    high: float
    worst: float  # the largest relative distance of a point from the fit

    @property
    def sentence(self) -> str:
        """In words."""
        first, last = self.points[0][0], self.points[-1][0]
        over = f"over {first:g} to {last:g}"
        interval = f"[{self.low:.2f}, {self.high:.2f}]"
        bent = f"; no straight line: off by up to {self.worst:.0%}" if self.worst > BENT else ""
        if self.axis == "resets":
            percent = f"each 1 % of resets adds {self.exponent:.2f} % {interval}"
            return f"{self.phase}, {self.variant}: {percent} {over}{bent}"
        return (
            f"{self.phase}, {self.variant}: time ~ {self.axis}^{self.exponent:.2f} {interval}"
            f" {over}{bent}"
        )
