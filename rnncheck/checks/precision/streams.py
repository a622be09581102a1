"""The recurrent modules of policy and critic over one long stream, and the same again without their
rounding.

A module's inputs and outputs are caught at every step while the whole network runs, so that what
surrounds it (an autocast region, a wrapper) is in force. Then the module alone is given the same
inputs again: in float64 with every narrower cast inside it undone, in an honest float32, and with
products of a stated precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.constructed_batches import replayed_heads
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.random_outputs import random_outputs
from rnncheck.checks.evidence.recurrent_pass import as_collected, steps_only
from rnncheck.checks.evidence.unrun import unrun
from rnncheck.checks.rule import CouldNotLook
from rnncheck.numerics.emulate import Computing
from rnncheck.numerics.kernels import reason_of
from rnncheck.numerics.rounding import ProductPrecision
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.instruments.casts import Casts
from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.pipeline.placing import module_on
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.pipeline.subject.passes import (
    Wide,
    call,
    cast,
    default_dtype,
    run_recurrent,
    unroll_subject,
)
from rnncheck.pipeline.subject.subject import Carrier, Subject, next_key

STREAM_STEPS = 64  # of the stream: heads of episodes end to end, without a reset between them
_SEEDS = (1, 2)
EARLY = 12  # steps from which the size of a single step's rounding is taken
Written = dict[Key, Tensor]


@dataclass
class Pass:
    """One mode of a module over the stream, step by step.

    ``read`` is what it was given, ``wrote`` what it gave, ``left`` the new states as they left the
    whole network.
    """

    recurrent: bool
    read: list[TensorDictBase] = field(default_factory=list)
    wrote: list[Written] = field(default_factory=list)
    left: list[Written] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "recurrent mode" if self.recurrent else "sequential mode"


@dataclass
class Stream:
    """One recurrent module of a network over the stream; ``whole`` is None where it has no
    recurrent mode."""

    subject: Subject
    carrier: Carrier
    inputs: TensorDictBase  # of the network, ``[1, STEPS]``
    steps: Pass
    whole: Pass | None
    keys: tuple[Key, ...]  # outputs, states included, that draw no random numbers
    drawn: frozenset[Key] = frozenset()  # those that do

    @property
    def name(self) -> str:
        """``LSTMModule 1 of the policy``."""
        where = f" {self.carrier.path}" if self.carrier.path else ""
        return f"{type(self.carrier.module).__name__}{where} of the {self.subject.stage}"

    @property
    def passes(self) -> list[Pass]:
        return [self.steps] if self.whole is None else [self.steps, self.whole]

    @property
    def device(self) -> str:
        """The device of the module's tensors."""
        return str(next((value.device for value in self.steps.wrote[0].values()), "cpu"))

    @property
    def states(self) -> tuple[Key, ...]:
        """Where the module writes its states."""
        return tuple(next_key(key) for key in self.carrier.keys)


def streams(evidence: Evidence) -> list[Stream]:
    """Every module that carries state. Unanswered where none of them could be followed."""
    return evidence.once("streams", lambda: _streams(evidence))


def _streams(evidence: Evidence) -> list[Stream]:
    found = [one for subject in evidence.subjects for one in _of_subject(evidence, subject)]
    if not found:
        raise CouldNotLook("no recurrent module is called with a tensordict at every step")
    return found


def _of_subject(evidence: Evidence, subject: Subject) -> list[Stream]:
    inputs = _inputs(evidence, subject)
    steps = _sequential(subject, inputs)
    # a batch without a state is a sequence to some: nothing of it could be run step by step
    alone = subject.by_absence or steps_only(evidence, subject)
    whole = {} if alone else _recurrent(evidence, subject, inputs)
    noisy = random_outputs(evidence, subject)
    found = []
    for carrier in subject.carriers:
        own = steps[carrier.path]
        if len(own.read) == STREAM_STEPS:
            first = own.wrote[0]
            drawn = _drawn_inside(carrier, own.read, noisy.intersection(first))
            calm = tuple(k for k in first if first[k].is_floating_point() and k not in drawn)
            other = whole.get(carrier.path)
            found.append(Stream(subject, carrier, inputs, own, other, calm, drawn))
    return found


def _drawn_inside(
    carrier: Carrier, reads: Sequence[TensorDictBase], noisy: frozenset[Key]
) -> frozenset[Key]:
    """Of what differs between two seeds, what does so by the module itself: it may be given what
    others before it drew, and is given the same again."""
    if not noisy:
        return noisy
    drawn, module = set[Key](), copy_of(carrier.module, "the module")
    try:
        for td in reads[:EARLY]:
            one, two = (_seeded(module, td, seed) for seed in _SEEDS)
            drawn |= {key for key in noisy if not torch.equal(one[key], two[key])}
    except Exception:  # the user's module may raise anything alone
        return noisy
    return frozenset(drawn)


def _seeded(module: nn.Module, td: TensorDictBase, seed: int) -> Written:
    with measuring(recurrent=False, seed=seed):
        out = call(module, td.clone())
    return {key: out.get(key) for key in tensor_keys(out)}


def _inputs(evidence: Evidence, subject: Subject) -> TensorDictBase:
    """``[1, STEPS]``: the heads end to end, over and over."""
    heads = torch.cat([piece.inputs for piece in replayed_heads(evidence, subject)[0]], 1)
    return heads[:, torch.arange(STREAM_STEPS) % heads.shape[1]]


def _answers(evidence: Evidence, subject: Subject) -> TensorDictBase:
    """What the env wrote under ``next`` in these steps, ``[1, STEPS]``, of one long trajectory."""
    heads: TensorDictBase = torch.cat(
        [piece.nexts for piece in replayed_heads(evidence, subject)[0]], 1
    )
    answers: TensorDictBase = heads[:, torch.arange(STREAM_STEPS) % heads.shape[1]]
    for key in map(next_key, evidence.env.done):
        if answers.get(key, None) is not None:
            answers.set(key, torch.zeros_like(answers.get(key)))
    return answers


def _starts() -> Tensor:
    return torch.arange(STREAM_STEPS).unsqueeze(0) == 0


def _sequential(subject: Subject, inputs: TensorDictBase) -> dict[str, Pass]:
    network = subject.copy()
    with Tap(network, subject.carriers, recurrent=False) as tap:
        out = unroll_subject(subject, inputs, _starts(), module=network)
    for carrier in subject.carriers:
        one = tap.passes[carrier.path]
        for t, wrote in enumerate(one.wrote):
            finals = {key: out.get(key, None) for key in map(next_key, carrier.keys)}
            one.left.append({k: _shaped(v, t, wrote[k]) for k, v in finals.items() if k in wrote})
    return tap.passes


def _shaped(final: Tensor | None, t: int, wrote: Tensor) -> Tensor:
    """The network's own state of step ``t`` in the shape in which the module wrote it."""
    if final is None or t >= final.shape[1] or final[:, t].numel() != wrote.numel():
        return wrote
    return final[:, t].reshape(wrote.shape)


def _recurrent(
    evidence: Evidence, subject: Subject, inputs: TensorDictBase
) -> dict[str, Pass | None]:
    batch = _batch(subject, inputs).update(_answers(evidence, subject))
    batch = batch[:, : subject.longest or STREAM_STEPS]
    if subject.tile > 1:  # it takes so many rows or none
        batch = batch.expand(subject.tile, batch.shape[1]).clone()
    network = subject.copy()
    with Tap(network, subject.carriers, recurrent=True) as tap:
        try:
            run_recurrent(subject, as_collected(subject, batch), module=network)
        except Exception as error:
            raise unrun(subject, error) from error
    return {path: _by_steps(one, batch.shape[1]) for path, one in tap.passes.items()}


def _batch(subject: Subject, inputs: TensorDictBase) -> TensorDictBase:
    """One row of ``inputs`` with its start flag and its fresh state."""
    steps = inputs.shape[1]
    batch = inputs.clone().update(subject.flag_values(_starts()[:, :steps]))
    for key, value in subject.fresh.items():
        batch.set(key, value[:1].unsqueeze(1).expand(1, steps, *value.shape[1:]).clone())
    return batch


def _by_steps(one: Pass, steps: int) -> Pass | None:
    """A pass that was called once over all steps, cut into steps; only what it writes at every step
    is kept."""
    if len(one.read) == steps:
        return one
    if len(one.read) != 1 or one.read[0].ndim == 0 or one.read[0].shape[-1] != steps:
        return None
    time = one.read[0].ndim - 1
    outputs = {key: value for key, value in one.wrote[0].items() if key[0] != "next"}
    wrote = [{k: v.select(time, t) for k, v in outputs.items()} for t in range(steps)]
    return Pass(True, list(one.read[0].unbind(time)), wrote)


class Tap:
    """Inside the context, copies of all that each of ``carriers`` reads and writes inside
    ``network``."""

    def __init__(self, network: nn.Module, carriers: Iterable[Carrier], *, recurrent: bool) -> None:
        self.passes = {carrier.path: Pass(recurrent) for carrier in carriers}
        self.targets = {path: network.get_submodule(path) for path in self.passes}

    def __enter__(self) -> Tap:
        self.handles = [
            handle for path, module in self.targets.items() for handle in self._hooks(path, module)
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()

    def _hooks(self, path: str, module: nn.Module) -> tuple[Any, Any]:
        one = self.passes[path]
        inside, outside = declared(module, "in_keys"), declared(module, "out_keys")

        def before(_: nn.Module, args: Any, kwargs: Any) -> None:
            td = _tensordict(args, kwargs)
            if td is not None:
                present = [key for key in inside if isinstance(td.get(key, None), Tensor)]
                one.read.append(td.select(*present).clone())

        def after(_: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            td = result if isinstance(result, TensorDictBase) else _tensordict(args, kwargs)
            if td is not None:
                found = {key: td.get(key, None) for key in outside}
                one.wrote.append({k: v.clone() for k, v in found.items() if isinstance(v, Tensor)})

        return (
            module.register_forward_pre_hook(before, with_kwargs=True),
            module.register_forward_hook(after, with_kwargs=True),
        )


def _tensordict(args: Any, kwargs: Any) -> TensorDictBase | None:
    return next((a for a in (*args, *kwargs.values()) if isinstance(a, TensorDictBase)), None)


def rerun(
    stream: Stream,
    reads: Sequence[TensorDictBase],
    dtype: torch.dtype = torch.float64,
    precision: ProductPrecision | None = None,
    *,
    chained: bool = False,
) -> list[Written]:
    """The module alone, in sequential mode, over what it read; ``chained`` lets it carry its own
    state instead, but for what is drawn: another device, or another precision, draws other numbers
    from the same seed.

    Unanswered where it cannot be run alone in ``dtype``.
    """
    carrier, written = stream.carrier, list[Written]()
    state: Written = {}
    try:
        module = module_on(copy_of(carrier.module, "the module"), torch.device("cpu")).to(dtype)
        rounded, wide = Computing(dtype, precision), Wide(dtype)
        # What the module makes without naming a device belongs beside it.
        with measuring(recurrent=False), default_dtype(dtype), torch.device("cpu"):
            for t, td in enumerate(reads):
                given = cast(td.cpu(), dtype).copy().update(state)
                with wide.at(t) if precision is None else rounded:
                    out = call(module, given)
                written.append(
                    {key: out.get(key) for key in stream.keys if key in tensor_keys(out)}
                )
                if chained:
                    own = [key for key in carrier.keys if next_key(key) not in stream.drawn]
                    state = {key: out.get(next_key(key)) for key in own}
    except Exception as error:  # the user's module may raise anything
        raise CouldNotLook(f"{stream.name} cannot be run alone ({reason_of(error)})") from error
    return written


def errors(candidate: Sequence[Written], exact: Sequence[Written]) -> dict[Key, Tensor]:
    """Per key ``[steps]``: root mean square error of each step, relative to the key's own size over
    all steps."""
    found = {}
    for key in [key for key in exact[0] if key in candidate[0]]:
        pairs = list(zip(candidate, exact, strict=False))
        gaps = torch.stack([_rms(one[key].cpu().double() - two[key]) for one, two in pairs])
        scale = _rms(torch.stack([two[key] for _, two in pairs]))
        if bool(gaps.isfinite().all()) and float(scale) > 0:
            found[key] = gaps / scale
    return found


def _rms(values: Tensor) -> Tensor:
    return values.double().square().mean().sqrt()


def watch_streams(evidence: Evidence, stream: Stream, *, recurrent: bool) -> Casts:
    """Two steps of the network again: which autocast region is on inside the module, which line
    narrows its floats."""
    subject, inputs = stream.subject, stream.inputs[:, :2]
    network, casts = subject.copy(), Casts(stream.device.split(":")[0])
    target = network.get_submodule(stream.carrier.path)
    target.register_forward_pre_hook(lambda *_: casts.watch(True))
    target.register_forward_hook(lambda *_: casts.watch(False))
    with casts:
        if recurrent:
            run_recurrent(subject, as_collected(subject, _batch(subject, inputs)), module=network)
        else:
            unroll_subject(subject, inputs, _starts()[:, :2], module=network)
    return casts
