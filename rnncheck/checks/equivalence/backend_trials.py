"""Every backend that was asked for, run on the policy's own recurrent modules: measured once for
EQ207 and EQ208."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.recurrent_pass import as_collected
from rnncheck.checks.rule import NotApplicable, Unanswered
from rnncheck.errors import StageError
from rnncheck.pipeline.backends.asked import expand, factory_modules, is_named
from rnncheck.pipeline.backends.case import Case, other_sizes, short_case, standard_cases
from rnncheck.pipeline.backends.facts import (
    Facts,
    new_module,
    rnn_facts_of,
    rnn_parameters,
    standin,
    takes_tiled_path,
)
from rnncheck.pipeline.backends.job import Job, Request, TrialAnswer
from rnncheck.pipeline.backends.matrix import Ability, BackendVerdict, backend_verdict, this_machine
from rnncheck.pipeline.backends.process import TrialWorker
from rnncheck.pipeline.backends.swap import CannotSwap, recurrent_modules
from rnncheck.pipeline.backends.trial import Refused, run_trial
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.subject.module_inputs import module_inputs
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.results.model import Stage
from rnncheck.results.variant import Variant

WORKER_SHARE = 0.7  # of verify.timeout: how long a worker process may take
RECORDED = 32  # steps of recorded input that are run
RECORDED_ROWS = 4
_WAYS = ("in another thread", "canonicalize", "converted and back")


@dataclass(frozen=True)
class _Target:
    """One LSTMModule or GRUModule of the policy or critic."""

    stage: Stage
    path: str
    module: nn.Module
    facts: Facts
    recorded: Case | None = None

    @property
    def name(self) -> str:
        """The module as a message names it."""
        return f"{self.facts} {self.path}".strip()


@dataclass(frozen=True)
class Tried:
    """One variant on one case. ``weights`` are those that it ran with, ``how`` says on which
    kernels."""

    target: _Target
    facts: Facts
    variant: Variant
    case: Case
    weights: Mapping[str, Tensor]
    answer: TrialAnswer
    how: str
    way: str = "call"
    own: bool = True  # the user's own weights
    rebuilt: bool = (
        False  # a stock module, where the module itself cannot travel to a worker process
    )


@dataclass
class BackendTrials:
    """All trials, and what was left out with the reason."""

    tried: list[Tried] = field(default_factory=list)
    omitted: dict[str, str] = field(default_factory=dict)

    def summary(self) -> str:
        """Which variants were run, on which kernels and shapes (rows x steps x hidden), and what
        was left out."""
        shapes: dict[tuple[str, str], dict[str, None]] = {}
        for one in self.tried:
            if not isinstance(one.answer, Refused):
                size = f"{one.case.shape}x{one.facts.hidden_size}"
                shapes.setdefault((one.how, one.variant.label), {})[size] = None
        alike: dict[tuple[str, str], list[str]] = {}
        for (how, label), found in shapes.items():
            alike.setdefault((how, ", ".join(found)), []).append(label)
        ran = (f"{', '.join(who)} on {how}: {sizes}" for (how, sizes), who in alike.items())
        left = (f"{label} not run: {reason}" for label, reason in self.omitted.items())
        return "; ".join([*ran, *left])


def tried_backends(evidence: Evidence) -> BackendTrials:
    """Every trial of the run, made once. Unanswered when there is nothing that has a backend."""
    return evidence.once("backends", lambda: _measure(evidence))


def _measure(evidence: Evidence) -> BackendTrials:
    found, made = _targets(evidence), BackendTrials()
    plans = [(target, *_choice(evidence, target)) for target in found]
    with ExitStack() as stack:
        waiting = [
            (pending, stack.enter_context(TrialWorker(pending.request(evidence))))
            for pending in _pending(plans)
            if pending.jobs
        ]
        for target, variants, named in plans:
            for variant in variants:
                _in_process(target, variant, named, made)
        limit = WORKER_SHARE * evidence.pipeline.spec.verify.timeout
        for pending, worker in waiting:
            pending.collect(worker.answers(limit), made)
    return made


def _choice(evidence: Evidence, target: _Target) -> tuple[list[Variant], bool]:
    asked = evidence.pipeline.spec.verify.backends
    variants = expand(target.module, asked, thorough=evidence.thorough)
    return variants, is_named(asked)


def _targets(evidence: Evidence) -> list[_Target]:
    parts = {
        Stage.POLICY: evidence.pipeline.pristine_policy,
        Stage.CRITIC: evidence.pipeline.pristine_critic,
    }
    found: list[_Target] = []
    for stage, network in parts.items():
        modules = {} if network is None else recurrent_modules(network)
        for path, module in modules.items():
            target = _Target(stage, path, module, rnn_facts_of(module))
            if not any(_same(target, other) for other in found):
                found.append(replace(target, recorded=_recorded(evidence, stage, path)))
    if not found:
        raise NotApplicable("no LSTMModule or GRUModule: own cells have no backends to choose from")
    usable = [target for target in found if not target.facts.bidirectional]
    if not usable:
        raise NotApplicable(
            "bidirectional layers are run by the pad backend alone: there is none to compare"
        )
    return usable


def _same(left: _Target, right: _Target) -> bool:
    """Policy and critic share a module: their copies hold the same weights."""
    if left.facts != right.facts or type(left.module) is not type(right.module):
        return False
    pairs = zip(left.module.parameters(), right.module.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def _recorded(evidence: Evidence, stage: Stage, path: str) -> Case | None:
    """What the module reads in recurrent mode on steps of the user's own env; None where that
    cannot be run."""
    try:
        subject = evidence.policy if stage is Stage.POLICY else evidence.critic
        if subject is None or not subject.carry:
            return None
        seen = _seen(evidence, subject, path)
        case = None if seen is None else _as_case(seen, subject, path)
        return case if case is not None and bool(case.inputs.isfinite().all()) else None
    except (Unanswered, StageError):
        return None


def _seen(evidence: Evidence, subject: Subject, path: str) -> TensorDictBase | None:
    made = constructed(evidence, subject)
    return module_inputs(subject, path, as_collected(subject, made.batch(subject)))


def _as_case(seen: TensorDictBase, subject: Subject, path: str) -> Case:
    rows = seen.reshape(-1, seen.shape[-1])[:RECORDED_ROWS, :RECORDED]
    facts = rnn_facts_of(subject.module.get_submodule(path))
    stored = [rows.get(key) for key in sorted(tensor_keys(rows)) if key[0].startswith("stored")]
    zeros = [torch.zeros(*rows.shape, *shape) for shape in facts.state_shapes]
    return Case(
        "recorded",
        rows.get("input"),
        rows.get("starts").reshape(rows.shape),
        tuple(stored if len(stored) == len(zeros) else zeros),
    )


def _device(target: _Target, variant: Variant) -> str:
    """Where a variant runs: the module's device, and for Triton's kernels the CUDA device where
    there is one."""
    if variant.backend == "triton" and this_machine().cuda:
        return "cuda"
    return next((str(p.device) for p in target.module.parameters()), "cpu")


def _in_process(target: _Target, variant: Variant, named: bool, made: BackendTrials) -> None:
    device = _device(target, variant)
    answer = backend_verdict(target.facts, variant, device)
    if not answer.runs:
        made.omitted[variant.label] = answer.reason
        return
    if _needs_worker(variant, answer):
        return
    how = device if device != "cpu" else "the CPU"
    weights = rnn_parameters(target.module)
    for case, way in _cases(target, variant, device, named):
        tried = Tried(target, target.facts, variant, case, weights, Refused(), how, way)
        made.tried.append(replace(tried, answer=_run(target.module, variant, case, way, device)))
    for facts in other_sizes(target.facts) if named else ():
        if backend_verdict(facts, variant, device).ability is not Ability.RUNS:
            continue  # what TorchRL hands to the pad backend for this module alone
        module = new_module(facts, Variant(dtype=variant.dtype))
        case, own = standard_cases(facts)[0], rnn_parameters(module)
        found = _run(module, variant, case, "call", device)
        made.tried.append(Tried(target, facts, variant, case, own, found, how, own=False))


def _cases(
    target: _Target, variant: Variant, device: str, named: bool
) -> Iterator[tuple[Case, str]]:
    cases = standard_cases(target.facts)
    yield from ((case, "call") for case in cases)
    if target.recorded is not None:
        yield target.recorded, "call"
    cheap = variant.backend == "pad"  # scan traces anew at every call
    ways = _WAYS if cheap else ()
    yield from ((cases[-1], way) for way in ways)
    if named and backend_verdict(target.facts, variant, device, vmap="data").runs:
        yield cases[1], "vmap"


def _run(module: nn.Module, variant: Variant, case: Case, way: str, device: str) -> TrialAnswer:
    try:
        return run_trial(module, variant, case, way, device=device)
    except CannotSwap as error:
        return Refused(str(error))
    except Refused as error:
        return error


def _needs_worker(variant: Variant, answer: BackendVerdict) -> bool:
    return answer.ability is Ability.INTERPRETED or variant.compile != "eager"


@dataclass
class Pending:
    """Trials that a worker process makes."""

    interpret: bool
    jobs: list[Job] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)

    def request(self, evidence: Evidence) -> Request:
        """The jobs, with the modules that the spec's factories come from: a patched TorchRL is
        judged as patched."""
        return Request(self.jobs, self.interpret, factory_modules(evidence.pipeline.spec))

    def add(self, target: _Target, variant: Variant, named: bool) -> None:
        """All cases of one variant."""
        tiled = self.interpret and takes_tiled_path(target.facts)
        small = standin(target.facts) if self.interpret else target.facts
        own = small == target.facts
        module = target.module if own else new_module(small, Variant(dtype=variant.dtype))
        cases = standard_cases(small) if self.interpret else [short_case(small)]
        for case in cases:
            self._add(target, small, variant, case, rnn_parameters(module), tiled, own)
        for facts in other_sizes(target.facts) if named and self.interpret else ():
            fresh = rnn_parameters(new_module(facts, Variant(dtype=variant.dtype)))
            self._add(target, facts, variant, standard_cases(facts)[0], fresh, tiled, False)

    def _add(
        self,
        target: _Target,
        facts: Facts,
        variant: Variant,
        case: Case,
        weights: Mapping[str, Tensor],
        tiled: bool,
        own: bool,
    ) -> None:
        how = "the CPU, in a process of its own"
        if self.interpret:
            how = f"Triton's interpreter on the CPU, {'tiled' if tiled else 'fused'} path"
        self.jobs.append(Job(facts, variant, weights, case, tiled))
        self.tried.append(
            Tried(target, facts, variant, case, weights, Refused(), how, own=own, rebuilt=True)
        )

    def collect(self, answers: list[TrialAnswer], made: BackendTrials) -> None:
        """Put the answers where they belong."""
        for one, answer in zip(self.tried, answers, strict=True):
            made.tried.append(replace(one, answer=answer))


def _pending(plans: list[tuple[_Target, list[Variant], bool]]) -> list[Pending]:
    """What needs Triton's interpreter, and what is compiled: a process for each."""
    interpreted, compiled = Pending(interpret=True), Pending(interpret=False)
    for target, variants, named in plans:
        for variant in variants:
            answer = backend_verdict(target.facts, variant, _device(target, variant))
            if answer.runs and _needs_worker(variant, answer):
                is_compiled = variant.compile != "eager"
                (compiled if is_compiled else interpreted).add(target, variant, named)
    return [interpreted, compiled]
