"""What acting computed with a graph, again for other steps: a loss may be made of that alone, with
no pass over the steps of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.log_probs import derived_of, scales_of
from rnncheck.watching.forms.part_outputs import (
    PartOutputs,
    innermost_parts,
    of_one_step,
    over_steps,
    part_key,
)
from rnncheck.watching.forms.plain_calls import ACTION, FLAG
from rnncheck.watching.forms.plain_policy import PlainPolicy


@dataclass(frozen=True)
class ActedAgain:
    """``policy`` acts on the observations of a batch, one step after the other; ``cut`` where the
    script hands its state on without a graph. The actions are the batch's. ``as_recorded``: a step
    goes on with the state of the one before it where it did so in the batch, whatever its flag."""

    policy: PlainPolicy
    cut: bool = False
    as_recorded: bool = False

    def __call__(self, batch: TensorDictBase) -> TensorDictBase:
        """``[rows, steps]``: what it computes, and what that makes of the actions. Episodes begin
        with the states that the batch has there."""
        steps, state = list[dict[Key, Tensor]](), dict[Key, Tensor]()
        parts, told = innermost_parts(self.policy), list[dict[Key, Tensor]]()
        lead, whole = torch.Size([batch.shape[0]]), batch.unbind(1)
        for number, now in enumerate(whole):
            td = now.select(*self.policy.in_keys)
            for key, value in state.items():
                carried = value.detach() if self.cut else value
                begins = self._begins(now, whole[number - 1], key)
                shaped = begins.reshape(-1, *[1] * (value.ndim - 1))
                td.set(key, torch.where(shaped, now.get(key), carried))
            with PartOutputs(parts) as noted:
                given = self.policy.outputs(td)
            told.append({part_key(n): v for n, v in of_one_step(noted.given, lead).items()})
            state = {key[1:]: one for key, one in given.items() if key[0] == "next"}
            steps.append(given)
        found = {key: torch.stack([one[key] for one in steps], 1) for key in steps[0]}
        outputs = {
            key: one for key, one in found.items() if key != (ACTION,) and one.is_floating_point()
        }
        alike = set.intersection(*(set(one) for one in told))
        of_parts = {key: torch.stack([one[key] for one in told], 1) for key in alike}
        action, alone = batch.get(ACTION, None), gives_states_alone(outputs)
        drawn = outputs | of_parts if alone else outputs
        scales = scales_of(self.policy, action) if alone and action is not None else {}
        made = {} if action is None else derived_of(drawn, action, scales)
        return TensorDict(outputs | of_parts | made, batch_size=batch.batch_size)

    def _begins(self, now: TensorDictBase, before: TensorDictBase, key: Key) -> Tensor:
        """``[rows]``: where a step does not go on with the state of the one before it."""
        flag: Tensor = now.get(FLAG).reshape(-1)
        gave = before.get(("next", *key), None) if self.as_recorded else None
        return flag if gave is None else (now.get(key) != gave).reshape(len(flag), -1).any(1)


def gives_states_alone(outputs: Collection[Key]) -> bool:
    """Whether who acts gives nothing beside its action that this could be drawn by: then parts of
    its networks do."""
    return all(key[0] == "next" for key in outputs)


class ActingPass:
    """The pass of a loss that is made of what acting computed: acting itself."""

    of_the_loss = True

    def __init__(self, acts: ActedAgain, parts: Mapping[str, nn.Module]) -> None:
        self._acts, self._parts = acts, dict(parts)

    def __call__(self, batch: TensorDictBase) -> dict[Key, Tensor]:
        """By key, what each part gives at every step of ``batch`` ``[rows, steps]``."""
        rows = [self._of(batch[n : n + 1]) for n in range(len(batch))]
        return {key: torch.cat([one[key] for one in rows]) for key in rows[0]}

    def _of(self, batch: TensorDictBase) -> dict[Key, Tensor]:
        with PartOutputs(self._parts) as noted:
            self._acts(batch)
        rows, steps = batch.shape
        laid = {
            part_key(part): over_steps(outputs, rows, steps, time_first=True)
            for part, outputs in noted.given.items()
        }
        return {key: one for key, one in laid.items() if one is not None}

    def held_parts(self) -> list[tuple[str, Any]]:
        """What it can reach."""
        return [("policy", self._acts.policy), *self._parts.items()]
