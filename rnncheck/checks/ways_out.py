"""What to do about the errors that recurrent modules are known to raise inside estimators and losses."""

from __future__ import annotations

import re

WAYS: tuple[tuple[str, str, str], ...] = (
    (
        r"vmap|data-dependent|batched tensor|\.item\(\) on a Tensor|functorch",
        "the pad backend splits by is_init, which depends on the data and cannot run under vmap",
        "give the estimator shifted=True or deactivate_vmap=True, or the module recurrent_backend='scan'",
    ),
    (
        r"dropout|proj_size|bidirectional",
        "this backend does not support dropout, proj_size or bidirectional modules",
        "use recurrent_backend='pad', or leave these arguments out",
    ),
    (
        r"is_init",
        "the batch has no start flag",
        "append InitTracker to the env, and keep is_init through replay",
    ),
    (
        r"[Ee]xpected a cuda device|CUDA",
        "the triton backend runs on CUDA only",
        "use recurrent_backend='auto', 'pad' or 'scan' on this device",
    ),
    (
        r"double backward",
        "the scan backend has no second derivative",
        "use recurrent_backend='pad' for losses that differentiate a gradient",
    ),
    (
        r"\bkey\b|KeyError|not found",
        "the batch lacks an entry that is read",
        "add the stage or key that writes it (advantage, log-probability, state), or rename it with `keys`",
    ),
)
UNKNOWN = (
    "it raised in the configuration of this spec",
    "look at the named line; the batch that it was called on is the pipeline's own",
)


def way_out(message: str) -> tuple[str, str]:
    """Cause and fix for an error message."""
    for pattern, cause, fix in WAYS:
        if re.search(pattern, message):
            return cause, fix
    return UNKNOWN
