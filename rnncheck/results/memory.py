"""What a policy was seen to remember, as data: returns, influence, states, errors of replay.

Lags and positions count environment steps. An interval is at 95 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Question(StrEnum):
    """What is asked of a policy, in the order in which it is asked."""

    HORIZON = "horizon"  # how far back
    STATE = "state"  # what the state is
    REPLAY = "replay"  # what replay loses
    RETURNS = "returns"  # whether it matters


class ReturnEffect(StrEnum):
    """What a treatment of the state does to the return."""

    WORSE = "worse"
    SAME = "as good"
    BETTER = "better"
    UNCLEAR = "unclear"


POLICY, CRITIC = "policy", "critic"  # whose outputs and states they are


def named(whose: str, name: str) -> str:
    """``state_value of the critic``; the policy's own go by their names."""
    return name if whose == POLICY else f"{name} of the {whose}"


@dataclass(frozen=True)
class Estimated:
    """A value with its interval; ``beyond`` where the data end before it: it is at least that."""

    value: float
    low: float
    high: float
    beyond: bool = False


@dataclass(frozen=True)
class ReturnsUnder:
    """The returns of the same episodes, by seed, under one treatment of the state.

    ``lost`` is the mean of what the policy with its own state gets more, ``margin`` the most that
    still counts as as good.
    """

    treatment: str
    returns: tuple[float, ...]
    lost: Estimated | None = None  # None for the policy with its own state
    effect: ReturnEffect | None = None
    margin: float = 0.0

    @property
    def mean(self) -> float:
        """The mean return; 0 of no episode, which no run stores."""
        return sum(self.returns) / max(len(self.returns), 1)


@dataclass(frozen=True)
class AtLag:
    """What the pairs of steps at one lag, or the slices at one position, show: 10 %, 50 % and 90 %
    of them, their mean and the largest."""

    lag: int
    pairs: int
    low: float
    median: float
    high: float
    mean: float
    largest: float


@dataclass(frozen=True)
class InfluenceCurve:
    """How far an output moves when the observation ``lag`` steps before is another.

    ``through`` is a carry key where only that part of the state was changed. ``noise`` is how far
    rounding alone moves the output. ``horizon`` is the last lag above it, 0 where there is none;
    ``reach`` the last one whose mean is a stated share of the largest at any lag of 1 or more;
    ``half_life`` counts from the lag of the largest. The curve ends at ``longest``.
    """

    output: str
    unit: str
    method: str  # "replaced" or "gradient"
    through: str
    agent: int | None
    lags: tuple[AtLag, ...]
    noise: float
    longest: int
    horizon: int
    reach: Estimated | None = None
    half_life: Estimated | None = None
    of_state: bool = False  # the output is the state itself
    whose: str = POLICY
    acts: bool = True  # the action follows from the output
    partial: bool = False  # of what is read the floats alone: others have no gradient

    @property
    def named(self) -> str:
        """With whose it is, where that is not the policy."""
        return named(self.whose, self.output)


@dataclass(frozen=True)
class InfluenceMatrix:
    """How far the output at a step (column) moves when the observation of another (row) changes;
    two episodes end to end, the second from step ``second`` on."""

    output: str
    unit: str
    second: int
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class StateFacts:
    """One carry key over the recorded episodes.

    ``saturated`` are units of a state within [-1, 1] that are nearly always at its bound, None
    where a state is wider; ``dead`` never move. ``rank`` is the effective rank. ``norms`` are
    medians by step; ``drift`` is the norm behind ``trained`` steps over that in the second half
    of them, None where no episode is longer.
    """

    key: str
    units: int
    saturated: int | None
    dead: int
    rank: float
    norms: tuple[float, ...]
    trained: int | None = None
    drift: Estimated | None = None
    whose: str = POLICY

    @property
    def named(self) -> str:
        """With whose it is, where that is not the policy."""
        return named(self.whose, self.key)


@dataclass(frozen=True)
class ReplayCurve:
    """The error of an output at each position of a slice that starts in the middle of an episode.

    ``burn_in`` is the first position from which on the 90 % line stays below ``share`` of what a
    start from zero costs at position 0.
    """

    start: str  # "zero", "stored" or "stored by older weights"
    output: str
    unit: str
    errors: tuple[AtLag, ...]
    share: float
    burn_in: Estimated | None = None
    whose: str = POLICY

    @property
    def named(self) -> str:
        """With whose it is, where that is not the policy."""
        return named(self.whose, self.output)


@dataclass(frozen=True)
class Observed:
    """Whether each observation shows what the task takes, None where that could not be told, and
    what was seen of it."""

    whole: bool | None
    because: str


@dataclass(frozen=True)
class MemoryFinding:
    """Something to act on: what was seen, what would explain it, what to do."""

    name: str
    message: str
    explained: str = ""
    fix: str = ""


@dataclass(frozen=True)
class MemoryAdvice:
    """What a setting of the replay should be; ``now`` is the spec's own."""

    setting: str  # "slice_len", "burn_in" or "start"
    now: str
    advised: str
    figure: Estimated | None
    because: str


@dataclass(frozen=True)
class MemoryResult:
    """All that was found so far; ``answered`` questions need no second look."""

    lengths: tuple[int, ...] = ()  # of the recorded episodes
    observed: Observed | None = None
    curves: tuple[InfluenceCurve, ...] = ()
    matrix: InfluenceMatrix | None = None
    states: tuple[StateFacts, ...] = ()
    replay: tuple[ReplayCurve, ...] = ()
    returns: tuple[ReturnsUnder, ...] = ()
    findings: tuple[MemoryFinding, ...] = ()
    advice: tuple[MemoryAdvice, ...] = ()
    answered: tuple[Question, ...] = ()
    untold: tuple[str, ...] = ()  # "horizon: why it could not be told"

    @property
    def main_curve(self) -> InfluenceCurve | None:
        """The curve that conclusions on acting rest on: the farthest from which actions follow."""
        return self.farthest(POLICY, acting=True) or self.farthest(POLICY)

    def farthest(self, whose: str, *, acting: bool = False) -> InfluenceCurve | None:
        """By replacement, through the whole state, the output (and agent) with the farthest horizon
        and reach."""
        whole = [
            one
            for one in self.curves
            if one.method == "replaced"
            and not one.through
            and not one.of_state
            and one.whose == whose
            and (one.acts or not acting)
        ]
        return max(whole, key=_farness, default=None)


def _farness(curve: InfluenceCurve) -> tuple[int, float]:
    return curve.horizon, curve.reach.value if curve.reach is not None else 0.0
