"""Which numbers and parts of a spec may become smaller, and to what.

Each step has choices, the smallest first; a choice is overrides that belong together, with what
they replace.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from rnncheck.printable import json_text
from rnncheck.results.model import Stage
from rnncheck.spec.dump import plain_spec
from rnncheck.spec.model import Spec

_EPISODES = (2, 4, 8)  # steps of an episode: two of two steps are four with a boundary inside
# Steps of a row that is collected; with 5 it ends inside an episode of 2.
_LENGTHS = (4, 5, 8, 16, 32)
_SLICES = ((4, 2), (8, 4), (16, 4), (32, 8))  # steps of a batch and of a slice in it
_HIDDEN = (2, 4, 8)  # units of a recurrent module
_BEHIND = {  # the sections that a check of a stage does not look at
    Stage.ENV: ("loss", "advantage", "batch", "replay", "critic"),
    Stage.POLICY: ("loss", "advantage", "batch", "replay", "critic"),
    Stage.CRITIC: ("loss", "advantage", "batch", "replay"),
    Stage.COLLECT: ("loss", "advantage", "batch", "replay", "critic"),
    Stage.REPLAY: ("loss", "advantage"),
    Stage.ADVANTAGE: ("loss",),
}

# No key of a spec: the steps after which the envs end their episodes, whatever makes them.
EPISODES, AS_MADE = "episodes", "as the env makes them"
# What a fault may be about: several envs, whole episodes, the seam between two batches.
OFTEN_NEEDED = ("env.workers", EPISODES, "collect.batches")
THERE = "there"  # what a section that is left out replaces

Choice = dict[str, str]  # override -> what it replaces, as JSON


@dataclass(frozen=True)
class Step:
    """One thing that may become smaller."""

    choices: tuple[Choice, ...]

    def changes(self, key: str) -> bool:
        """Whether it is about this key."""
        return any(_key(text) == key for choice in self.choices for text in choice)

    def at_level(self, level: int) -> Choice:
        """The choice at this place, or the last."""
        return self.choices[min(level, len(self.choices) - 1)]


def steps_of(spec: Spec, stage: Stage) -> list[Step]:
    """All that may become smaller in ``spec`` for a check of ``stage``: what makes it smallest
    first."""
    plain = plain_spec(spec)
    found = [*_parts(plain, stage), *_data(plain)]
    if "use" in plain["env"] and plain["env"]["primers"] == "auto":  # else the sizes are the env's
        found += _networks(plain)
    return [step for step in found if step.choices]


def overrides_in(texts: Iterable[str]) -> list[str]:
    """Those that are overrides of the spec."""
    return [text for text in texts if _key(text) != EPISODES]


def episodes_in(texts: Iterable[str]) -> int:
    """After how many steps episodes are ended; 0 where they are not."""
    return next((int(text.partition("=")[2]) for text in texts if _key(text) == EPISODES), 0)


def still_meant(texts: Sequence[str], was: Sequence[str], spec: Spec) -> list[str]:
    """Those of ``texts`` that replace in ``spec`` what they replaced first: what the user has
    changed since is the user's."""
    plain = plain_spec(spec)
    return [
        text
        for text, before in zip(texts, was, strict=True)
        if before == AS_MADE or _found(plain, _key(text), before)
    ]


def _found(plain: Any, key: str, before: str) -> bool:
    for part in key.split("."):
        try:
            plain = plain[int(part)] if isinstance(plain, list) else plain[part]
        except (KeyError, IndexError, TypeError, ValueError):
            plain = None
    return plain is not None if before == THERE else json_text(plain, nan=True) == before


def _key(text: str) -> str:
    return text.partition("=")[0]


def _change(key: str, value: Any, was: Any) -> Choice:
    return {f"{key}={json_text(value)}": json_text(was, nan=True)}


def _parts(plain: dict[str, Any], stage: Stage) -> Iterator[Step]:
    """Sections that the check does not look at."""
    for section in _BEHIND.get(stage, ()):
        if plain.get(section) is not None:
            yield Step(({f"{section}=null": THERE},))


def _data(plain: dict[str, Any]) -> Iterator[Step]:
    """Envs, episodes, batches and slices."""
    collect = plain.get("collect") or {}
    yield from _collected(collect)
    yield Step(tuple({f"{EPISODES}={steps}": AS_MADE} for steps in _EPISODES))
    yield _numbers("env.workers", plain["env"].get("workers"), (1, 2))
    yield from _sampled(plain.get("replay") or {})
    yield _numbers("verify.steps", plain["verify"]["steps"], (4, 8))


def _numbers(key: str, now: Any, choices: tuple[int, ...]) -> Step:
    if not _is_number(now):
        return Step(())
    return Step(tuple(_change(key, one, now) for one in choices if one < now))


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _collected(collect: dict[str, Any]) -> Iterator[Step]:
    frames = collect.get("frames_per_batch")
    yield _numbers("collect.frames_per_batch", frames, _LENGTHS)
    batches = collect.get("batches")
    if collect and (batches is None or (_is_number(batches) and batches > 1)):
        yield Step((_change("collect.batches", 1, batches),))
    if "factory" in collect:  # how many of what, it calls as it likes
        own = [(key, now) for key, now in collect.items() if key not in ("factory", "batches")]
        yield from (_numbers(f"collect.{key}", now, _LENGTHS) for key, now in own)
        return
    yield _numbers("collect.init_random_frames", collect.get("init_random_frames"), (4,))
    yield _numbers("collect.workers", collect.get("workers"), (1, 2))


def _sampled(replay: dict[str, Any]) -> Iterator[Step]:
    """Batch size and slice length, which must divide each other."""
    size, sampler = replay.get("batch_size"), replay.get("sampler") or {}
    length, count = sampler.get("slice_len"), sampler.get("num_slices")
    if _is_number(size) and _is_number(length):
        yield Step(
            tuple(
                _change("replay.batch_size", steps, size)
                | _change("replay.sampler.slice_len", part, length)
                for steps, part in _SLICES
                if steps < size and part <= length
            )
        )
    elif _is_number(size) and _is_number(count):
        yield Step(
            tuple(
                _change("replay.batch_size", steps, size)
                | _change("replay.sampler.num_slices", 2, count)
                for steps, _ in _SLICES
                if steps < size
            )
        )
    else:
        yield _numbers("replay.batch_size", size, (1, 2, 4, 8))


def _networks(plain: dict[str, Any]) -> Iterator[Step]:
    """Units and layers, all networks alike."""
    leaves = [leaf for name in ("policy", "critic") for leaf in _leaves(plain.get(name), name)]
    hidden = [(key, now) for key, now in leaves if _last(key) in ("hidden_size", "hidden")]
    yield Step(tuple(_together(hidden, size) for size in _HIDDEN if _together(hidden, size)))
    layers = [(key, now) for key, now in leaves if _last(key) == "num_layers"]
    yield Step((_together(layers, 1),) if _together(layers, 1) else ())
    yield from (_cells(key, now) for key, now in leaves if _last(key) == "num_cells")


def _together(found: list[tuple[str, Any]], size: int) -> Choice:
    changes = [_change(key, size, now) for key, now in found if _is_number(now) and size < now]
    return dict(itertools.chain.from_iterable(one.items() for one in changes))


def _cells(key: str, now: Any) -> Step:
    """Layers of an MLP."""
    if not isinstance(now, list) or not now:
        return Step(())
    return Step((_change(key, [], now), _change(key, [2], now)))


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Dotted paths and values below a network; a list of numbers is one value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}")
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{number}")
    else:
        yield path, value
