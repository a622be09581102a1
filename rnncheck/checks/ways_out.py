"""What to do about the errors that recurrent modules are known to raise inside estimators and losses."""

from __future__ import annotations

import re

from rnncheck.errors import StageError
from rnncheck.pipeline.model import Pipeline
from rnncheck.results.model import Finding, Source, Stage

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


def cannot_run(code: str, pipeline: Pipeline, stage: Stage, failure: StageError) -> Finding:
    """The finding of a stage that raises, at the user's own line where there is one."""
    cause, fix = way_out(failure.message)
    source, place = pipeline.source(stage), failure.place
    if place is not None:
        source = Source(place.path, place.line, place.column, "python", str(stage))
    return Finding(
        code=code,
        stage=stage,
        message=f"the {stage} raises: {failure.message[:300]}",
        quantity=f"runs of the {stage} that raise",
        measured=1.0,
        bound=0.0,
        bound_formula="none",
        passing_bound=1.0,
        cause=cause,
        fix=fix,
        source=source,
    )
