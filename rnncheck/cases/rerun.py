"""Building a spec anew and asking one check of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from rnncheck.cases.model import CaseError, Extent, fault_of
from rnncheck.cases.tensors import Inputs
from rnncheck.checks.engine.verification import Verification
from rnncheck.checks.rule import Rule
from rnncheck.errors import Lacking, StageError, UserError, first_line
from rnncheck.pipeline.assembly.factories import importable
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.plant.env_changes import shortened
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import CheckResult, Outcome, Stage
from rnncheck.spec.model import Spec


@dataclass(frozen=True)
class Rerun:
    """What came of it: the check's result on these inputs, or why it could not be asked."""

    result: CheckResult | None = None
    problem: str = ""
    inputs: Inputs = field(default_factory=Inputs)
    extent: Extent = field(default_factory=Extent)
    raised: frozenset[Stage] = frozenset()  # the stages that raised

    @property
    def reason(self) -> str:
        """The reason of its first finding; empty where it did not fail."""
        failed = self.result is not None and self.result.outcome is Outcome.FAILED
        return fault_of(self.result.findings[0]) if failed and self.result is not None else ""


@dataclass(frozen=True)
class OneCheck:
    """How a check is asked again.

    Episodes end after ``episodes`` steps, where that is not 0. What is ``stored`` takes the place
    of the weights and the collected batches that are made, where it fits. No stage may take longer
    than ``seconds``.
    """

    thorough: bool = False
    episodes: int = 0
    stored: Inputs | None = None
    seconds: float | None = None


def asked_again(spec: Spec, rule: Rule, how: OneCheck) -> Rerun:
    """Build ``spec`` and ask ``rule``."""
    plant, hurried = partial(_hooks, how), _hurried(spec, how.seconds)
    try:
        with Verification(hurried, thorough=how.thorough, plant=plant) as verification:
            for _ in verification.build():
                pass
            if not verification.runs:
                return Rerun(problem=_failure(verification))
            result = verification.asked(rule)
            return _concluded(verification, result)
    except Exception as error:  # a factory, a worker or a copy may raise anything
        return Rerun(problem=problem_of(error))


def problem_of(error: Exception) -> str:
    """Why something could not be asked again, in a sentence."""
    if isinstance(error, (UserError, StageError)):
        return error.message
    return error.reason if isinstance(error, Lacking) else first_line(error)


@contextmanager
def importing(home: Path) -> Iterator[None]:
    """Modules of ``home`` and of the working folder can be imported; those of ``home`` are
    forgotten afterwards."""
    path = list(sys.path)
    try:
        with importable(home):
            sys.path.insert(1, str(Path.cwd()))
            yield
    finally:
        sys.path[:] = path


def repeats(ask: Callable[[Inputs | None], Rerun], first: Rerun) -> bool:
    """Whether asking again gives the same as ``first`` to the bit; else what is stored takes the
    place of what is made. Raises CaseError where the check does not fail again even so."""
    again = ask(None)
    if again.reason == first.reason and again.inputs.same_as(first.inputs):
        return True
    if ask(first.inputs).reason != first.reason:
        raise CaseError("it did not fail again when the same was built once more")
    return False


def _hurried(spec: Spec, seconds: float | None) -> Spec:
    if seconds is None or seconds >= spec.verify.timeout:
        return spec
    verify = spec.verify.model_copy(update={"timeout": max(seconds, 1.0)})
    return spec.model_copy(update={"verify": verify})


def _failure(verification: Verification) -> str:
    said = [f"the {stage} stage raised: {one.message}" for stage, one in _raised(verification)]
    return next(iter(said), verification.lacking or "nothing was built")


def _raised(verification: Verification) -> Iterator[tuple[Any, StageError]]:
    yield from verification.failures.items()


def _concluded(verification: Verification, result: CheckResult) -> Rerun:
    pipeline = verification.pipeline
    if pipeline is None or result.outcome not in (Outcome.FAILED, Outcome.PASSED):
        why = _failure(verification) if verification.failures else result.reason
        return Rerun(result, why)
    inputs, raised = _inputs(pipeline), frozenset(verification.failures)
    return Rerun(result, "", inputs, extent_of(pipeline, inputs), raised)


def _inputs(pipeline: Pipeline) -> Inputs:
    weights: dict[str, Tensor] = {}
    for name in ("policy", "critic"):
        network = getattr(pipeline, f"pristine_{name}")
        if network is not None:
            weights |= {f"{name}.{k}": v.detach().clone() for k, v in _state(network).items()}
    collected = [_plain(one) for one in pipeline.batches]
    return Inputs(collected, [_plain(one) for one in pipeline.samples], weights)


def _plain(batch: TensorDictBase) -> TensorDictBase:
    return batch.detach().cpu().clone()


def _state(network: nn.Module) -> dict[str, Tensor]:
    found = network.state_dict()
    return {k: v for k, v in found.items() if isinstance(v, Tensor) and not is_lazy(v)}


def extent_of(pipeline: Pipeline, inputs: Inputs) -> Extent:
    """How large the pipeline is."""
    return Extent(
        envs=max(1, pipeline.env.batch_size.numel()),
        collected=tuple(tuple(one.shape) for one in inputs.collected),
        trained=tuple(tuple(one.shape) for one in inputs.trained),
        steps=pipeline.spec.verify.steps,
        weights=sum(one.numel() for one in inputs.weights.values()),
    )


def _hooks(how: OneCheck, _: Parts) -> Hooks:
    """What ends episodes, and puts what was stored in the place of what is made."""
    stored = how.stored or Inputs()
    waiting = list(stored.collected)

    def batch(fresh: TensorDictBase) -> TensorDictBase:
        if not waiting:
            return fresh
        one = waiting.pop(0)
        return fresh.clone().update(one) if fresh.shape == one.shape else fresh

    return Hooks(
        env=lambda env: shortened(env, how.episodes) if how.episodes else env,
        policy=lambda network: _loaded(network, "policy", stored),
        critic=lambda network: _loaded(network, "critic", stored),
        batch=batch,
    )


def _loaded(network: nn.Module, name: str, stored: Inputs) -> nn.Module:
    own = _state(network)
    given = {key: stored.weights.get(f"{name}.{key}") for key in own}
    if all(value is not None and value.shape == own[key].shape for key, value in given.items()):
        network.load_state_dict(given, strict=False)
    return network
