"""A training pass that the user's own switch selects: plain attributes of modules, or plain values
that these read by a global name, that differ between acting and training."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torchrl.modules import set_recurrent_mode

from rnncheck.pipeline.copying.closures import is_users_type
from rnncheck.pipeline.keys import Key, as_key, tensor_items
from rnncheck.watching.forms.episode_rows import marked_inside, one_episode_each
from rnncheck.watching.forms.named_switches import Switches, named_alone, named_set, named_switches
from rnncheck.watching.forms.plain_calls import MASK_OF_ROWS
from rnncheck.watching.seen import Acting, Called

MASKS = "masks"  # of every entry, as `pad_sequence(..., return_mask=True)` writes them
_INIT = "is_init"
_DONE = ("next", "done")
_BY_CHANCE = 4.6  # starts that would be inside of rows by chance: none is, once in a hundred times
_ABSENT = object()
_PLAIN = (bool, int, float, str, type(None))
_TRAINING = "training"  # of dropout and the like: seldom which pass is run
_NAMED = (0, 1, 2)  # numbers that name a pass
_BRANCHING = WeakKeyDictionary[type, bool]()
_DRAWS = {"dropout", "rand", "rand_like", "randn", "randn_like", "normal", "normal_", "bernoulli"}


def switches_of(module: nn.Module) -> Switches:
    """The plain attributes of all its parts, and those of the user's classes that they are of; and
    what their code reads by a global name."""
    found = {
        path: {
            name: value
            for name, value in {**_of_class(part), **vars(part)}.items()
            if isinstance(value, _PLAIN) and name[:1] != "_"
            if name != _TRAINING or _branches_on_training(type(part))
        }
        for path, part in module.named_modules()
    }
    return found | named_switches(module)


def _branches_on_training(kind: type) -> bool:
    """Whether methods of the user's class ask for ``self.training``, and none of them draws: that
    may select the pass."""
    if kind not in _BRANCHING:
        _BRANCHING[kind] = _asks_and_draws_nothing(kind)
    return _BRANCHING[kind]


def _asks_and_draws_nothing(kind: type) -> bool:
    methods = [
        method.__code__
        for one in kind.__mro__
        if is_users_type(one)
        for name, method in vars(one).items()
        if isinstance(method, FunctionType) and name != "__init__"
    ]
    names = {name for code in methods for name in code.co_names}
    return _TRAINING in names and not names & _DRAWS


def _of_class(part: nn.Module) -> dict[str, Any]:
    """What a part has of its classes until it is set."""
    theirs = [kind for kind in type(part).__mro__ if is_users_type(kind)]
    return {name: value for kind in reversed(theirs) for name, value in vars(kind).items()}


def switched_on(acting: Switches, training: Switches) -> Switches:
    """What has another value while training."""
    found: Switches = {}
    for path, held in training.items():
        before = acting.get(path, {})
        other = {
            k: v
            for k, v in held.items()
            if k in before and before[k] != v and not (_counts(v) or _counts(before[k]))
        }
        if other:
            found[path] = other
    return found


def own_switches(policy: nn.Module, acting: Switches) -> Switches:
    """What parts of the user's own classes had set while acting and have otherwise by now: no
    numbers, which a part may count on."""
    return _of_own_parts(policy, switched_on(switches_of(policy), acting))


def set_otherwise(acting: Acting | None) -> Switches:
    """What parts of who acts, of the user's own classes, have set by now and had otherwise as it
    acted; and what its code reads by a name."""
    policy = None if acting is None else acting.policy
    if acting is None or not isinstance(policy, nn.Module) or not acting.switches:
        return {}
    found = switched_on(acting.switches, switches_of(policy))
    return {**_of_own_parts(policy, found), **named_alone(found)}


def _of_own_parts(policy: nn.Module, found: Switches) -> Switches:
    theirs = {path for path, part in policy.named_modules() if is_users_type(type(part))}
    plain = {
        path: {name: value for name, value in held.items() if not _is_number(value)}
        for path, held in found.items()
        if path in theirs
    }
    return {path: held for path, held in plain.items() if held}


def _counts(value: Any) -> bool:
    """Whether it counts or scales something, as an exploration's eps does, and names no pass."""
    return _is_number(value) and value not in _NAMED


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def starts_inside(batches: Iterable[TensorDictBase]) -> bool:
    """Whether a trajectory begins inside a row: else a pass need not know how to start anew, and
    batches that hold such starts are none that it gets."""
    return any(bool(_starts(batch)[:, 1:].any()) for batch in batches)


def rows_of_their_own(acted: Sequence[TensorDictBase], loss: Called) -> bool:
    """Whether the script gives every trajectory a row of its own: what was collected has starts
    inside its rows, what is trained on has none, and most of its rows begin with one."""
    if loss.inputs and not any(map(_has_flags, loss.inputs)):
        return all(one_episode_each(one, acted) for one in loss.inputs)
    if not loss.inputs or starts_inside(loss.inputs) or not starts_inside(acted):
        return False
    begin = torch.cat([_starts(batch)[:, 0] for batch in loss.inputs])
    if int(begin.sum()) * 2 <= len(begin):
        return False
    return not any(one.batch_dims == 2 and marked_inside(one, acted) for one in loss.inputs)


def never_cross(acted: Sequence[TensorDictBase], trained: Sequence[TensorDictBase]) -> bool:
    """Whether rows that are trained on are pieces of one trajectory each, and no chance is that:
    none of them has a start or an end inside, by its flags, and steps that were collected have."""
    if not trained or not all(map(_has_flags, trained)) or starts_inside(trained):
        return False
    for batch in trained:
        ends = batch.get(_DONE, None)
        if ends is None or bool(_laid(ends, batch)[:, :-1].any()):
            return False
    begins = torch.cat([_starts(batch)[:, 1:].flatten() for batch in acted])
    share = float(begins.float().mean()) if len(begins) else 0.0
    places = sum(batch.numel() - batch.numel() // batch.shape[-1] for batch in trained)
    return bool(places * share > _BY_CHANCE)


def _laid(flags: Tensor, batch: TensorDictBase) -> Tensor:
    """``[rows, steps, ...]``."""
    return flags.reshape(-1, batch.shape[-1], flags.numel() // batch.numel())


def _has_flags(batch: TensorDictBase) -> bool:
    keys = map(as_key, batch.keys(True, True))
    return any(key[-1] == _INIT and key[0] != MASKS for key in keys)


def _starts(batch: TensorDictBase) -> Tensor:
    """``[rows, steps]``: the start flags."""
    rows = batch.reshape(-1, batch.shape[-1])
    found = torch.zeros(rows.shape, dtype=torch.bool)
    for key in rows.keys(True, True):
        parts = as_key(key)
        if parts[-1] == _INIT and parts[0] not in ("next", MASKS):
            found |= rows.get(key).reshape(*rows.shape, -1).any(-1).cpu()
    return found


class SwitchedPass:
    """The policy on a batch as the script runs it in training."""

    def __init__(self, switches: Switches, mode: bool | None) -> None:
        self._switches, self._mode = switches, mode

    def __call__(self, batch: TensorDictBase, policy: nn.Module) -> Any:
        """Run ``policy`` with the switches of training."""
        with switched(policy, self._switches), set_recurrent_mode(self._mode):
            return policy(batch)


class RowsOfTheirOwn:
    """A pass that gets each trajectory in a row of its own, with zeros behind its end, as the
    script's rows are."""

    def __init__(self, over_rows: SwitchedPass) -> None:
        self._over_rows = over_rows

    def __call__(self, batch: TensorDictBase, policy: nn.Module) -> TensorDictBase:
        """What the pass gives, laid out as ``batch`` is."""
        begins = _starts(batch)
        begins[:, 0] = True
        first = begins.flatten().nonzero().squeeze(-1)
        row = begins.flatten().cumsum(0) - 1
        step = torch.arange(len(row)) - first[row]
        taken = torch.full((len(first), int(step.max()) + 1), -1)
        taken[row, step] = torch.arange(len(row))
        rows = _padded(batch.reshape(-1)[taken.clamp_min(0)], taken >= 0)
        given = dict(tensor_items(rows))
        out = self._over_rows(rows, policy)
        made = {key: v for key, v in tensor_items(out) if v is not given.get(key)}
        laid = {key: v[row, step].reshape(*batch.shape, *v.shape[2:]) for key, v in made.items()}
        return TensorDict(laid, batch_size=batch.batch_size)


class EpisodesAlone:
    """A pass that gets one trajectory at a time, as long as it is: the script trains on whole
    episodes, and on one in each call, or in each row of it where it takes ``several``.
    ``from_starts``: it is given no state, so that a trajectory can only begin there."""

    of_the_loss = True

    def __init__(
        self, over_sequences: Any, *, from_starts: bool = False, several: bool = False
    ) -> None:
        self._over_sequences, self.from_starts = over_sequences, from_starts
        self._several = several

    @property
    def trains_apart(self) -> bool:
        """As of the pass."""
        return bool(getattr(self._over_sequences, "trains_apart", False))

    @property
    def longest(self) -> int | None:
        """How many steps a trajectory may have at most; None where it may have any number."""
        found: int | None = getattr(self._over_sequences, "longest", None)
        return found

    @property
    def burnt_alone(self) -> int:
        """How many first steps of each trajectory it runs without a graph."""
        return int(getattr(self._over_sequences, "burnt", 0))

    def __call__(self, batch: TensorDictBase) -> dict[Key, Tensor]:
        """What the pass gives, laid out as ``batch`` ``[rows, steps]`` is."""
        begins, rows = _starts(batch), list[dict[Key, Tensor]]()
        if self._several and not bool(begins[:, 1:].any()):
            found: dict[Key, Tensor] = self._over_sequences(batch)
            return found
        begins[:, 0] = True
        for row, starts in enumerate(begins):
            ends = [*starts.nonzero().flatten().tolist(), batch.shape[1]]
            parts = [
                self._over_data(batch[row : row + 1, begin:end])
                for begin, end in itertools.pairwise(ends)
            ]
            rows.append({key: torch.cat([one[key] for one in parts], 1) for key in parts[0]})
        return {key: torch.cat([one[key] for one in rows]) for key in rows[0]}

    def _over_data(self, one: TensorDictBase) -> dict[Key, Tensor]:
        """Of one trajectory, with zeros where its mask says that nothing is there any more."""
        mask, steps = one.get(MASK_OF_ROWS, None), one.shape[1]
        count = steps if mask is None else int(mask.reshape(-1).sum())
        if not 0 < count < steps or not bool(mask.reshape(-1)[:count].all()):
            found: dict[Key, Tensor] = self._over_sequences(one)
            return found
        made: dict[Key, Tensor] = self._over_sequences(one[:, :count])
        return {
            key: torch.cat([v, torch.zeros_like(v[:, :1]).repeat_interleave(steps - count, 1)], 1)
            for key, v in made.items()
        }

    def held_parts(self) -> list[tuple[str, Any]]:
        """What it can reach."""
        return [("pass", self._over_sequences)]


def _padded(rows: TensorDictBase, there: Tensor) -> TensorDictBase:
    def blank(value: Tensor) -> Tensor:
        wide = there.to(value.device).reshape(*there.shape, *[1] * (value.ndim - there.ndim))
        return torch.where(wide, value, torch.zeros_like(value))

    return rows.apply(blank)


def own_pass(acted: Sequence[TensorDictBase], loss: Called) -> SwitchedPass | RowsOfTheirOwn | None:
    """The pass that the user's switch selects; None where there is no switch, or it cannot be told
    what rows the pass gets."""
    if not loss.switches:
        return None
    over_rows = SwitchedPass(loss.switches, loss.modes.recurrent)
    if starts_inside(loss.inputs):
        return over_rows
    return RowsOfTheirOwn(over_rows) if rows_of_their_own(acted, loss) else None


@contextmanager
def switched(module: nn.Module, switches: Switches) -> Iterator[None]:
    """Set the attributes inside, and put them back."""
    parts = dict(module.named_modules())
    known = [
        (parts[p], k, v) for p, held in switches.items() if p in parts for k, v in held.items()
    ]
    before = [(part, name, vars(part).get(name, _ABSENT)) for part, name, _ in known]
    for part, name, value in known:
        setattr(part, name, value)
    try:
        with named_set(module, switches):
            yield
    finally:
        for part, name, value in before:
            if value is _ABSENT:
                delattr(part, name)
            else:
                setattr(part, name, value)
