"""What a worker process is asked and what it answers, as files of tensors and plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rnncheck.pipeline.backends.case import Case
from rnncheck.pipeline.backends.facts import Facts, new_module, rnn_parameters
from rnncheck.pipeline.backends.trial import Refused, TrialOutcome, run_trial
from rnncheck.results.variant import Variant

TrialAnswer = TrialOutcome | Refused
REQUEST = "request.pt"
FAILED = "failed.txt"  # why the worker could do nothing at all


@dataclass(frozen=True)
class Job:
    """One variant of a stock module with these weights, on one case. ``tiled`` is the path of large
    hidden sizes."""

    facts: Facts
    variant: Variant
    weights: Mapping[str, Tensor]
    case: Case
    tiled: bool = False

    def module(self) -> nn.Module:
        """A stock module with the weights, on the pad backend."""
        plain = Variant(dtype=self.variant.dtype)
        made = new_module(self.facts, plain)
        with torch.no_grad():
            for name, parameter in rnn_parameters(made).items():
                parameter.copy_(self.weights[name])
        return made

    def run(self, device: str = "cpu") -> TrialAnswer:
        """The outcome, or what it raised."""
        try:
            return run_trial(self.module(), self.variant, self.case, device=device)
        except Refused as error:
            return error


@dataclass(frozen=True)
class Request:
    """All jobs of one worker, and the modules that the user's process has imported:
    ``(folder, name)``."""

    jobs: list[Job]
    interpret: bool
    imports: tuple[tuple[str, str], ...] = ()

    def save(self, folder: Path) -> None:
        """Write it where the worker looks."""
        plain = {
            "interpret": self.interpret,
            "imports": [list(pair) for pair in self.imports],
            "jobs": [_plain(job) for job in self.jobs],
        }
        torch.save(plain, folder / REQUEST)

    @classmethod
    def load(cls, folder: Path) -> Request:
        """Read it back."""
        plain = torch.load(folder / REQUEST, weights_only=True)
        imports = tuple((str(where), str(name)) for where, name in plain["imports"])
        return cls([_job(each) for each in plain["jobs"]], plain["interpret"], imports)


def _plain(job: Job) -> dict[str, Any]:
    case = {name: getattr(job.case, name) for name in ("name", "inputs", "starts", "kinds")}
    return {
        "facts": asdict(job.facts),
        "variant": asdict(job.variant),
        "weights": {name: value.detach().cpu() for name, value in job.weights.items()},
        "case": case | {"stored": list(job.case.stored), "kinds": list(job.case.kinds)},
        "tiled": job.tiled,
    }


def _job(plain: dict[str, Any]) -> Job:
    case = plain["case"]
    made = Case(**{**case, "stored": tuple(case["stored"]), "kinds": tuple(case["kinds"])})
    return Job(
        Facts(**plain["facts"]), Variant(**plain["variant"]), plain["weights"], made, plain["tiled"]
    )


def answer_file(folder: Path, number: int) -> Path:
    """Where the answer to one job is written."""
    return folder / f"answer-{number}.pt"


def save_answer(answer: TrialAnswer, folder: Path, number: int) -> None:
    """Write an answer so that it is either there as a whole or not at all."""
    plain: dict[str, Any] = (
        {"refused": str(answer)}
        if isinstance(answer, Refused)
        else {"values": answer.values, "gradients": answer.gradients}
    )
    path = answer_file(folder, number)
    torch.save(plain, path.with_suffix(".part"))
    path.with_suffix(".part").rename(path)


def load_answer(folder: Path, number: int) -> TrialAnswer | None:
    """An answer that has been written, or None."""
    path = answer_file(folder, number)
    if not path.exists():
        return None
    plain = torch.load(path, weights_only=True)
    if "refused" in plain:
        return Refused(plain["refused"])
    return TrialOutcome(plain["values"], plain["gradients"])
