"""From a module and an env's facts to a Subject: carry, start flags and fresh state, found by
structure."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from rnncheck.numerics.kernels import reason_of
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.subject.absence import switched_by_absence
from rnncheck.pipeline.subject.env_facts import EnvFacts
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.pipeline.subject.passes import call, unroll_subject
from rnncheck.pipeline.subject.stock import rnn_of, state_shapes
from rnncheck.pipeline.subject.subject import Carrier, Subject, carriers, next_key
from rnncheck.results.model import Stage

FLAG = "is_init"


class CannotStep(Exception):
    """The module cannot run one sequential step on what the env gives; ``error`` is what it
    raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(error)

    def __str__(self) -> str:
        return reason_of(self.error)


def part_that_raised(error: Exception) -> str:
    """``in_keys=['embed'], out_keys=['loc', 'scale']`` of the TensorDictModule that raised, where
    one did."""
    told = str(error.__cause__ or "")
    return ", ".join(re.findall(r"^\s*((?:in|out)_keys=.*?)\.?$", told, re.MULTILINE))


def make_subject(
    stage: Stage,
    module: nn.Module,
    env: EnvFacts,
    *,
    extra: TensorDictBase | None = None,
    recorded: dict[Key, Tensor] | None = None,
) -> Subject:
    """The subject for ``module``.

    ``extra`` holds inputs that the env does not give (what the policy writes, for a critic), one
    step of all rows; ``recorded`` states that a collector of the user's own started from, where the
    env gives none. Raises CannotStep when no state lets the module run, CannotCopy where there is
    no copy that could be run.
    """
    copy_of(module, f"the {stage}")
    base = env.first.clone() if extra is None else env.first.clone().update(extra)
    flags = start_flags(module, env)
    declared_keys = carry_keys(module)
    found = _undeclared(module, base, flags, declared_keys)
    keys = (*declared_keys, *found)
    subject = Subject(
        stage=stage,
        module=module,
        carry=keys,
        flags=flags,
        fresh={},
        rank=env.rank,
        batch_shape=env.batch_shape,
        primed=frozenset(key for key in keys if base.get(key, None) is not None),
        undeclared=_writers(module, _with_flags(base, flags), found),
    )
    fresh = _fresh(subject, base, env, recorded or {})
    subject.fresh.update({key: on_cpu(value) for key, value in fresh.items()})
    if env.rows > 1 and not _takes_one_row(subject, base):
        subject.tile = env.rows
    subject.by_absence = switched_by_absence(subject, base)
    return subject


def _takes_one_row(subject: Subject, base: TensorDictBase) -> bool:
    inputs = subject.inputs_of(base).reshape(-1)[:1].unsqueeze(1)
    try:
        unroll_subject(subject, inputs, torch.ones(1, 1, dtype=torch.bool))
    except Exception:  # batch statistics of one row, buffers of the batch's size
        return False
    return True


def carry_keys(module: nn.Module) -> tuple[Key, ...]:
    """The carry keys that the module's parts declare."""
    return tuple(dict.fromkeys(key for carrier in carriers(module) for key in carrier.keys))


def probe_step(
    module: nn.Module, env: EnvFacts, *, zeros: bool = False
) -> tuple[TensorDictBase | None, str]:
    """One sequential step from the env's own reset: what a copy of the policy wrote, or None and
    why it raised.

    With ``zeros`` the state is left to the module instead of taken from the reset.
    """
    td = _with_flags(env.first, start_flags(module, env))
    if zeros:
        td = td.exclude(*carry_keys(module))
    copied = copy_of(module, "the policy")
    try:
        with measuring(recurrent=False):
            return call(copied, td), ""
    except Exception as error:  # the user's module may raise anything
        return None, str(CannotStep(error))


def start_flags(module: nn.Module, env: EnvFacts) -> dict[Key, torch.Size]:
    """Keys that say where a trajectory begins, with their trailing shape.

    The keys of InitTracker, entries called ``is_init``, and booleans that the module reads, one for
    each env, true at a reset and false after a step.
    """
    reads, done = declared(module, "in_keys"), set(env.done)
    known = {FLAG} | {key[-1] for key in env.tracked}
    given = [key for key in tensor_keys(env.first) if key[-1] in known]
    asked = [key for key in reads if key[-1] in known]
    acting = [key for key in reads if key not in done and _marks_resets(env, key)]
    return {key: _tail(env, key) for key in dict.fromkeys([*given, *asked, *acting])}


def _marks_resets(env: EnvFacts, key: Key) -> bool:
    value = env.first.get(key, None)
    later = None if env.after is None else env.after.get(key, None)
    if not isinstance(value, Tensor) or not isinstance(later, Tensor):
        return False
    single = value.dtype is torch.bool and value.shape[env.rank :].numel() == 1
    return single and bool(value.all()) and not bool(later.any())


def _tail(env: EnvFacts, key: Key) -> torch.Size:
    value = env.first.get(key, None)
    return torch.Size([1]) if value is None else value.shape[env.rank :]


def _undeclared(
    module: nn.Module,
    base: TensorDictBase,
    flags: dict[Key, torch.Size],
    known: tuple[Key, ...],
) -> tuple[Key, ...]:
    """Carry that no key declares: what a real step writes under ``next``.

    Of a module that declares what it reads, only what changes its outputs when it comes back.
    """
    td = _with_flags(base, flags)
    try:
        with measuring(recurrent=False):
            out = call(copy_of(module, "the module"), td.copy())
            new = {k: out.get(k) for k in tensor_keys(out) if k[0] == "next" and k[1:] not in known}
            silent = not declared(module, "in_keys")
            return tuple(k[1:] for k, v in new.items() if silent or _comes_back(module, td, k, v))
    except Exception:  # judged again, with a message, by make_subject's own step
        return ()


def _writers(module: nn.Module, td: TensorDictBase, keys: tuple[Key, ...]) -> tuple[Carrier, ...]:
    """The innermost parts that write these states in a real step."""
    if not keys:
        return ()
    copied = copy_of(module, "the module")
    paths = {part: path for path, part in copied.named_modules()}
    written: dict[Key, str] = {}

    def note(part: nn.Module, args: Any, result: Any) -> None:
        for one in (result, *args):
            for key in keys if isinstance(one, TensorDictBase) else ():
                if one.get(next_key(key), None) is not None:
                    written.setdefault(key, paths[part])  # a part ends before what holds it

    handles = [part.register_forward_hook(note) for part in paths]
    with measuring(recurrent=False), suppress(Exception):  # judged again by make_subject's step
        call(copied, td.copy())
    for handle in handles:
        handle.remove()
    parts = {path: tuple(k for k in keys if written.get(k) == path) for path in written.values()}
    return tuple(Carrier(path, module.get_submodule(path), own) for path, own in parts.items())


def _comes_back(module: nn.Module, td: TensorDictBase, key: Key, written: Tensor) -> bool:
    """Whether another value at the root of what was written under ``next`` changes the outputs of a
    step in the middle of a trajectory."""
    inside = td.copy()
    for name in tensor_keys(td):
        if td.get(name).dtype is torch.bool:
            inside.set(name, torch.zeros_like(td.get(name)))
    outs = []
    for value in (torch.zeros_like(written), torch.ones_like(written)):
        outs.append(call(copy_of(module, "the module"), inside.copy().set(key[1:], value)))
    keys = [name for name in tensor_keys(outs[0]) if name != key[1:]]
    return any(not torch.equal(outs[0].get(name), outs[1].get(name)) for name in keys)


def _with_flags(base: TensorDictBase, flags: dict[Key, torch.Size]) -> TensorDictBase:
    td = base.clone()
    for key, tail in flags.items():
        td.set(key, torch.ones(*td.batch_size, *tail, dtype=torch.bool))
    return td


def _fresh(
    subject: Subject, base: TensorDictBase, env: EnvFacts, recorded: dict[Key, Tensor]
) -> dict[Key, Tensor]:
    """The state at a trajectory's start: the env's own where it fits, else zeros of the shape that
    is written."""
    td = _with_flags(base, subject.flags)
    given = {key: _steady(key, base, env) for key in subject.carry}
    given |= {key: value for key, value in recorded.items() if given.get(key) is None}
    without = td.exclude(*subject.carry)
    attempts: list[Callable[[], TensorDictBase]] = [
        lambda: td,
        lambda: without,
        lambda: _zeros(subject, without),
        lambda: without.copy().update(recorded),
    ]
    error: Exception | None = None
    for attempt in attempts:
        try:
            with measuring(recurrent=False):
                out = call(subject.copy(), attempt().copy())
        except Exception as caught:  # the user's module may raise anything
            error = error or caught
            continue
        return {
            key: _start(given[key], out.get(next_key(key), None), env)
            for key in subject.carry
            if given[key] is not None or out.get(next_key(key), None) is not None
        }
    assert error is not None
    raise CannotStep(error)


def _steady(key: Key, base: TensorDictBase, env: EnvFacts) -> Tensor | None:
    """What the env primes; zeros where every reset gives another value (WR105)."""
    given: Tensor | None = base.get(key, None)
    again: Tensor | None = env.second.get(key, None)
    if given is None or again is None or torch.equal(given, again):
        return given
    return torch.zeros_like(given)


def _start(given: Tensor | None, written: Tensor | None, env: EnvFacts) -> Tensor:
    fits = given is not None and (written is None or given.shape == written.shape)
    value = given if fits else torch.zeros_like(written) if written is not None else given
    assert value is not None
    return value.detach().reshape(env.rows, *value.shape[env.rank :])


def _zeros(subject: Subject, td: TensorDictBase) -> TensorDictBase:
    """Zero states where a carrier says how wide they are (its RNN's layers and hidden size)."""
    states = TensorDict({}, batch_size=td.batch_size)
    for carrier in subject.carriers:
        for key, shape in declared_shapes(carrier).items():
            states.set(key, torch.zeros(*td.batch_size, *shape))
    return td.copy().update(states)


def declared_shapes(carrier: Carrier) -> dict[Key, tuple[int, ...]]:
    """The states' shapes where the module, or a part of it, says how wide they are."""
    rnn = rnn_of(carrier.module)
    if rnn is not None:
        return dict(zip(carrier.keys, state_shapes(carrier.module, rnn), strict=False))
    sizes = [getattr(m, "hidden_size", None) for m in carrier.module.modules()]
    known = [size for size in sizes if isinstance(size, int)]
    return dict.fromkeys(carrier.keys, (known[0],)) if known else {}
