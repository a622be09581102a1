"""Steps of an env that is none of TorchRL's, in which modules acted on a tensordict of the loop's,
as steps of one of TorchRL's: an entry has the action, others what the env showed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.envs import (
    Compose,
    EnvBase,
    InitTracker,
    RenameTransform,
    Transform,
    TransformedEnv,
)

from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.watching.envs import env_copy
from rnncheck.watching.forms.own_env import OwnEnv, OwnRows
from rnncheck.watching.forms.plain_calls import ACTION, FLAG, OBSERVATION, PlainStep
from rnncheck.watching.forms.plain_policy import PlainEnv, makers_of

_REWARD, _DONE = "reward", ("done", "terminated", "truncated")


@dataclass(frozen=True)
class Names:
    """The entries of the loop's tensordict that are the env's: ``shown`` by the env's own names,
    and the action."""

    shown: Mapping[Key, Key]
    action: Key
    starts: bool  # the loop sets a start flag there
    one_hot: bool = False  # the env gets the number of the action that stands there


def action_entry(td: TensorDictBase, wrote: Iterable[Key], action: Any) -> Key | None:
    """Which of what modules wrote the env was stepped with, or with the number of it."""
    told = np.asarray(action).reshape(-1)
    given = [(key, td.get(key)) for key in wrote if key[0] != "next"]
    fitting = [key for key, one in given if np.array_equal(_numbers(one).reshape(-1), told)]
    fitting += [key for key, one in given if _is_one_hot(one, told)]
    return next(iter(fitting), None)


def _is_one_hot(value: Tensor, told: Any) -> bool:
    if value.is_floating_point() or value.ndim < 1 or value.shape[-1] < 2:
        return False
    flat = value.reshape(-1, value.shape[-1]).long()
    ones = bool((flat.sum(-1) == 1).all()) and bool(((flat == 0) | (flat == 1)).all())
    return ones and np.array_equal(flat.argmax(-1).cpu().numpy(), told)


def names_of(
    steps: Sequence[PlainStep], tds: Sequence[TensorDictBase], ahead: Sequence[Key], action: Key
) -> Names | None:
    """By what stood in the tensordicts at all of the steps, ``ahead`` of who acted. None where
    something that the env showed is in none of them."""
    found = dict[Key, Key]()
    for name, _ in _entries(steps[0].seen):
        fitting = (
            key
            for key in ahead
            if all(
                _is_shown(td.get(key), dict(_entries(step.seen))[name])
                for step, td in zip(steps, tds, strict=True)
            )
        )
        key = next(fitting, None)
        if key is not None:
            found[name] = key
    starts = (FLAG,) in set(ahead) - set(found.values())
    one_hot = tds[0].get(action).numel() != np.size(steps[0].action)
    return Names(found, action, starts, one_hot) if found else None


def as_td_step(td: TensorDictBase, step: PlainStep, names: Names) -> TensorDictBase:
    """``td`` as it was acted on, with what followed as TorchRL's envs give it."""
    lead = td.batch_size
    over, cut = (_flag(one, lead) for one in (step.terminated, step.truncated))
    flags = dict(zip(_DONE, (over | cut, over, cut), strict=True))
    reward = torch.as_tensor(np.asarray(step.reward)).float().reshape(*lead, 1)
    after = TensorDict({_REWARD: reward, **flags}, lead)
    shown = dict(_entries(step.after))
    for name, key in names.shown.items():
        like = td.get(key)
        after.set(key, torch.as_tensor(shown[name]).to(like.dtype).reshape(like.shape))
    if names.starts:
        after.set(FLAG, torch.zeros_like(td.get(FLAG)))
    made = td.clone(False)
    for key in tensor_keys(made):
        if key[0] == "next":
            after.set(key[1:], made.get(key))
    return made.set("next", after)


def env_of(step: PlainStep, td: TensorDictBase, names: Names) -> EnvBase:
    """One like the script's, with the loop's names. Raises ValueError where none can be made."""
    if td.batch_dims > 1 or (td.batch_dims == 0 and step.lead):
        raise ValueError(f"its tensordicts are of {list(td.batch_size)}")
    env = _base(step, batched=bool(td.batch_dims), one_hot=names.one_hot)
    told = {name: key for name, key in names.shown.items() if name != key}
    acted = [] if names.action == (ACTION,) else [names.action]
    parts: list[Transform] = [InitTracker()] if names.starts else []
    if told or acted:
        inner = [(ACTION,)] * len(acted)
        parts.insert(0, RenameTransform(list(told), list(told.values()), inner, acted))
    return TransformedEnv(env, Compose(*parts)) if parts else env


def _base(step: PlainStep, *, batched: bool, one_hot: bool) -> EnvBase:
    """With the env's own names."""
    env = step.env
    if isinstance(env, OwnEnv) and env.rows is not None:
        if one_hot:
            raise ValueError("envs of a class of one's own, side by side, get numbers of actions")
        return OwnRows(env_copy(env))
    return PlainEnv(makers_of(env, step.seen), {}, batched, one_hot=one_hot).base()


def _entries(shown: Any, above: Key = ()) -> Iterator[tuple[Key, Any]]:
    if isinstance(shown, Mapping):
        for name, one in shown.items():
            yield from _entries(one, (*above, str(name)))
    else:
        yield above or (OBSERVATION,), np.asarray(shown)


def _is_shown(value: Tensor, shown: Any) -> bool:
    """Whether the numbers are those that the env showed, in the type that they have here."""
    told = _numbers(value)
    return np.array_equal(told.reshape(-1), shown.astype(told.dtype).reshape(-1))


def _numbers(value: Tensor) -> Any:
    whole = value.detach().cpu()
    return (whole.float() if whole.dtype == torch.bfloat16 else whole).numpy()


def _flag(told: Any, lead: torch.Size) -> Tensor:
    return torch.as_tensor(np.asarray(told, dtype=bool)).reshape(*lead, 1)
