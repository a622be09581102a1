"""``--engine ray``: groups are spread over an existing Ray cluster, one device for each group at a
time.

A group stays on one node, so that what is compared was measured on the same machine in the same
minutes. Ray is an extra: it is imported here, in functions, and nowhere else.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rnncheck.bench.host import Host, Node
from rnncheck.bench.load import Usage
from rnncheck.bench.messages import Command, WorkerAnswer
from rnncheck.bench.process import PATIENCE, AnyWorker, WorkerDied, WorkerTrouble
from rnncheck.bench.worker_slot import GroupOrder, GroupOutcome, PipelineOpening, WorkerSlot
from rnncheck.errors import UserError
from rnncheck.results.environment import current_environment

# Seconds within which a named cluster must be reached; Ray itself tries for minutes. Chosen: a TCP
# connection is made in well under one, and a user who mistyped the address waits for this long.
REACHING = 10.0
# Seconds that ending one worker may take: two waits of ``process.PATIENCE``, the most that it
# takes.
ENDING = 2 * PATIENCE
# Seconds between two looks at whether there is a free place; chosen: a person sees that it goes on.
_LOOK_EVERY = 1.0
TALKS = 2  # calls that an actor takes at once: one that waits for answers, and one that kills


class Stopped(Exception):
    """The sweep ends: no worker is started any more."""


@dataclass(frozen=True)
class NodeShare:
    """What one group takes of a node."""

    cpus: int
    gpus: int = 0

    def fits(self, node: dict[str, float]) -> int:
        """How many groups a node with these resources has room for."""
        rooms = [int(node.get("CPU", 0)) // self.cpus]
        return min([*rooms, *([int(node.get("GPU", 0)) // self.gpus] if self.gpus else [])])


def node_share(
    wanted: str, nodes: Sequence[dict[str, float]], threads: int | None = None
) -> NodeShare:
    """One GPU, or as many cores as torch computes with: ``threads``, or all of a node. ``nodes``
    are the resources of each.

    Raises UserError where the cluster has no such device.
    """
    if ":" in wanted:
        raise UserError(
            f"device: {wanted} names one GPU of this machine, and Ray chooses which it gives",
            hint="write `device: cuda`, or `--set device=cuda`",
        )
    gpus = any(node.get("GPU", 0) >= 1 for node in nodes)
    if wanted == "cuda" and not gpus:
        raise UserError("no node of the Ray cluster offers a GPU, and the spec's device is cuda")
    if gpus and wanted != "cpu":
        return NodeShare(cpus=1, gpus=1)
    cores = [int(node.get("CPU", 0)) for node in nodes if node.get("CPU", 0) >= 1]
    if not cores:
        raise UserError("no node of the Ray cluster offers a CPU")
    return NodeShare(
        cpus=threads or int(os.environ.get("OMP_NUM_THREADS", "").split(",")[0] or min(cores))
    )


class RayEngine:
    """Connected to a cluster from the start. Raises UserError where there is no Ray, no cluster, or
    no device."""

    name = "ray"

    def __init__(self, address: str | None, device: str, threads: int | None) -> None:
        self._ray = _connected(address)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self._device = node_share(device, nodes, threads)
        self._room = sum(self._device.fits(node) for node in nodes)
        if not self._room:
            raise UserError(
                f"no node of the Ray cluster has the {self._device.cpus} cores that one worker"
                " takes",
                hint="set bench.threads to the number of cores that a worker shall compute with",
            )
        self.slots = self._room
        self._seen: Counter[str] = Counter()

    def measure(
        self, orders: Sequence[GroupOrder], opening: PipelineOpening
    ) -> Generator[str | GroupOutcome, None, None]:
        """See ``Engine``. Raises UserError where the spec cannot be built on a node."""
        desk = _Desk(orders)
        slots = [
            _NodeSlot(self._ray, self._device, opening, desk)
            for _ in range(min(self._room, len(orders)))
        ]
        try:
            for slot in slots:
                slot.thread.start()
            for _ in orders:
                yield from self._until_outcome(desk)
        finally:
            desk.stop.set()
            for slot in slots:
                slot.close()
            self._ray.shutdown()

    def _until_outcome(self, desk: _Desk) -> Iterator[str | GroupOutcome]:
        while True:
            found = desk.said.get()
            if isinstance(found, Exception):
                raise found
            if isinstance(found, GroupOutcome):
                self._seen.update(result.node for result in found.results)
                yield found
                return
            yield found

    def last_words(self) -> Iterator[str]:
        """On which nodes, and that the run's environment is that of this machine."""
        if self._seen:
            said = ", ".join(f"{count} on {node}" for node, count in sorted(self._seen.items()))
            yield (
                f"cells measured on a Ray cluster: {said}; the environment of the run is the"
                " driver's"
            )


class _Desk:
    """Where slots take their orders and leave what they have to say."""

    def __init__(self, orders: Sequence[GroupOrder]) -> None:
        self.orders: queue.SimpleQueue[GroupOrder] = queue.SimpleQueue()
        for order in orders:
            self.orders.put(order)
        self.said: queue.SimpleQueue[str | GroupOutcome | Exception] = queue.SimpleQueue()
        self.stop = threading.Event()

    def check(self) -> None:
        """Raises Stopped."""
        if self.stop.is_set():
            raise Stopped


class _NodeSlot:
    """A thread with a place on the cluster: an actor on a node, and the slot of its workers."""

    def __init__(self, ray: Any, device: NodeShare, opening: PipelineOpening, desk: _Desk) -> None:
        self._ray, self._device, self._opening, self._desk = ray, device, opening, desk
        self._path = str(Path(opening.spec.path).resolve())
        self._actor: Any = None
        self._node: Node | None = None
        self._slot = WorkerSlot(self._start, self._load)
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        """Orders until none is left; what goes wrong ends the sweep."""
        try:
            self._take_place()
            while True:
                for found in self._slot.measure(self._desk.orders.get_nowait()):
                    self._desk.check()
                    self._desk.said.put(self._placed(found))
        except (Stopped, queue.Empty):
            pass
        except Exception as error:
            self._desk.said.put(error)

    def _placed(self, found: str | GroupOutcome) -> str | GroupOutcome:
        if isinstance(found, str) or self._node is None:
            return found
        return replace(found, results=[replace(one, node=self._node.name) for one in found.results])

    # --- the actor
    # ---------------------------------------------------------------------------------

    def _take_place(self) -> None:
        """Wait until the cluster has room for an actor. Raises UserError where the node cannot take
        part."""
        device = self._device
        kind = self._ray.remote(Host).options(
            num_cpus=device.cpus,
            num_gpus=device.gpus,
            max_concurrency=TALKS,
            scheduling_strategy="SPREAD",
        )
        self._actor = kind.remote(_environment(device), str(Path.cwd()), self._path)
        asked = self._actor.node.remote()
        while not self._ray.wait([asked], timeout=_LOOK_EVERY)[0]:
            self._desk.check()
            self._desk.said.put("waiting for a free place on the Ray cluster")
        try:
            self._node = self._ray.get(asked)
        except self._ray.exceptions.RayError as error:
            raise UserError(
                f"rnncheck cannot be started on a node of the Ray cluster: {_last_line(error)}",
                hint="install it there as it is here, with the same Python",
            ) from error
        check_node(self._node, self._path)

    def _start(self) -> AnyWorker:
        """An opened worker in the actor; where its node is lost, in a new one."""
        self._desk.check()
        try:
            self._ray.get(self._actor.start.remote())
        except self._ray.exceptions.RayActorError:
            self._take_place()
            self._ray.get(self._actor.start.remote())
        worker = RemoteWorker(self._ray, self._actor)
        self._opening.open(worker, self._path)
        return worker

    def _load(self) -> Usage | None:
        with suppress(self._ray.exceptions.RayError):
            found: Usage | None = self._ray.get(self._actor.usage.remote())
            return found
        return None

    def close(self) -> None:
        """End the worker, also one that is still being opened, and give the place back."""
        if self._actor is not None:
            with suppress(self._ray.exceptions.RayError):
                self._ray.get(self._actor.kill.remote(), timeout=ENDING)
            self._ray.kill(self._actor)
        self.thread.join(ENDING)


class RemoteWorker:
    """A worker process behind an actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        self._replies: list[WorkerAnswer | WorkerTrouble] = []

    def send(self, command: Command) -> None:
        """Give a command; that the process died is said by the next ``reply``."""
        self._actor.tell.remote(command)

    def reply(self, timeout: float) -> WorkerAnswer:
        """The next answer, within ``timeout`` seconds.

        Raises WorkerTrouble, also at the node's end.
        """
        if not self._replies:
            self._replies = self._relayed(timeout)
        found = self._replies.pop(0)
        if isinstance(found, WorkerTrouble):
            raise found
        return found

    def _relayed(self, timeout: float) -> list[WorkerAnswer | WorkerTrouble]:
        try:
            found: list[WorkerAnswer | WorkerTrouble] = self._ray.get(
                self._actor.answers.remote(timeout)
            )
        except self._ray.exceptions.RayError as error:
            raise WorkerDied(None, f"the Ray actor: {_last_line(error)}") from error
        return found

    def close(self) -> None:
        """The same as ``kill``: it holds nothing that would have to be kept."""
        self.kill()

    def kill(self) -> None:
        """End the process and all that it started."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.get(self._actor.kill.remote(), timeout=ENDING)


def _connected(address: str | None) -> Any:
    """The ``ray`` module, connected. Raises UserError."""
    try:
        import ray
    except ImportError:
        raise UserError(
            "--engine ray: Ray is not installed",
            hint="pip install 'rnncheck[ray]', or leave --engine out",
        ) from None
    _check_address(address or os.environ.get("RAY_ADDRESS", ""))
    try:
        ray.init(address=address or "auto", log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        raise _no_cluster("none runs on this machine, and none is named") from error
    except (RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _no_cluster(_last_line(error)) from error
    return ray


def _check_address(address: str) -> None:
    """Raises UserError where nothing listens there. ``auto`` and an empty one are left to Ray."""
    if address in ("", "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise _no_cluster(f"{address!r} is no address")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHING).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(f"nothing answers at {address} ({error})") from error


def _no_cluster(why: str) -> UserError:
    return UserError(
        f"--engine ray: there is no Ray cluster to run on: {why}",
        accepted="--ray-address HOST:PORT, RAY_ADDRESS, or a cluster that runs on this machine",
        hint="start one with `ray start --head`",
    )


def _environment(device: NodeShare) -> dict[str, str]:
    """What a worker needs of this process's environment."""
    threads = {} if device.gpus else {"OMP_NUM_THREADS": str(device.cpus)}
    path = os.environ.get("PYTHONPATH")
    return {**threads, **({"PYTHONPATH": path} if path else {})}


def check_node(node: Node, spec: str) -> None:
    """Raises UserError where the node lacks the spec or has other libraries: its times would not
    belong here."""
    if not node.spec:
        raise UserError(
            f"the node {node.name} of the Ray cluster does not see {spec}",
            hint=(
                "the spec and what it imports must lie at the same path on every node: use a shared"
                " file system"
            ),
        )
    here = current_environment().packages
    there = node.environment.packages
    for name in dict.fromkeys([*here, *there]):
        if here.get(name) != there.get(name):
            raise UserError(
                f"the node {node.name} of the Ray cluster has {name} {there.get(name, 'nowhere')}, "
                f"this machine {here.get(name, 'none')}",
                hint="one sweep is one set of versions: install the same on every node",
            )


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
