"""States that a module writes back to the root key."""

from __future__ import annotations

from torch import nn

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.pipeline.keys import Key, declared
from rnncheck.pipeline.subject.subject import Subject, innermost, next_key


def root_states(evidence: Evidence, subject: Subject) -> list[tuple[str, Key]]:
    """The rewritten root states of one subject."""
    return rewritten(subject.module, evidence)


def rewritten(module: nn.Module, evidence: Evidence) -> list[tuple[str, Key]]:
    """Modules and the keys that they read and write back to the root as a state."""
    parts = innermost(module)
    handed_on = {key for _, part in parts for key in declared(part, "out_keys") if key[0] == "next"}
    produced, found = set(evidence.env.own), list[tuple[str, Key]]()
    for path, part in parts:
        reads, writes = declared(part, "in_keys"), declared(part, "out_keys")
        for key in reads:
            if key in writes and key not in produced and next_key(key) not in handed_on:
                found.append((path or type(part).__name__, key))
        produced |= set(writes)
    return found
