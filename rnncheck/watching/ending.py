"""How a script ended, and what that shows of its training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from rnncheck.errors import Place
from rnncheck.pipeline.guard.user_frames import Trouble, read_frame
from rnncheck.printable import counted
from rnncheck.results.events import Event, GuaranteeJudged, StageFinished
from rnncheck.results.guarantees import rests_beyond
from rnncheck.results.model import Outcome, Source, Stage, StageResult, Standing
from rnncheck.watching.seen import Sightings

TO_DO = (
    "training is not shown: let the script come to an optimiser step on what it collected (less"
    " warm-up, a longer `--seconds`, no exit before it)"
)

# Every script that trains comes to these; an estimator it may lack.
_TO_COME = {Stage.COLLECT, Stage.LOSS}


@dataclass(frozen=True)
class ScriptEnd:
    """How it ended: ``raised`` where by an exception of its own, ``code`` is its exit code, and
    ``place`` the line that it left by."""

    code: int | str | None = None
    raised: Trouble | None = None
    timed_out: bool = False
    enough: bool = False  # by the watch
    interrupted: bool = False  # Ctrl-C came, and the script caught it
    place: Place | None = None

    @property
    def caught(self) -> str:
        """What became of the script behind the Ctrl-C that it caught."""
        forced = self.timed_out or self.enough
        return "the script caught Ctrl-C and " + (
            "was ended from inside" if forced else "ended by itself"
        )


def trained(seen: Sightings, ended: ScriptEnd, seconds: float = 0.0) -> StageResult:
    """What is shown of the training: nothing where the script set out to train, or was ended before
    it could, and no optimiser step was seen."""
    if ended.raised is not None:
        trouble = ended.raised
        said = "\n".join(filter(None, (trouble.message, trouble.frames)))
        return StageResult(Stage.TRAIN, Outcome.ERROR, said, seconds, _line(trouble.place))
    if ended.code not in (None, 0) and not ended.interrupted:
        said = f"the script ended with exit code {ended.code}, {_steps(seen)} seen"
        return StageResult(Stage.TRAIN, Outcome.ERROR, said, seconds, _line(ended.place))
    early = ended.timed_out or ended.interrupted
    if not seen.updates and (early or seen.sets_out_to_train()):
        said = f"no optimiser step of a loss that was seen: {_how(ended)}; {_instead(seen)}"
        return StageResult(Stage.TRAIN, Outcome.NOT_LOOKED, said, seconds, _line(ended.place))
    return StageResult(Stage.TRAIN, Outcome.PASSED, _told(seen, ended), seconds)


def _told(seen: Sightings, ended: ScriptEnd) -> str:
    if ended.enough and not ended.interrupted:
        return f"ended after {_steps(seen)}"
    if not (ended.timed_out or ended.interrupted):
        return f"{_steps(seen)} seen"
    return f"{_steps(seen)} seen, {_how(ended)}"


def _steps(seen: Sightings) -> str:
    return counted(seen.updates, "optimiser step")


def _how(ended: ScriptEnd) -> str:
    """What ended it."""
    if ended.interrupted:
        return ended.caught
    if ended.timed_out:
        return "ended by the time limit"
    if ended.enough:
        return "ended, since nothing that acts was recognised (`--keep-going` goes on)"
    if ended.place is not None:
        return f"the script left by sys.exit() at {ended.place.path}:{ended.place.line}"
    return "the script came to its end"


def _instead(seen: Sightings) -> str:
    """What of a training was seen."""
    calls = [f"{counted(count, 'call')} of {name}" for name, count in seen.judged.items()]
    calls += [
        f"{counted(seen.backwards, 'call')} of backward",
        f"{counted(seen.optimisers, 'optimiser')} made",
        counted(seen.steps, "optimiser step"),
    ]
    return f"{', '.join(calls)} were seen"


def _line(at: Place | None) -> Source | None:
    if at is None:
        return None
    return Source(at.path, at.line, at.column, "python", "train", read_frame(at.path, at.line))


def as_far_as_it_came(events: Iterable[Event], why: str) -> Iterator[Event]:
    """The events of a script that did not come to all that it set out to do, for the reason given:
    a guarantee that rests on a stage which was not reached is not shown by the others."""
    absent = set[Stage]()
    for event in events:
        match event:
            case StageFinished() if event.result.outcome is Outcome.NOT_APPLICABLE:
                absent.add(event.result.stage)
            case GuaranteeJudged() if why and event.result.standing is Standing.SHOWN:
                if rests_beyond(event.result.name, absent & _TO_COME):
                    open_ = replace(event.result, standing=Standing.NOT_SHOWN, because=why)
                    event = replace(event, result=open_)
        yield event
