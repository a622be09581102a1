"""What a stage or a check that did not end well did: it raised, or its process came to an end."""

from __future__ import annotations

# How the supervisor's sentences begin where nothing was raised.
ENDED = "ended the process"
KILLED = "its process was killed"
HUNG = "did not end within"
CLOSED = "closed the pipe"
FORKED = "its code forked the process"


def broke_off(detail: str) -> bool:
    """Whether ``detail`` says how a process ended, in place of what was raised."""
    return detail.startswith((ENDED, KILLED, HUNG, CLOSED, FORKED))


def raised(who: str, detail: str) -> str:
    """``env raised: ...``, or ``env ended the process, ...``."""
    if not broke_off(detail):
        return f"{who} raised: {detail}"
    return f"{who}: {detail}" if detail.startswith("its ") else f"{who} {detail}"
