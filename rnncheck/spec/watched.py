"""The spec of a script of which nothing has been seen yet."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from rnncheck.errors import Place
from rnncheck.spec.model import EnvSpec, NetworkSpec, Spec
from rnncheck.spec.settings import VerifySpec

_LONGEST = 200  # characters of a name


def unseen(script: str, seed: int, verify: VerifySpec, arguments: Sequence[str] = ()) -> Spec:
    """A name, a place and the settings; its parts are not there."""
    name = Path(script).stem[:_LONGEST] or script[:_LONGEST]
    spec = Spec(schema=1, name=name, seed=seed, env=EnvSpec(), policy=NetworkSpec(), verify=verify)
    spec._path, spec._places = script, {(): Place(script)}
    spec._hash = hashlib.sha256("\0".join([script, *arguments]).encode()).hexdigest()
    return spec
