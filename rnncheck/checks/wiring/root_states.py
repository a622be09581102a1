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
    """Modules and the keys that they write to the root as a state: read by themselves, or primed by
    the env and read by a module before them."""
    parts = innermost(module)
    handed_on = {key for _, part in parts for key in declared(part, "out_keys") if key[0] == "next"}
    produced, found = set(evidence.env.own), list[tuple[str, Key]]()
    read_before = set[Key]()
    for path, part in parts:
        reads, writes = declared(part, "in_keys"), declared(part, "out_keys")
        states = {*reads, *(read_before & set(evidence.env.primed))}
        for key in dict.fromkeys(writes):
            if key in states and key not in produced and next_key(key) not in handed_on:
                found.append((path or type(part).__name__, key))
        read_before |= set(reads) - produced
        produced |= set(writes)
    return found
