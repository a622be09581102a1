"""LSTM or GRU outputs differ from the float64 cell equations: says which mode is at fault.

Checks
    For every LSTMModule and GRUModule (and subclasses) the inputs that it gets while playing are
    taken, and its outputs in both modes are held against the equations of torch.nn.LSTM and
    torch.nn.GRU, computed in float64 from its weights.

Why it matters
    When two modes disagree, one of them is right. When both agree, both can be wrong: a swapped
    gate, a backend with a wrong kernel, weights that are not the ones that are trained.

Says nothing when
    the policy has no LSTMModule or GRUModule; a bidirectional one or one with active dropout is
    left out.

Fix
    Use the stock module, or compare the named mode's code with the equations.

Example
    LSTMModule(input_size=4, hidden_size=64, in_key="observation", out_key="features")
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.comparison import Mismatch, mismatches
from rnncheck.checks.evidence.constructed_batches import replayed_heads
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.numerics import recurrence
from rnncheck.numerics.kernels import reason_of
from rnncheck.pipeline.keys import Key, declared, dotted
from rnncheck.pipeline.placing import device_of
from rnncheck.pipeline.subject.heads import Piece
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.pipeline.subject.passes import StartStates, call, unroll_subject
from rnncheck.pipeline.subject.stock import rnn_of, state_shapes
from rnncheck.pipeline.subject.subject import Carrier, Subject
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where


@dataclass(frozen=True)
class _Judged:
    """One RNN over one head: what it read, and what the equations make of it; all
    ``[1, steps, ...]``."""

    inputs: TensorDictBase
    exact: TensorDictBase


# Relative error of the gates that CUDA's kernels compute: a step of nn.LSTM had 17 correct bits
# (H100, torch 2.11), whatever is said of tf32. Chosen: 8 times that.
_CUDA_GATES = 2.0**-14


def run(evidence: Evidence) -> Judgement:
    """Every stock RNN of policy and critic, in both modes."""
    findings: list[Observation] = []
    compared = 0
    for subject in evidence.subjects:
        for carrier in subject.carriers:
            if not judgeable(carrier.module):
                continue
            piece = max(replayed_heads(evidence, subject)[0], key=lambda p: p.inputs.shape[1])
            item = _judged(subject, carrier, piece)
            compared += item.inputs.shape[1]
            for mode in ("sequential", "recurrent"):
                found = _wrong(carrier, item, mode)
                findings += [_observed(subject, carrier, found, mode)] if found else []
    if not compared:
        raise NotApplicable("no LSTMModule or GRUModule whose equations could be asked")
    return Judgement(
        tuple(findings), compared, counted(compared, "step", "agree with the cell equations")
    )


def judgeable(module: nn.Module) -> bool:
    """A stock RNN that is causal and draws no random numbers."""
    rnn = rnn_of(module)
    if rnn is None or getattr(rnn, "bidirectional", False):
        return False
    return not (getattr(rnn, "dropout", 0) and rnn.training and getattr(rnn, "num_layers", 1) > 1)


def _judged(subject: Subject, carrier: Carrier, piece: Piece) -> _Judged:
    """Replay a head, catching what the carrier reads at every step."""
    network = subject.copy()
    target = network.get_submodule(carrier.path) if carrier.path else network
    key, seen = declared(carrier.module, "in_keys")[0], list[Tensor]()
    handle = target.register_forward_pre_hook(
        lambda _, args, kwargs: _catch(seen, key, subject.tile, (*args, *kwargs.values())),
        with_kwargs=True,
    )
    starts = torch.zeros(1, piece.inputs.shape[1], dtype=torch.bool)
    starts[:, 0] = True
    state = {name: value[:, 0] for name, value in piece.stored.items()}
    try:
        unroll_subject(subject, piece.inputs, starts, StartStates(fresh=state), module=network)
    finally:
        handle.remove()
    return _with_equations(carrier, torch.stack(seen).unsqueeze(0))


def _catch(seen: list[Tensor], key: Key, rows: int, arguments: tuple[object, ...]) -> None:
    td = next((a for a in arguments if isinstance(a, TensorDictBase)), None)
    if td is not None:
        seen.append(td.get(key).detach().clone().reshape(rows, -1)[0])


def _with_equations(carrier: Carrier, values: Tensor) -> _Judged:
    """The inputs ``values`` ``[1, steps, features]`` as a batch of the carrier's own, from a zero
    state."""
    steps, keys = values.shape[1], _states_of(carrier)
    rnn = rnn_of(carrier.module)
    assert rnn is not None
    zeros = [torch.zeros(shape) for shape in state_shapes(carrier.module, rnn)]
    outputs, _ = recurrence.unroll_equations(recurrence.weights(rnn), values[0], tuple(zeros))
    td = TensorDict({declared(carrier.module, "in_keys")[0]: values}, batch_size=[1, steps])
    td.set("is_init", (torch.arange(steps) == 0).reshape(1, steps, 1))
    for key, zero in zip(keys, zeros, strict=True):
        td.set(key, zero.to(values.dtype).expand(1, steps, *zero.shape).clone())
    out = declared(carrier.module, "out_keys")[0]
    return _Judged(td, TensorDict({out: outputs.unsqueeze(0)}, batch_size=[1, steps]))


def _states_of(carrier: Carrier) -> list[Key]:
    """The carry keys of a stock module in its own order, h before c."""
    return [key for key in declared(carrier.module, "in_keys")[1:] if key != ("is_init",)]


def _wrong(carrier: Carrier, item: _Judged, mode: str) -> Mismatch | None:
    """The mismatch of one mode with the equations."""
    module = carrier.module
    key = declared(module, "out_keys")[0]
    try:
        with measuring(recurrent=mode == "recurrent", full=True):
            whole = mode == "recurrent"
            out = call(module, item.inputs.clone()) if whole else _stepped(carrier, item)
    except Exception as error:
        raise CouldNotLook(f"{mode} mode raises ({reason_of(error)})") from error
    reference = item.exact.to(out.get(key).dtype)
    place = device_of(module)
    coarse = _CUDA_GATES if place is not None and place.type == "cuda" else 0.0
    found = mismatches(out, reference, item.exact, [key], coarse=coarse)
    return found[0] if found else None


def _stepped(carrier: Carrier, item: _Judged) -> TensorDictBase:
    steps, outputs = item.inputs.unbind(1), list[TensorDictBase]()
    keys, nexts = _states_of(carrier), declared(carrier.module, "out_keys")[1:]
    state = {key: steps[0].get(key) for key in keys}
    for step in steps:
        out = call(carrier.module, step.clone().update(state))
        state = {key: out.get(name) for key, name in zip(keys, nexts, strict=True)}
        outputs.append(out)
    return TensorDict.stack(outputs, 1)


def _observed(subject: Subject, carrier: Carrier, found: Mismatch, mode: str) -> Observation:
    d = found.difference
    name = type(carrier.module).__name__
    return Observation(
        stage=subject.stage,
        message=(
            f"{mode} mode of {name} {carrier.path or 'itself'} is not what its cell equations give"
        ),
        key=dotted(found.key),
        quantity=f"max abs error of {dotted(found.key)} against the float64 equations",
        measured=d.worst,
        on="one episode head, alone, from a zero state",
        bound=found.bound,
        bound_formula=found.formula,
        where=Where((d.row,), d.step, d.feature, 0, d.first_step),
        cause=f"the {mode} pass of this module computes another cell",
        fix="use the stock forward pass, or compare the gates and their order with the equations",
    )


RULE = Rule(
    code="EQ203",
    name="oracle-disagrees",
    holds="the outputs are those of the cell's equations",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
