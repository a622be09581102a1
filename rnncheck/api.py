"""``rnncheck.verify`` and ``rnncheck.memory``: the checks, and what a policy remembers, from a
notebook or a test, on live objects or on a spec file."""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncheck.errors import Place, UserError
from rnncheck.notebook import ShownRun, in_notebook

if TYPE_CHECKING:
    from pydantic import ValidationError

    from rnncheck.checks.rule import Rule
    from rnncheck.results.events import Event
    from rnncheck.spec.model import Spec

_HERE = Path(__file__).parent


def verify(
    spec: str | PathLike[str] | None = None,
    *,
    policy: Any = None,
    env: Any = None,
    critic: Any = None,
    training_pass: Any = None,
    collector: Any = None,
    batches: Any = None,
    replay: Any = None,
    batch: Any = None,
    advantage: Any = None,
    loss: Any = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    strict: bool = False,
    thorough: bool = False,
    fast: bool = False,
    seed: int | None = None,
    device: str = "cpu",
    steps: int = 32,
    timeout: float = 120.0,
    backends: Sequence[str] = (),
    overrides: Sequence[str] = (),
    name: str = "",
    cases: float | None = None,
    pictures: bool | None = None,
    progress: bool | None = None,
) -> ShownRun:
    """Run the checks on a pipeline and return the Run.

    Args:
        spec: a spec file. It stands alone: give either a spec or the parts.
        policy, env, critic, replay, advantage, loss: the parts, each the object itself or a
            function that makes it. A function gets what it declares by name, as a spec's factory
            does: ``make_policy(env)``, ``make_loss(policy, critic)``. Copies of these are run,
            which share what they share; the objects themselves stay as they are, an env object is
            neither stepped nor closed. ``advantage`` as a function makes the estimator. A ``loss``
            with one parameter more, ``loss(batch)`` or ``loss(policy, batch)``, or marked with
            ``@rnncheck.loss``, is the loss itself: it returns losses, or calls ``backward``.
        training_pass: what your loop calls on training sequences, where that is not the policy in
            recurrent mode: a function ``(batch)`` or ``(policy, batch)`` that returns a tensordict
            or a dict of what the policy writes.
        collector: a TorchRL collector, which is run and used up, or a function
            ``(create_env_fn, policy)`` that makes one. Without it, and without ``batches``, a
            ``Collector`` takes two batches; ``False`` collects nothing.
        batches: collected tensordicts, instead of a collector.
        batch: a function ``(data)`` that makes the training batch out of collected data.
        select, ignore: beginnings of check codes.
        strict, thorough: warnings fail too; more cases, more time.
        fast: leave the dear checks out and give the others 10 s; ``run.left_out`` says which.
        seed: of the run; the process's own random numbers stay as they were.
        device: where the parts run, as in a spec.
        steps, timeout: length of the batches that the checks build; seconds that one stage may
            take.
        backends: variants of LSTMModule and GRUModule to prove equal, ``all`` or e.g. ``pad``,
            ``scan-recompute``.
        overrides: ``KEY=VALUE`` texts for a spec file.
        name: of the pipeline, in messages.
        cases: store a case of each cause for ``rnncheck replay``, of a spec file the smallest, and
            search for it so many seconds; 0 stores none. None takes ``RNNCHECK_CASES``, or 10.
        pictures: collect what the report draws, which takes up to half a minute; None does so in a
            notebook.
        progress: tell on standard error what is done; None does so in a notebook.

    Raises:
        UserError: a part is missing, of a wrong type, or a function raised.

    A notebook shows the run as the HTML report; ``run.show()`` and ``run.save("report.html")`` do
    so anywhere. ``run.raise_for_findings()`` turns what was found into an exception.

    All of it runs in this process. What the pipeline's code raises, SystemExit and
    KeyboardInterrupt too, is an error of its stage or check; where it ends the process itself
    (``os._exit``, a crash in C) or swallows the time limit's interruption, no caller can be told:
    the command ``rnncheck verify`` can.
    """
    parts = {
        "policy": policy, "env": env, "critic": critic,
        "training_pass": training_pass, "collect": _collect(collector, batches),
        "replay": replay, "batch": batch, "advantage": advantage, "loss": loss,
    }  # fmt: skip
    _import_rich()
    texts = [*overrides, *_asked(backends), *([] if seed is None else [f"seed={seed}"])]
    if spec is not None:
        loaded = _from_file(spec, parts, texts)
    else:
        settings = {"steps": steps, "timeout": float(timeout), "backends": tuple(backends)}
        loaded = _from_parts(parts, settings, _caller(), seed or 0, device, name or "pipeline")
    here = in_notebook()
    asked = _Asked(
        strict=strict,
        thorough=thorough,
        fast=fast,
        pictures=here if pictures is None else pictures,
        progress=here if progress is None else progress,
        cases=0.0 if fast else _seconds_for_cases() if cases is None else cases,
    )
    kept = None if spec is not None else {k: v for k, v in parts.items() if v is not None}
    return _run(loaded, select, ignore, asked, _Origin(tuple(texts), kept))


def memory(
    spec: str | PathLike[str] | None = None,
    *,
    policy: Any = None,
    env: Any = None,
    critic: Any = None,
    weights: str | PathLike[str] | None = None,
    older: str | PathLike[str] | None = None,
    seed: int | None = None,
    device: str = "cpu",
    overrides: Sequence[str] = (),
    name: str = "",
    **settings: float,
) -> ShownRun:
    """Measure what a policy remembers and return the Run; the answers are in ``run.memory``.

    Args:
        spec: a spec file. It stands alone: give either a spec or policy and env.
        policy, env: the object itself, of which a copy is played, or a function that makes it, as
            for ``verify``; critic: whose values are measured beside it, where it has a state.
        weights, older: of a spec, as ``--weights`` and ``--older``.
        seed, device, overrides, name: as for ``verify``.
        settings: of the spec's ``memory`` section: ``recorded``, ``episodes``, ``steps``, ``lags``
            and ``share``.

    Raises:
        UserError: a part is missing, of a wrong type, or a function raised.
    """
    from rnncheck.recall.run import MemoryStudy
    from rnncheck.results.collect import RunCollector

    begin, listener = time.perf_counter(), RunCollector()
    if spec is None:
        parts = {"policy": policy, "env": env, "critic": critic, "collect": False}
        loaded = _players(parts, settings, _caller(), seed or 0, device, name or "policy")
        study = MemoryStudy(loaded)
    else:
        given = {"policy": policy, "env": env, "critic": critic}
        texts = [*overrides, *(f"memory.{key}={value}" for key, value in settings.items())]
        texts += [] if seed is None else [f"seed={seed}"]
        before = None if older is None else _from_file(spec, {}, [*texts, _weights(older)])
        with_ = [] if weights is None else [_weights(weights)]
        study = MemoryStudy(_from_file(spec, given, [*texts, *with_]), before)
    with closing(study.events()) as events:
        for event in events:
            listener(event)
    seconds = time.perf_counter() - begin
    return ShownRun.of(listener.finish(interrupted=False, seconds=seconds))


def _weights(path: str | PathLike[str]) -> str:
    """The override that names a file of weights."""
    return f"policy.weights={json.dumps(str(Path(path).absolute()))}"


def _players(
    parts: dict[str, Any],
    settings: dict[str, float],
    place: Place,
    seed: int,
    device: str,
    name: str,
) -> Spec:
    from pydantic import ValidationError

    from rnncheck.spec.settings import MemorySpec

    if missing := [section for section in ("policy", "env") if parts[section] is None]:
        raise UserError(f"memory() needs a spec, or {missing[0]}=...", place=place)
    try:
        asked = MemorySpec.model_validate(settings)
    except ValidationError as error:
        raise _not_settings("memory", error, place) from None
    spec = _from_parts(parts, {}, place, seed, device, name)
    return spec.model_copy(update={"memory": asked})


def _not_settings(function: str, error: ValidationError, place: Place) -> UserError:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return UserError(f"{function}(): {where}: {first['msg']}", place=place)


def _asked(backends: Sequence[str]) -> list[str]:
    return [f"verify.backends=[{', '.join(backends)}]"] if backends else []


def _collect(collector: Any, batches: Any) -> Any:
    if collector is not None and batches is not None:
        raise UserError("verify() takes collector=... or batches=..., not both")
    return collector if batches is None else batches


def _from_file(path: str | PathLike[str], parts: dict[str, Any], overrides: Sequence[str]) -> Spec:
    from rnncheck.spec.load import load_spec

    given = [name for name, part in parts.items() if part is not None]
    if given:
        hint = "leave spec out, or name them in it as factories"
        raise UserError(f"give a spec or {given[0]}=..., not both", hint=hint)
    return load_spec(Path(path), overrides)


def _from_parts(
    parts: dict[str, Any], settings: dict[str, Any], place: Place, seed: int, device: str, name: str
) -> Spec:
    from pydantic import ValidationError

    from rnncheck.pipeline.assembly.live import spec_of
    from rnncheck.spec.settings import VerifySpec

    try:
        return spec_of(
            parts, name=name, seed=seed, device=device, verify=VerifySpec(**settings), place=place
        )
    except ValidationError as error:
        raise _not_settings("verify", error, place) from None


def _caller() -> Place:
    """The line that called ``verify``, also through the fixture of the pytest plugin."""
    frame = sys._getframe(2)
    while Path(frame.f_code.co_filename).parent == _HERE and frame.f_back is not None:
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)


def _import_rich() -> None:
    """It draws one of Python's random numbers when it is imported: the caller's are put back."""
    held = random.getstate()
    import rich.style  # noqa: F401

    random.setstate(held)


@dataclass(frozen=True)
class _Asked:
    """How a verification is run, and what is shown of it."""

    strict: bool
    thorough: bool
    fast: bool
    pictures: bool
    progress: bool
    cases: float  # s; 0 stores none


@dataclass(frozen=True)
class _Origin:
    """What a spec was made of: of a file with these overrides, or of live parts."""

    overrides: tuple[str, ...]
    parts: dict[str, Any] | None


def _seconds_for_cases() -> float:
    """As the commands take it. Raises UserError."""
    told = os.environ.get("RNNCHECK_CASES", "10")
    try:
        seconds = float(told)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        said = f"RNNCHECK_CASES is {told!r:.40}"
        raise UserError(said, accepted="seconds, or 0 where no case is to be stored")
    return seconds


def _run(
    spec: Spec, select: Sequence[str], ignore: Sequence[str], asked: _Asked, origin: _Origin
) -> ShownRun:
    from rnncheck.checks.engine.select import select_rules
    from rnncheck.checks.engine.session import verify_events
    from rnncheck.exhibits.collect import Illustration
    from rnncheck.report.progress import ConsoleProgress
    from rnncheck.report.terminal import console_for
    from rnncheck.results.collect import RunCollector

    wanted, begin = spec.verify, time.perf_counter()
    rules = select_rules(spec, list(select) or wanted.select, [*wanted.ignore, *ignore])
    listener = RunCollector()
    events = verify_events(
        spec,
        rules,
        thorough=asked.thorough,
        strict=asked.strict or wanted.strict,
        fast=asked.fast,
        illustrate=Illustration(asked.pictures),
    )
    with ExitStack() as scope:
        scope.enter_context(closing(events))
        told = _with_cases(events, spec, rules, asked, origin) if asked.cases else events
        heard: list[Callable[[Event], None]] = [listener]
        if asked.progress:
            heard.append(scope.enter_context(ConsoleProgress(console_for(sys.stderr))))
        for event in told:
            for one in heard:
                one(event)
    run = listener.finish(interrupted=False, seconds=time.perf_counter() - begin)
    return ShownRun.of(run)


def _with_cases(
    events: Iterator[Event], spec: Spec, rules: Sequence[Rule], asked: _Asked, origin: _Origin
) -> Iterator[Event]:
    """The events, then what is stored."""
    strict = asked.strict or spec.verify.strict
    if origin.parts is not None:
        from rnncheck.cases.parts import PartsKeeping

        return PartsKeeping(spec, origin.parts, rules, asked.thorough, strict).events(events)
    from rnncheck.cases.keep import Keeping

    given, seconds = origin.overrides, asked.cases
    return Keeping(spec, rules, given, asked.thorough, strict, seconds).events(events)
