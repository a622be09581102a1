"""A saved run judged again, without its script."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torchrl.collectors import BaseCollector

from rnncheck.checks.engine.session import Illustrator, run_started
from rnncheck.checks.rule import Rule
from rnncheck.errors import Place, UserError
from rnncheck.pipeline.guard.user_frames import training_packages_followed
from rnncheck.pipeline.recording.ends_by import EndsBy
from rnncheck.results.events import Event, Notice, StageFinished
from rnncheck.results.model import NOT_MADE_AGAIN, Outcome, Stage, StageResult
from rnncheck.spec.model import Spec
from rnncheck.spec.settings import VerifySpec
from rnncheck.spec.watched import unseen
from rnncheck.watching.events import judged_events
from rnncheck.watching.saving.archive import SavedPart, SavedRun, read_saved
from rnncheck.watching.saving.decoding import Decoder, Malformed
from rnncheck.watching.saving.import_paths import CannotKeep
from rnncheck.watching.seen import Acting, Called, Modes, Sightings

_NAME = re.compile(r"\w{1,80}")
_UNSEEN_MODE = None  # how actions were explored: asked while batches are taken, which are there


class SavedCollector(BaseCollector):  # type: ignore[misc]
    """What is left of a collector: its class's name and a few numbers."""

    def __init__(self, held: dict[str, Any]) -> None:
        self.__dict__.update(held)

    def shutdown(self, *args: Any, **kwargs: Any) -> None:
        """There is nothing to end."""

    def iterator(self) -> Any:
        """It collects nothing."""
        return iter(())

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """It draws nothing."""
        return seed

    def state_dict(self) -> Any:
        """It has no state."""
        return {}

    def load_state_dict(self, state_dict: Any) -> None:
        """It has no state."""

    def __bool__(self) -> bool:
        return True  # of itself it says how many batches are to come

    def __del__(self) -> None:
        pass


def saved_spec(path: Path, seed: int | None, verify: VerifySpec) -> tuple[Spec, SavedRun, bytes]:
    """The spec of nothing with the name and the seed of a saved run, and that run."""
    saved, data = read_saved(path)
    asked = unseen(str(path), saved.seed if seed is None else seed, verify)
    made = asked.model_copy(update={"name": saved.name[:200]})
    made._path, made._places, made._hash = str(path), {(): Place(str(path))}, saved.hash
    return made, saved, data


@dataclass
class SavedAgain:
    """The parts of a saved run, made again."""

    saved: SavedRun
    decoder: Decoder
    lost: dict[Stage, str]

    def sightings(self) -> Sightings:
        """What the watch had seen."""
        saved, seen = self.saved, Sightings()
        seen.updates, seen.backwards = saved.updates, saved.backwards
        seen.unjudged, seen.with_memory = dict(saved.unjudged), set(saved.with_memory)
        seen.steps, seen.env_steps = saved.steps, saved.env_steps
        seen.recurrent, seen.layers = dict(saved.recurrent), dict(saved.layers)
        seen.plain, seen.unseen = saved.plain, saved.unseen
        if why := self._without_globals():
            self.lost[Stage.POLICY] = why
        elif saved.acting is not None and (acting := self._made(Stage.POLICY, saved.acting)):
            seen.acting.append(_acting(acting, saved.acting))
        for stage, parts, into in (
            (Stage.LOSS, saved.losses, seen.losses),
            (Stage.LOSS, saved.passes, seen.passes),
            (Stage.ADVANTAGE, saved.estimators, seen.estimators),
            (Stage.LOSS, saved.transforms, seen.transforms),
        ):
            for part in parts:
                if made := self._made(stage, part):
                    into.append(_called(made, part))
                    owner = made["module"]
                    seen.networks += [(owner, k, v) for k, v in made["networks"].items()]
        if Stage.LOSS in self.lost:  # a part of what it is made of is not the loss
            seen.losses.clear()
            seen.passes.clear()
        return seen

    def _without_globals(self) -> str:
        """Give the script's functions the globals that they read; why that cannot be, else."""
        for name, form in self.saved.globals.items():
            if not _NAME.fullmatch(name) or name.startswith("__"):
                raise Malformed(f"{name!r:.80} is no name of a script's own")
            try:
                module = self.decoder.module(self.saved.module)
                setattr(module, name, self.decoder.whole(form))
            except CannotKeep as error:
                return f"{name} of {self.saved.module} {NOT_MADE_AGAIN}{error}"
        return ""

    def _made(self, stage: Stage, part: SavedPart) -> dict[str, Any] | None:
        if not isinstance(part.form, dict):
            raise Malformed(f"the {stage} has no parts")
        made = {}
        for name, form in part.form.items():
            try:
                made[name] = self.decoder.whole(form)
            except CannotKeep as error:
                what = Stage.ENV if name == "make_env" else stage
                self.lost[what] = f"the {what} {NOT_MADE_AGAIN}{error}"
                return None
        return made


def saved_events(
    path: Path,
    asked: Spec,
    run: tuple[SavedRun, bytes],
    rules: Sequence[Rule],
    *,
    thorough: bool = False,
    strict: bool = False,
    illustrate: Illustrator | None = None,
    beside: Path | None = None,
) -> Generator[Event, None, None]:
    """Ask ``rules`` of what a script was seen to do; the script lies ``beside`` the file, or in
    that folder."""
    yield run_started(asked, rules, "verify", strict=strict)
    saved, data = run
    folders = folders_of((beside or path.parent).resolve(), saved.folder)
    sys.path[:0] = map(str, folders)
    again = SavedAgain(
        saved,
        Decoder(saved.nodes, data, folders, saved.module),
        {Stage(stage): why for stage, why in saved.lost.items() if stage in list(Stage)},
    )
    try:
        seen = again.sightings()
        train = StageResult(Stage.TRAIN, Outcome(saved.outcome), saved.detail)
    except (Malformed, KeyError, TypeError, ValueError, AttributeError) as error:
        said = f"this is no saved run: {error}"
        raise UserError(said, place=Place(str(path))) from error
    yield StageFinished(train)
    yield from map(Notice, _changes(saved))
    yield from map(Notice, dict.fromkeys(again.lost.values()))
    with training_packages_followed():
        yield from judged_events(
            seen,
            asked,
            rules,
            train,
            command="verify",
            lost=again.lost,
            thorough=thorough,
            strict=strict,
            illustrate=illustrate,
        )


def folders_of(of_file: Path, told: str) -> tuple[Path, ...]:
    """Where modules are imported from: the script's folder, where that lies in the file's or in
    the working folder, and these two. Whoever wrote the file may have told any other one."""
    mine = (of_file, Path.cwd().resolve())
    home = (of_file / told).resolve()
    inside = any(home.is_relative_to(one) for one in mine)
    return tuple(dict.fromkeys((home, *mine) if inside else mine))


def _changes(saved: SavedRun) -> list[str]:
    """What is no longer as it was when the run was saved."""
    found = []
    if saved.torchrl != version("torchrl"):
        found.append(
            f"the run was saved with torchrl {saved.torchrl}, this is {version('torchrl')}"
        )
    for name, before in saved.sources.items():
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and hashlib.sha256(Path(file).read_bytes()).hexdigest() != before:
            found.append(f"{name} is not what it was when the run was saved")
    return found


def _acting(made: dict[str, Any], part: SavedPart) -> Acting:
    acting = Acting(made["kind"], made["policy"], made["make_env"], Place(part.path, part.line))
    acting.modes = Modes(made["recurrent"], _UNSEEN_MODE)
    acting.batches, acting.further = made["batches"], made["further"]
    acting.openings = made.get("openings", [])  # of files that are older there are none
    acting.joins, acting.disturbed = made.get("joins", []), made.get("disturbed", "")
    acting.apart, acting.untrained = made.get("apart", False), made.get("untrained", 0)
    acting.left = made.get("left")
    acting.anew = made.get("anew", False)
    acting.never_reset = made.get("never_reset", False)
    acting.forgets, acting.counted = made.get("forgets", ""), made.get("counted", [])
    acting.ends_by = EndsBy(made.get("ends_by", EndsBy.ANY))
    acting.shows_starts = made.get("shows_starts", False)
    acting.shown = {tuple(key): tuple(source) for key, source in made.get("shown", [])}
    acting.switches, acting.random = made["switches"], made["random"]
    acting.parts, acting.writes = made.get("parts", []), made.get("writes", [])
    if made["collector"] is not None:
        name, held = made["collector"]
        if not _NAME.fullmatch(name):
            raise Malformed("a collector has no name")
        acting.collector = type(name, (SavedCollector,), {})(held)
    return acting


def _called(made: dict[str, Any], part: SavedPart) -> Called:
    modes = Modes(made["recurrent"], _UNSEEN_MODE)
    called = Called(made["module"], Place(part.path, part.line), modes, made["inputs"])
    called.switches, called.batch = made["switches"], made["batch"]
    called.trains = True
    called.itself = made.get("itself", True)  # what older files tell nothing of
    called.own = part.path + str(part.line) if made["own"] else None
    called.passed, called.over = made.get("passed", []), made.get("over")
    called.burn_ins = made.get("burn_ins", [])
    called.alone = bool(made.get("alone", False))
    called.holds_states = bool(made.get("holds_states", False))
    called.time_dim = made.get("time_dim")
    called.beside = made.get("beside", [])
    called.unstepped, called.learning = made.get("unstepped"), made.get("learning", [])
    called.targets = made.get("targets", {})
    if around := made.get("around"):
        place, modes = Place(*around["place"]), Modes(around["recurrent"], _UNSEEN_MODE)
        called.around = [Called(around["module"], place, modes, around["inputs"])]
    return called
