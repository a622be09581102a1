"""Which of the installed packages train agents: what a script has them do is its own doing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

_NETWORKS = "torch"
_ENVS = {"gymnasium", "gym", "pettingzoo", "torchrl", "tensordict"}
_NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?")
_INFO = ".dist-info"


@cache
def trains_agents(folder: str) -> bool:
    """Whether the package in this folder is of a distribution that needs torch, and one of the
    libraries that make envs or tell of them: a library of agents, or of envs that are made of
    tensors."""
    home = Path(folder)
    return any(_needs_both(name) for name in _distributions(home))


def _distributions(home: Path) -> Iterator[str]:
    """The names of those that may have brought the package: they begin with its own."""
    own = _plain(home.name)
    yield from (name for name in _installed(home.parent) if _plain(name).startswith(own))


@cache
def _installed(folder: Path) -> tuple[str, ...]:
    try:
        beside = [one.name for one in folder.iterdir() if one.name.endswith(_INFO)]
    except OSError:
        return ()
    return tuple(one.removesuffix(_INFO).rpartition("-")[0] for one in beside)


@cache
def _needs_both(name: str) -> bool:
    needed = _needed(name, frozenset())
    return _NETWORKS in needed | _extras(name) and bool(_ENVS & needed)


def _needed(name: str, above: frozenset[str]) -> frozenset[str]:
    """What it needs, and what that needs, without what some need only for more."""
    direct = {one for one, more in _requirements(name) if not more} - above
    found = frozenset(direct)
    for one in direct - _ENVS - {_NETWORKS}:
        found |= _needed(one, above | found)
    return found


def _extras(name: str) -> set[str]:
    return {one for one, more in _requirements(name) if more}


@cache
def _requirements(name: str) -> tuple[tuple[str, bool], ...]:
    """Each by its name, and whether it is for an extra; none of what is not installed."""
    try:
        lines = distribution(name).requires or []
    except PackageNotFoundError:
        return ()
    found = ((_NAME.match(line), "extra ==" in line) for line in lines)
    return tuple((_plain(one[0]), more) for one, more in found if one is not None)


def _plain(name: str) -> str:
    """As the index of packages compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()
