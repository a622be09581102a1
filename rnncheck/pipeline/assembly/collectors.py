"""Collection: the spec's collector, or the user's own, and the batches that it gives."""

from __future__ import annotations

import gc
import itertools
import re
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from rnncheck.errors import ComponentError, StageError
from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.assembly.env_maker import build_any
from rnncheck.pipeline.assembly.factories import Offered, call_factory, load_factory, wrong_type
from rnncheck.pipeline.assembly.more_batches import MOST_ROUNDS
from rnncheck.pipeline.assembly.needs import refuse_workers
from rnncheck.pipeline.assembly.values import convert_arguments
from rnncheck.pipeline.guard.calling import running, stage_error
from rnncheck.pipeline.guard.user_frames import Trouble, describe_trouble, passed_through
from rnncheck.spec.model import Component, Spec

BATCHES = 2  # where the spec does not say how many: the fewest that have a join to look at
POLL = 0.02  # seconds between two looks at a buffer that is filled in the background: lost at most
WORKERS = 2  # where the spec does not say how many: the fewest that can differ from each other
OWN_ARGUMENTS = ("batches", "workers", "background")
BUFFER_ARGUMENT = "replay_buffer"
# Objects that are looked at in each holder of others, and how many holders deep. Chosen: an object
# around a generator is object, dict, generator, collector; large containers cost MOST_HELD at each.
MOST_HELD, DEEPEST = 64, 4
HOLDERS = (tuple, list, dict, types.MethodType, types.FrameType)
ITERABLE = "an iterable of tensordicts (a Collector, a generator, a list) or one tensordict"
_WORKER_TRACEBACK = re.compile(r"\n\s*Worker traceback")
FROM_WORKER = re.compile(r"\n\s*Worker traceback|\bWorker \d+ failed")
# files that are on the stack only while a policy or an env runs
RUNNING = ("torch/nn/modules/module.py", "tensordict/nn/", "torchrl/envs/")
MISSING_TRANSFORMS = "missing transforms required by the policy"


@dataclass(frozen=True)
class Sources:
    """What a collector steps: ``ready`` is an env or its maker, for a single process; ``make`` one
    for each worker."""

    ready: EnvBase | Callable[[], EnvBase]
    make: Callable[[], EnvBase]
    device: torch.device


def open_collector(spec: Spec, component: Component, offered: Offered, sources: Sources) -> Any:
    """The collector that the spec names, or the one that its factory returns.

    ``replay_buffer: true`` hands over the spec's replay buffer, as does a factory that declares
    ``replay_buffer``.
    """
    if component.factory is None:
        return _torchrl_collector(spec, component, offered, sources)
    plain = component.model_copy(update={"args": _without_ours(spec, component)})
    made = call_factory(spec, plain, offered)
    if isinstance(made, TensorDictBase) or _is_batches(made):
        return made
    raise wrong_type(spec, component, made, ITERABLE)


def declares_buffer(spec: Spec, component: Component) -> bool:
    """Whether the spec's replay buffer is handed to the collector."""
    if component.factory is None:
        return component.args.get(BUFFER_ARGUMENT) is True
    return BUFFER_ARGUMENT in c.accepts(load_factory(spec, component)).names


@contextmanager
def opening() -> Iterator[None]:
    """Collectors run a first step while they are built: what the policy or env raises there is no
    one's typing mistake but the stage's outcome."""
    try:
        yield
    except ComponentError as error:
        if FROM_WORKER.search(error.message):
            raise _in_worker(error) from error
        if error.__cause__ is None or not passed_through(error.__cause__, RUNNING):
            raise
        raise stage_error("collect", describe_trouble(error.__cause__)) from error


def _in_worker(error: ComponentError) -> StageError:
    """A worker process failed while it started: TorchRL hands its error on with its whole traceback
    as text."""
    said = _WORKER_TRACEBACK.split(error.message)[0].strip()
    message, _, frames = said.partition("\n")
    return stage_error("collect", Trouble(message, error.place, frames.rstrip()))


def _is_batches(made: Any) -> bool:
    return isinstance(made, Iterable) and not isinstance(made, (str, bytes, dict))


def _without_ours(spec: Spec, component: Component) -> dict[str, Any]:
    """``batches`` is for rnncheck, unless the factory declares it itself."""
    declared = c.accepts(load_factory(spec, component)).names
    return {k: v for k, v in component.args.items() if k != "batches" or k in declared}


def _torchrl_collector(spec: Spec, component: Component, offered: Offered, sources: Sources) -> Any:
    target = _collector_class(spec, component)
    several = target.__name__ in c.MULTI_PROCESS
    count = _worker_count(spec, component) if several else 0
    wired: dict[str, Any] = {
        "create_env_fn": [sources.make] * count if several else sources.ready,
        "policy": offered["policy"](),
    }
    if component.args.get(BUFFER_ARGUMENT) is True:
        wired[BUFFER_ARGUMENT] = offered[BUFFER_ARGUMENT]()
    args = _collector_arguments(spec, component, target, wired, sources.device)
    made = c.construct(spec, _plain(component, wired), target, {**wired, **args})
    if (
        several
    ):  # every worker has built the env with the spec's seed; as users do, each gets its own
        with suppress(Exception):
            made.set_seed(spec.seed)
    return made


def _plain(component: Component, wired: Iterable[str]) -> Component:
    """The component with the arguments that are the class's own."""
    return component.model_copy(update={"args": _without(component.args, (*OWN_ARGUMENTS, *wired))})


def _collector_class(spec: Spec, component: Component) -> type:
    at = (*component.at, "use")
    target = c.find_class(spec, component.use or "", c.COLLECTOR, at)
    known = (*c.SINGLE_PROCESS, *c.MULTI_PROCESS)
    if target.__name__ not in known:
        raise c.bad_value(spec, at, component.use, "a collector that rnncheck runs", known)
    return target


def _worker_count(spec: Spec, component: Component) -> int:
    count = component.args.get("workers", WORKERS)
    if isinstance(count, int) and not isinstance(count, bool) and count > 0:
        refuse_workers(spec, (*component.at, "workers"), count)
        return count
    raise c.bad_value(spec, (*component.at, "workers"), count, "a whole number of at least 1")


def _collector_arguments(
    spec: Spec, component: Component, target: type, wired: dict[str, Any], device: torch.device
) -> dict[str, Any]:
    several = target.__name__ in c.MULTI_PROCESS
    ours = OWN_ARGUMENTS if several else tuple(name for name in OWN_ARGUMENTS if name != "workers")
    if "workers" in component.args and not several:
        raise ComponentError(
            f"{component.use} takes no argument 'workers'",
            place=spec.locate((*component.at, "workers")),
            hint="for several processes: MultiSyncCollector or MultiAsyncCollector; "
            "for several envs in one process: `workers` of the env",
        )
    c.check_arguments(spec, component, target, component.args, provided=wired, also=ours)
    if "frames_per_batch" not in component.args:
        raise ComponentError(
            f"{component.use} needs 'frames_per_batch'", place=spec.locate(component.at)
        )
    plain = _plain(component, wired)
    args = convert_arguments(spec, plain, lambda inner: build_any(spec, inner))
    _set_total_frames(spec, component, args)
    if device.type != "cpu":
        args.setdefault("device", device)
    return args


def _set_total_frames(spec: Spec, component: Component, args: dict[str, Any]) -> None:
    frames = args["frames_per_batch"]
    if not isinstance(frames, int) or isinstance(frames, bool) or frames < 1:
        at = (*component.at, "frames_per_batch")
        raise c.bad_value(spec, at, frames, "a whole number of at least 1")
    # a sampler that can draw nothing yet is given more; a collector that writes itself stops where
    # it is told to
    rounds = MOST_ROUNDS if spec.replay is not None and BUFFER_ARGUMENT not in component.args else 1
    warm_up = args.get("init_random_frames") or 0
    random = -(-warm_up // frames) if isinstance(warm_up, int) else 0
    args.setdefault("total_frames", frames * (wanted_batches(spec, component) * rounds + random))


def _without(args: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in args.items() if key not in names}


def wanted_batches(spec: Spec, component: Component) -> int:
    """How many batches to take at most."""
    count = component.args.get("batches", BATCHES)
    if isinstance(count, int) and not isinstance(count, bool) and count > 0:
        return count
    raise c.bad_value(spec, (*component.at, "batches"), count, "a whole number of at least 1")


def stream_of(collector: Any) -> Any:
    """The collector's iterator, which can be taken up again; one tensordict stays what it is."""
    if isinstance(collector, TensorDictBase):
        return collector
    with running("collect"):
        return iter(collector)


def draw(collector: Any, limit: int, *, into_buffer: bool = False) -> Iterator[TensorDictBase]:
    """At most ``limit`` batches, each a copy of its own: collectors write into the same memory
    again.

    A collector that writes ``into_buffer`` gives None instead of each of them, which is left out.
    """
    if isinstance(collector, TensorDictBase):
        yield collector.detach().clone()
        return
    count = 0
    for batch in itertools.islice(iter(collector), limit):
        count += 1
        if batch is not None or not into_buffer:
            yield _copied(batch)
    if count == 0:
        raise StageError("collect", "the collector gave no batch")


def _copied(batch: Any) -> TensorDictBase:
    if isinstance(batch, TensorDictBase):
        return batch.detach().clone()
    kind = "None" if batch is None else f"an object of type {type(batch).__name__}"
    because = "; with a replay_buffer it gives none" if batch is None else ""
    raise StageError("collect", f"the collector gave {kind} instead of a tensordict{because}")


def collect(
    collector: Any, limit: int, batches: list[TensorDictBase], *, into_buffer: bool = False
) -> Any:
    """Run the collector into ``batches``, which keeps what was there before something goes wrong.

    Returns TorchRL's collector that is at work inside a generator of the user's, None where there
    is none.
    """
    inner = None
    with running("collect"):
        for batch in draw(collector, limit, into_buffer=into_buffer):
            batches.append(batch)
            if inner is None:  # one without an end has no length, and so no truth
                inner = collector_within(collector)
    return inner


def collector_within(made: Any, depth: int = DEEPEST) -> Any:
    """TorchRL's collector that an iterator, an object around it or a chain of those holds."""
    if isinstance(made, c.COLLECTOR.base_class()):
        return made
    if not depth or not (isinstance(made, HOLDERS) or hasattr(type(made), "__next__")):
        return None
    held = itertools.islice(gc.get_referents(made), MOST_HELD)
    found = (collector_within(one, depth - 1) for one in held)
    return next((one for one in found if one is not None), None)


def starts_in_background(spec: Spec, component: Component) -> bool:
    """Whether ``background: true`` is said: ``collector.start()`` instead of a loop over it."""
    chosen = component.args.get("background", False)
    if component.factory is not None or chosen is False:
        return False
    if chosen is not True or component.args.get(BUFFER_ARGUMENT) is not True:
        raise ComponentError(
            f"background: {chosen} needs a collector that writes into the replay buffer",
            place=spec.locate((*component.at, "background")),
            accepted="background: true with replay_buffer: true",
        )
    return True


def run_in_background(collector: Any, buffer: Any, frames: int) -> None:
    """Start the collector and wait until it has written ``frames``."""
    caught: list[threading.ExceptHookArgs] = []
    before, threading.excepthook = threading.excepthook, caught.append
    try:
        with running("collect"):
            collector.start()
            _await(collector, buffer, frames)
            if caught and caught[0].exc_value is not None:
                raise caught[0].exc_value
    finally:
        threading.excepthook = before
        with suppress(Exception):
            collector.async_shutdown()


def _await(collector: Any, buffer: Any, frames: int) -> None:
    thread = getattr(collector, "_thread", None)
    workers = getattr(collector, "procs", ())
    while buffer.write_count < frames:
        if thread is not None and not thread.is_alive():
            break
        ended = [worker.exitcode for worker in workers if not worker.is_alive()]
        if ended:
            raise RuntimeError(f"a worker process ended (exit code {ended[0]})")
        time.sleep(POLL)


def acting_env(collector: Any) -> EnvBase | None:
    """The env that the collector really steps."""
    env = getattr(collector, "env", None)
    return env if isinstance(env, EnvBase) else None


def transform_advice(caught: Iterable[warnings.WarningMessage]) -> list[str]:
    """The warnings that are about the pipeline; all others are TorchRL talking to itself."""
    texts = [str(one.message) for one in caught if MISSING_TRANSFORMS in str(one.message)]
    return [" ".join(text.split()) for text in dict.fromkeys(texts)]
