"""Parts of the network that is trained, where another copy of it acts and is given its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from rnncheck.pipeline.copying.holdings import held_modules
from rnncheck.watching.forms.part_outputs import innermost_parts


def twins_of(parts: Mapping[str, nn.Module], holder: Any) -> dict[str, nn.Module]:
    """For each part one with the same weights, number by number, of what a call of the ``holder``
    can reach; empty where one of them has none, or several networks have such."""
    networks = {id(network): network for _, network in held_modules(holder)}.values()
    found = [twins for one in networks if (twins := _in(one, parts))]
    own = {id(part) for part in parts.values()}
    others = [one for one in found if not own & {id(part) for part in one.values()}]
    return others[0] if len(others) == 1 else {}


def _in(network: nn.Module, parts: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    inside = list(innermost_parts(network).values())
    pairs = [(path, next(_alike(part, inside), None)) for path, part in parts.items()]
    return {path: twin for path, twin in pairs if twin is not None} if _whole(pairs) else {}


def _whole(pairs: list[tuple[str, nn.Module | None]]) -> bool:
    return bool(pairs) and all(twin is not None for _, twin in pairs)


def _alike(part: nn.Module, others: list[nn.Module]) -> Iterator[nn.Module]:
    mine = list(part.parameters())
    for other in others:
        theirs = list(other.parameters())
        same = type(other) is type(part) and len(mine) == len(theirs)
        if same and all(
            a.shape == b.shape and torch.equal(a, b) for a, b in zip(mine, theirs, strict=True)
        ):
            yield other
