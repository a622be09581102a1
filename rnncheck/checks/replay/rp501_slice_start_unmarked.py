"""The training batch joins two stretches without ``is_init``.

Checks
    Every step of the training batches is traced back to the step that was collected. Where two
    neighbours of a row are not neighbours in time, the right one must have a true start flag (or
    begin a row). `rnncheck run` waits for rows that begin inside of an episode where the script
    lays rows end to end and the first ones begin with episodes.

Why it matters
    In recurrent mode the state runs from one slice into the next: the policy is trained on
    histories that never were.

Says nothing when
    the batch is made of single steps (RP502), or a slice runs over an episode's end (RP506). Nor
    where the loss leaves the memory out, as RP502 has it.

Fix
    Use TensorDictReplayBuffer with SliceSampler (a plain ReplayBuffer leaves the marks in
    ``info``), or set the flag at the first step of every stretch that you join.

Example
    rb = TensorDictReplayBuffer(storage=..., sampler=SliceSampler(slice_len=16), batch_size=128)
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.left_out import needs_sequence
from rnncheck.checks.evidence.unmarked_joins import Joins, joins
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage

JOINED = (
    "slices or rows were laid end to end without a mark: a plain ReplayBuffer puts the sampler's"
    " marks into info, reshape(-1) joins rows"
)
MARKING = "use TensorDictReplayBuffer, or set is_init at the first step of every stretch"


def run(evidence: Evidence) -> Judgement:
    """Joined stretches of all training batches."""
    needs_sequence(evidence)
    found = joins(evidence)
    known = sum(int(item.sample.known.sum()) for item in found)
    if not known:
        raise CouldNotLook(
            "no step of the training batches could be traced back to the collected data"
        )
    bad = [item for item in found if bool(item.stretches.any())]
    later = sum(int(one.get("unmarked").sum()) for one in evidence.pipeline.openings if _tells(one))
    if later and not any(item.any for item in found):
        return Judgement((_observed_later(later),), known)
    return Judgement((_observed(bad[0]),) if bad else (), known, f"{known} steps traced")


def _tells(opening: TensorDictBase) -> bool:
    return opening.get("unmarked", None) is not None


def _observed_later(count: int) -> Observation:
    return Observation(
        message=(
            f"{counted(count, 'row')} that began inside of an episode, behind the first update, lay"
            " behind other steps with no start flag"
        ),
        key="is_init",
        quantity="unmarked joins",
        measured=float(count),
        on="rows of a later batch",
        bound_formula="every stretch begins with a true start flag",
        cause=JOINED,
        fix=MARKING,
    )


def _observed(item: Joins) -> Observation:
    count = int(item.stretches.sum())
    return Observation(
        message=counted(count, "join of two stretches in a training batch", "have no start flag"),
        key="is_init",
        quantity="unmarked joins",
        measured=float(count),
        on=f"training batch {item.number}, {tuple(item.sample.td.shape)}",
        bound_formula="every stretch begins with a true start flag",
        where=item.where(item.stretches),
        cause=JOINED,
        fix=MARKING,
    )


RULE = Rule(
    code="RP501",
    name="slice-start-unmarked",
    holds="every start inside a training batch is marked",
    severity=Severity.ERROR,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY, Stage.REPLAY),
)
