"""What runs on a node of a Ray cluster: a worker process, and an actor that hands its words on.

This module imports no Ray: the driver turns ``Host`` into an actor. Commands are relayed by the
round, so that the way to the driver costs once for all samples of a round; the samples are timed in
the worker process.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rnncheck.bench.load import Usage, usage
from rnncheck.bench.messages import Command, SampleBegun, SampleTaken, WorkerAnswer
from rnncheck.bench.process import WorkerDied, WorkerProcess, WorkerTrouble
from rnncheck.results.environment import current_environment
from rnncheck.results.model import Environment


@dataclass(frozen=True)
class Node:
    """A machine of the cluster, and whether the spec's file can be read there."""

    name: str
    environment: Environment
    spec: bool


class Host:
    """One worker process at a time. ``environment`` is added to the node's own, for the workers
    too."""

    def __init__(self, environment: dict[str, str], folder: str, spec: str) -> None:
        os.environ.update(environment)
        self._folder = Path(folder) if Path(folder).is_dir() else None
        self._spec = spec
        self._process: WorkerProcess | None = None

    def node(self) -> Node:
        """Where this is."""
        return Node(socket.gethostname(), current_environment(), Path(self._spec).is_file())

    def usage(self) -> Usage | None:
        """The node's counters."""
        return usage()

    def start(self) -> None:
        """A fresh process; the one before it ends."""
        self.kill()
        self._process = WorkerProcess(folder=self._folder)

    def tell(self, command: Command) -> None:
        """Give a command. That the process died is said by the next ``answers``."""
        assert self._process is not None
        with suppress(WorkerDied):
            self._process.send(command)

    def answers(self, timeout: float) -> list[WorkerAnswer | WorkerTrouble]:
        """Answers up to the last of a command; each may take ``timeout`` seconds."""
        assert self._process is not None
        found = [self._answer(self._process, timeout)]
        while isinstance(found[-1], SampleBegun | SampleTaken):  # another one follows
            found.append(self._answer(self._process, timeout))
        return found

    @staticmethod
    def _answer(process: WorkerProcess, timeout: float) -> WorkerAnswer | WorkerTrouble:
        try:
            return process.reply(timeout)
        except WorkerTrouble as trouble:
            return trouble

    def kill(self) -> None:
        """End the process and all that it started."""
        if self._process is not None:
            self._process.kill()
