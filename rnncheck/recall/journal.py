"""The answers so far on the disk, for ``--resume``: one file, written anew with each answer."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncheck.errors import Place, UserError
from rnncheck.printable import json_text
from rnncheck.results.environment import current_environment
from rnncheck.results.files import code_hash, write_atomic
from rnncheck.results.memory import MemoryResult
from rnncheck.results.plain import plain_value
from rnncheck.spec.model import Spec

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_HINT = "start anew with `rnncheck memory`"


@dataclass
class Answers:
    """``head`` says what the answers belong to: spec, code, weights, machine."""

    path: Path
    head: dict[str, Any]
    found: MemoryResult = field(default_factory=MemoryResult)

    def keep(self, result: MemoryResult) -> None:
        """On the disk when this returns. Raises OutputError."""
        self.found = result
        content = {"head": plain_value(self.head), "memory": plain_value(result)}
        write_atomic(self.path, json_text(content) + "\n", follow=False)

    def resume(self) -> None:
        """Read what an earlier run kept. Raises UserError where that belongs to something else."""
        from pydantic import ValidationError

        place = Place(str(self.path))
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            other, found = data["head"], _adapter().validate_python(data["memory"])
        except OSError:
            said = "there is no study to resume"
            raise UserError(said, place=place, hint=_HINT) from None
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            said = "this is no study that can be resumed"
            raise UserError(said, place=place, hint=_HINT) from error
        mine = plain_value(self.head)
        if differing := [name for name in mine if mine[name] != other.get(name)]:
            said = f"the study cannot be resumed: its {differing[0]} is another"
            raise UserError(said, place=place, hint=_HINT)
        self.found = found


def head_of_study(spec: Spec, older: Spec | None) -> dict[str, Any]:
    """What the answers of two commands must share."""
    return {
        "spec": spec.hash,
        "code": code_hash(spec.folder),
        "weights": _weights_hash(spec),
        "older": None if older is None else _weights_hash(older),
        "environment": current_environment(spec.device),
    }


def _weights_hash(spec: Spec) -> str:
    """Of the files' content: a checkpoint is written again under its name."""
    networks = (spec.policy, spec.critic) if spec.critic is not None else (spec.policy,)
    paths = [spec.folder / one.weights for one in networks if one.weights]
    found = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()]
    return " ".join(found)


def _adapter() -> TypeAdapter[MemoryResult]:
    from pydantic import TypeAdapter

    return TypeAdapter(MemoryResult)
