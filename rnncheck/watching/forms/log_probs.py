"""What is made of a policy's outputs at every step and kept beside them: the log-probability of the
action, and the entropy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Distribution, Independent, Normal

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.part_outputs import PARTS

_ACTION: Key = ("action",)  # what was drawn is no mean of it
DERIVED = ("log_prob", "prob", "entropy")  # under which they stand in a batch
_SUM_CLOSE = 1e-4  # of probabilities in float32
_MOST_CHOICES = 4  # that one action is made of
_MOST_WAYS = 64  # to take them from a policy's outputs: an env's own sizes are not asked


def drawn_by(distribution: Distribution) -> dict[str, Any]:
    """The tensors that it was made with; none of one that is not known."""
    if isinstance(distribution, Independent):
        return drawn_by(distribution.base_dist)
    held = vars(distribution)
    if isinstance(distribution, (Categorical, Bernoulli)):
        name = "logits" if "logits" in held else "probs"  # the other one may be made later on
        return {"logits": held[name] if name == "logits" else held[name].log()}
    return {"loc": held["loc"], "scale": held["scale"]} if type(distribution) is Normal else {}


def derived_of(
    outputs: Mapping[Key, Tensor], action: Tensor, scales: Mapping[Key, Tensor] | None = None
) -> dict[Key, Tensor]:
    """Of ``outputs`` ``[rows, steps, ...]`` of the calls that acted and the actions; ``scales`` are
    deviations that none of them gave."""
    rows, steps = action.shape[:2]
    mine, beside = action.reshape(rows, steps, -1), scales or {}
    flat = {key: one.to(action.device).reshape(rows, steps, -1) for key, one in outputs.items()}
    found = _derived(flat, mine, "", beside) | _of_several(flat, mine)
    given = {key: one for key, one in flat.items() if key[0] != PARTS}
    for key, drawn in given.items() if mine.is_floating_point() else ():
        if drawn.shape == mine.shape and not torch.equal(drawn, mine):  # clipped for the env
            others = {name: one for name, one in flat.items() if name != key}
            found |= _derived(others, drawn, f" at {key[-1]}", beside)
    return found


def scales_of(policy: nn.Module, action: Tensor) -> dict[Key, Tensor]:
    """Deviations that a policy learns beside its networks, one for each number of an action
    ``[rows, steps, ...]``, as they are and as logarithms, at every step."""
    lead, found = action.shape[:2], dict[Key, Tensor]()
    own = [
        (f"{path}.{name}", one)
        for path, part in policy.named_modules()
        if not type(part).__module__.startswith("torch.")  # biases of layers are none
        for name, one in part._parameters.items()
        if one is not None
    ]
    for name, one in own if action.is_floating_point() else ():
        if one.numel() == action[0, 0].numel() and one.is_floating_point():
            held = one.to(action.device).reshape(-1)
            for told, scale in ((name, held), (f"exp {name}", held.exp())):
                found[(told,)] = scale.expand(*lead, -1)
    return found


def _derived(
    flat: Mapping[Key, Tensor], drawn: Tensor, at: str, scales: Mapping[Key, Tensor]
) -> dict[Key, Tensor]:
    found = dict[Key, Tensor]()
    for of, one in _distributions(flat, drawn, scales):
        told = one.log_prob(drawn[..., 0] if isinstance(one, Categorical) else drawn)
        for name, value in zip(DERIVED, (told, told.exp(), one.entropy()), strict=True):
            found[name, of + at] = value
            if value.ndim > drawn.ndim - 1:
                found[name, f"{of}{at}, summed"] = value.sum(-1)
    return found


def _of_several(flat: Mapping[Key, Tensor], action: Tensor) -> dict[Key, Tensor]:
    """The sums over the choices that an action is made of, each of which has logits of its own."""
    found = dict[Key, Tensor]()
    if action.is_floating_point() or not 2 <= action.shape[-1] <= _MOST_CHOICES:
        return found
    for of, heads in islice(_heads(flat, action), _MOST_WAYS):
        each = [Categorical(logits=one, validate_args=False) for one in heads]
        told = sum(one.log_prob(action[..., n]) for n, one in enumerate(each))
        assert isinstance(told, Tensor)
        entropy = torch.stack([one.entropy() for one in each]).sum(0)
        for name, value in zip(DERIVED, (told, told.exp(), entropy), strict=True):
            found[name, of] = value
    return found


def _heads(flat: Mapping[Key, Tensor], action: Tensor) -> Iterator[tuple[str, tuple[Tensor, ...]]]:
    """Logits for each of the choices: one output for each of them, or one that is cut in parts."""
    least = [int(one) + 1 for one in action.flatten(0, -2).amax(0)]
    fitting = [[key for key, one in flat.items() if one.shape[-1] >= size > 1] for size in least]
    for keys in product(*fitting):
        if len(set(keys)) == len(keys):
            yield " and ".join(str(key[-1]) for key in keys), tuple(flat[key] for key in keys)
    for key, one in flat.items():
        for sizes in product(*(range(size, one.shape[-1]) for size in least[:-1])):
            last = one.shape[-1] - sum(sizes)
            if last >= least[-1]:
                cut = one.split([*sizes, last], -1)
                yield f"{key[-1]} in {[*sizes, last]}", cut


def _distributions(
    flat: Mapping[Key, Tensor], action: Tensor, scales: Mapping[Key, Tensor]
) -> Iterator[tuple[str, Distribution]]:
    """Those that the outputs may be the parameters of, with their names."""
    for key, one in flat.items():
        if action.is_floating_point():
            if one.shape != action.shape or key == _ACTION:
                continue
            for other, scale in {**flat, **scales}.items():
                if other != key and scale.shape == one.shape and bool((scale > 0).all()):
                    yield f"{key[-1]} and {other[-1]}", Normal(one, scale, validate_args=False)
        elif action.shape[-1] == 1 and one.shape[-1] > max(1, int(action.max())):
            yield key[-1], Categorical(logits=one, validate_args=False)
            summed = one.sum(-1)
            if bool((one >= 0).all()) and bool(((summed - 1).abs() < _SUM_CLOSE).all()):
                yield f"{key[-1]}, probabilities", Categorical(probs=one, validate_args=False)


def is_derived(key: Key) -> bool:
    """Whether the entry is one of these: computed here, and so alike but not to the bit."""
    return key[0] in DERIVED


def close(mine: Tensor, theirs: Tensor) -> bool:
    """Whether the script computed the same."""
    return mine.is_floating_point() and torch.allclose(
        mine.double(), theirs.double(), rtol=1e-4, atol=1e-5
    )
