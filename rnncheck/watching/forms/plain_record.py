"""The steps of a plain loop as tensordicts, with what parts of the networks gave in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.watching.forms.acted_again import gives_states_alone
from rnncheck.watching.forms.log_probs import derived_of, scales_of
from rnncheck.watching.forms.part_outputs import innermost_parts, of_one_step, part_key
from rnncheck.watching.forms.plain_calls import (
    ACTION,
    ENDS,
    FLAG,
    OBSERVATION,
    PlainCall,
    PlainStep,
    ToldCall,
    narrowed,
)
from rnncheck.watching.forms.plain_columns import Column, Columns, columns_of
from rnncheck.watching.forms.plain_policy import PlainPolicy
from rnncheck.watching.forms.shown_entries import ShownAs

_NOTHING = Column(None)


def parts_given(call: PlainCall, policy: PlainPolicy) -> dict[str, Tensor]:
    """What innermost parts of the policy gave in an acting call, one vector for each env."""
    return _given_by(
        {id(part): path for path, part in innermost_parts(policy).items()}, call, policy
    )


def _given_by(paths: Mapping[int, str], call: PlainCall, policy: PlainPolicy) -> dict[str, Tensor]:
    given = dict[str, list[Tensor]]()
    for part, value in call.parts:
        if id(part) in paths:
            given.setdefault(paths[id(part)], []).append(value)
    rows = torch.Size([policy.told.rows] if policy.batched else [])
    return of_one_step(given, rows)


def steps_recorded(
    steps: list[PlainStep],
    columns: Columns,
    told: ToldCall,
    policy: PlainPolicy,
    before: Sequence[PlainStep],
) -> TensorDictBase:
    """The steps as ``[rows, steps]``; where there are none before them, acting begins with them."""
    lead = (columns.rows, len(steps))
    done = columns.done.T
    entries: dict[Key, Tensor] = {
        **_observed(steps, columns, told.floating),
        ("next", "reward"): _rows([step.reward for step in steps], columns.rows).float(),
        ("next", "done"): done,
    }
    for name in ENDS[:2]:
        flags = _rows([getattr(step, name) for step in steps], columns.rows)
        entries["next", name] = flags.bool()
    for slots, held in ((told.arguments, columns.given), (told.results, columns.gave)):
        for path, slot in slots.items():
            column = held.get(path, _NOTHING).values
            if slot.key not in entries and column is not None:
                entries[slot.key] = slot.found(column, 1)
    outputs = {
        key: entries[key] for key in (s.key for s in told.results.values()) if key in entries
    }
    if told.action is not None and (column := columns.gave[told.action[0]].values) is not None:
        slot = told.action[1]
        entries[ACTION,] = slot.found(column, 1).reshape(*lead, *slot.rest)
        floating = {key: one for key, one in outputs.items() if one.is_floating_point()}
        scales = dict[Key, Tensor]()
        if gives_states_alone(floating.keys() - {(ACTION,)}):
            parts = _outputs(steps, policy)
            laid = {
                part_key(n): one.reshape(len(steps), columns.rows, -1) for n, one in parts.items()
            }
            floating |= {key: one.transpose(0, 1) for key, one in laid.items()}
            scales = scales_of(policy, entries[ACTION,])
        made = derived_of(floating, entries[ACTION,], scales)
        entries |= {key: one.detach() for key, one in made.items()}
    starts = columns_of(before).done.T if before else torch.ones_like(done[:, :1])
    flag = entries.get((FLAG,), torch.cat([starts, done[:, :-1]], 1)).reshape(lead).bool()
    # Whatever its flag, the very first step begins with the state that acting begins with.
    begun = (torch.arange(len(steps)) == 0) & (not before)
    entries[FLAG,] = flag | begun
    for key in (*(("next", name) for name in (*ENDS[:2], "done", "reward")), (FLAG,)):
        entries[key] = entries[key].reshape(*lead, 1)
    for part, column in _outputs(steps, policy).items():
        entries[part_key(part)] = column.reshape(len(steps), columns.rows, -1).transpose(0, 1)
    return TensorDict(entries, batch_size=lead).contiguous()


def random_steps(
    steps: Sequence[PlainStep],
    like: TensorDictBase,
    told: ToldCall,
    part: tuple[int, ...] | None,
    shown: ShownAs | None = None,
) -> TensorDictBase:
    """Steps with random actions, with the entries of ``like`` ``[rows, steps]``: 0 where these are
    of who acts. They show ``part`` of what the env does, where that is named, or several things as
    ``shown``. Raises RuntimeError where their actions have another form."""
    own = [narrowed(one, part) for one in steps] if part else list(steps)
    own = [replace(one, call=PlainCall(replace.__code__, None, {})) for one in own]
    columns, rows = columns_of(own, shown=shown), len(like)
    kinds = ToldCall(told.arguments, rows=told.rows)
    made = steps_recorded(own, columns, kinds, PlainPolicy(own[0].call, ToldCall()), ())
    whole = like[:, :1].expand(rows, len(own)).clone().zero_()
    there = set(tensor_keys(made))
    for key in tensor_keys(like):
        if key in there:
            whole.set(key, made.get(key).reshape(whole.get(key).shape).to(whole.get(key).dtype))
    if columns.action is not None and (ACTION,) in tensor_keys(like):
        taken, wanted = columns.action, whole.get(ACTION)
        laid = taken.reshape(len(own), rows, *wanted.shape[2:]).transpose(0, 1)
        whole.set(ACTION, laid.to(wanted.dtype))
    return whole


def _observed(
    steps: list[PlainStep], columns: Columns, floating: Mapping[Key, torch.dtype]
) -> dict[Key, Tensor]:
    """What the env showed before and behind each step, ``[rows, steps, ...]``; pictures that who
    acts gets as floats as such, so that gradients reach them."""
    both, lead = list[dict[Key, Tensor]](), steps[0].lead
    for values in ([step.seen for step in steps], [step.after for step in steps]):
        if columns.shown is None:
            shown: dict[Key, Tensor] = {(OBSERVATION,): _rows(values, columns.rows)}
        else:
            told = columns.shown.columns(values, lead).items()
            shown = {k: one.transpose(0, 1) if lead else one.unsqueeze(0) for k, one in told}
        whole = {key: one for key, one in shown.items() if not one.is_floating_point()}
        shown |= {key: one.to(floating[key]) for key, one in whole.items() if key in floating}
        both.append(shown)
    return {**both[0], **{("next", *key): one for key, one in both[1].items()}}


def _outputs(steps: list[PlainStep], policy: PlainPolicy) -> dict[str, Tensor]:
    """What parts of the policy gave at every step, ``[steps, ...]``."""
    paths = {id(part): path for path, part in innermost_parts(policy).items()}
    alike = _parts_alike(paths, steps, policy)
    if alike is not None:
        return alike
    given = [_given_by(paths, step.call, policy) for step in steps]
    return {
        path: torch.stack([one[path] for one in given]).cpu()
        for path in given[0]
        if all(path in one for one in given)
    }


def _parts_alike(
    paths: Mapping[int, str], steps: list[PlainStep], policy: PlainPolicy
) -> dict[str, Tensor] | None:
    """The same at once where every step ran the same parts; None where some did not."""
    order = [id(part) for part, _ in steps[0].call.parts]
    if any([id(part) for part, _ in step.call.parts] != order for step in steps):
        return None
    found = dict[str, Tensor]()
    for at, part in enumerate(order):
        values = [step.call.parts[at][1] for step in steps]
        if part not in paths or order.count(part) > 1:
            continue
        if len({value.shape for value in values}) > 1:
            return None
        told = _given_by({part: paths[part]}, steps[0].call, policy)
        found |= {
            path: torch.stack(values).reshape(-1, *one.shape).cpu() for path, one in told.items()
        }
    return found


def _rows(values: list[Any], rows: int) -> Tensor:
    """``[rows, steps, ...]`` of what the env gave."""
    column = torch.as_tensor(np.array([np.asarray(value) for value in values]))
    sided = column.ndim > 1 and column.shape[1] == rows
    return column.transpose(0, 1) if sided else column.unsqueeze(0)
