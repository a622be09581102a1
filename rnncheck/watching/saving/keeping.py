"""What was seen of a script to a file."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck import __version__
from rnncheck.pipeline.guard.user_frames import is_user_file, sentence
from rnncheck.results.model import NOT_KEPT, Stage, StageResult
from rnncheck.spec.model import Spec
from rnncheck.watching.forms.in_form import innermost_pass, lines_ahead
from rnncheck.watching.forms.structures import leaves_in
from rnncheck.watching.saving.archive import SavedPart, SavedRun, write_saved
from rnncheck.watching.saving.encoding import Encoder
from rnncheck.watching.saving.env_forms import maker_form
from rnncheck.watching.saving.import_paths import CannotKeep, Home
from rnncheck.watching.seen import Acting, Called, Sightings
from rnncheck.watching.stepped import learning_names, unstepped_names
from rnncheck.watching.words import not_judged

# Of a collector: what the checks ask of it beside its class.
COLLECTOR = (
    *("init_random_frames", "requested_frames_per_batch", "extend_buffer"),
    "_auto_register_policy_transforms",
)
_LONGEST = 2000  # characters of what a script said when it ended


class RunKeeping:
    """Keeps one run; ``lost`` is what of it could not be, by stage."""

    def __init__(self, seen: Sightings, home: Home) -> None:
        self._seen, self._home = seen, home
        self._encoder = Encoder(home, seen.makings)
        self.lost: dict[str, str] = {}

    def write(
        self, path: Path, asked: Spec, train: StageResult, beside: Path | None = None
    ) -> None:
        """Keep it at ``path``; what is ``beside`` it lies in that folder, by default its own.
        Raises OutputError where it cannot be written."""
        seen, folder = self._seen, (beside or path.parent).resolve()
        acting = self._acting(seen.actor())
        estimator = seen.estimator()
        losses = [self._loss(one, estimated=bool(estimator)) for one in seen.judged_losses()]
        estimators = [] if estimator is None else [estimator, *seen.other_estimators()]
        saved = SavedRun(
            rnncheck=__version__,
            torchrl=version("torchrl"),
            name=asked.name,
            hash=asked.hash,
            seed=asked.seed,
            device=asked.device,
            module=self._home.name,
            folder=os.path.relpath(self._home.folder, folder),
            sources=self._sources(),
            outcome=str(train.outcome),
            detail=train.detail[:_LONGEST],
            updates=seen.updates,
            backwards=seen.backwards,
            steps=seen.steps,
            env_steps=seen.env_steps,
            recurrent=seen.recurrent,
            layers=seen.layers,
            plain=seen.plain[:_LONGEST],
            unseen=seen.unseen[:_LONGEST],
            unjudged=self._unjudged(),
            with_memory=sorted(self._seen.with_memory),
            acting=acting,
            losses=_there(losses),
            passes=_there(self._loss(one, estimated=False) for one in seen.passes),
            estimators=_there(self._part(Stage.ADVANTAGE, one, _called) for one in estimators),
            transforms=_there(
                self._part(Stage.LOSS, one, _called) for one in seen.transforms if one.inputs
            ),
            lost=self.lost,
            nodes=self._encoder.nodes,
            globals=self._encoder.globals,
        )
        write_saved(saved, bytes(self._encoder.data), path)

    def _acting(self, acting: Acting | None) -> SavedPart | None:
        if acting is None:
            return None
        try:
            make = maker_form(self._encoder, acting.make_env)
        except Exception as error:  # a function of the user's may raise anything
            self.lost[Stage.ENV] = f"the env {NOT_KEPT}{_short(error)}"
            return None
        return self._part(
            Stage.POLICY, acting, lambda one: {**_acted(one), "make_env": _Form(make)}
        )

    def _loss(self, loss: Called, *, estimated: bool) -> SavedPart | None:
        acting = self._seen.actor()
        around = None if acting is None or estimated else lines_ahead(acting, loss)
        told = {
            "unstepped": unstepped_names(self._seen, loss),
            "learning": learning_names(self._seen, loss),
            "targets": loss.targets,
        }
        return self._part(Stage.LOSS, loss, lambda one: _called(one, around) | told)

    def _part(
        self, stage: Stage, one: Any, told: Callable[[Any], dict[str, Any]]
    ) -> SavedPart | None:
        encoder = self._encoder
        try:
            parts = {
                name: value.form if isinstance(value, _Form) else encoder.whole(value)
                for name, value in told(one).items()
            }
            parts |= {"networks": encoder.whole(self._networks(one))}
        except Exception as error:  # a tensordict of the user's may raise anything
            self.lost[stage] = f"the {stage} {NOT_KEPT}{_short(error)}"
            return None
        return SavedPart(path=one.place.path, line=one.place.line, form=parts)

    def _unjudged(self) -> dict[str, str]:
        judged = self._seen.judged_losses()
        others = [one for one in self._seen.losses if one not in judged]
        return self._seen.unjudged | {str(one.place): not_judged(one) for one in others}

    def _networks(self, one: Any) -> dict[str, Any]:
        return self._seen.networks_of(one.module) if isinstance(one, Called) else {}

    def _sources(self) -> dict[str, str]:
        """The modules that are named, and what they were."""
        found = {}
        for name in sorted(self._encoder.modules):
            main = name == self._home.name
            module = sys.modules["__main__"] if main else sys.modules.get(name)
            file = getattr(module, "__file__", None) or ""
            if is_user_file(file):
                found[name] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        return found


def _short(error: Exception) -> str:
    return str(error) if isinstance(error, CannotKeep) else sentence(error)


class _Form:
    """What has its form already."""

    def __init__(self, form: Any) -> None:
        self.form = form


def _acted(acting: Acting) -> dict[str, Any]:
    modes = acting.modes
    collector = acting.collector
    held = {name: getattr(collector, name, None) for name in COLLECTOR}
    plain = {k: v for k, v in held.items() if isinstance(v, (bool, int, type(None)))}
    return {
        "kind": acting.kind,
        "policy": acting.policy,
        "collector": None if collector is None else [type(collector).__name__, plain],
        "recurrent": None if modes is None else modes.recurrent,
        "batches": [_tensors(one) for one in acting.batches],
        "further": [_tensors(one) for one in acting.further],
        "openings": [_tensors(one) for one in acting.openings],
        "joins": [_tensors(one) for one in acting.joins],
        "disturbed": acting.disturbed,
        "apart": acting.apart,
        "left": acting.left,
        "untrained": acting.untrained,
        "anew": acting.anew,
        "never_reset": acting.never_reset,
        "forgets": acting.forgets,
        "counted": acting.counted,
        "ends_by": str(acting.ends_by),
        "shows_starts": acting.shows_starts,
        "switches": acting.switches,
        "shown": [list(one) for one in acting.shown.items()],
        "random": acting.random,
        "parts": acting.parts,
        "writes": acting.writes,
    }


def _called(called: Called, around: Called | None = None) -> dict[str, Any]:
    return {
        "module": called.module,
        "recurrent": called.modes.recurrent,
        "inputs": [_tensors(one) for one in called.inputs],
        "switches": called.switches,
        "own": called.own is not None,
        "batch": called.batch,
        "itself": called.itself,
        "passed": [_tensors(one) for one in called.passed],
        "burn_ins": [_tensors(one) for one in called.burn_ins],
        "over": innermost_pass(called.over),
        "alone": called.alone,
        "holds_states": called.holds_states,
        "time_dim": called.time_dim,
        "beside": [_states(one) for one in called.beside],
        "around": _around(around),
    }


def _states(given: dict[str, Any]) -> dict[str, Any]:
    """Those of the arguments that are made of tensors alone."""
    return {
        name: value
        for name, value in given.items()
        if all(isinstance(one, Tensor) for _, one in leaves_in(value))
    }


def _around(called: Called | None) -> dict[str, Any] | None:
    """The lines of the script around the function that is the loss."""
    if called is None:
        return None
    place = [called.place.path, called.place.line]
    recurrent = called.modes.recurrent
    inputs = [_tensors(one) for one in called.inputs]
    return {"module": called.module, "place": place, "recurrent": recurrent, "inputs": inputs}


def _tensors(batch: TensorDictBase) -> TensorDictBase:
    """Without texts and the like: nothing of them is judged."""
    plain = batch.to_tensordict()
    return plain.select(*(k for k, v in plain.items(True, True) if isinstance(v, Tensor)))


def _there(found: Iterable[SavedPart | None]) -> list[SavedPart]:
    return [one for one in found if one is not None]
