"""What to do about the errors that recurrent policies, estimators and losses are known to raise."""

from __future__ import annotations

import re

from rnncheck.checks.rule import Observation
from rnncheck.errors import Place, StageError
from rnncheck.pipeline.guard.user_frames import passed_through, read_frame
from rnncheck.pipeline.instruments.module_calls import state_keys_in
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.model import Pipeline
from rnncheck.results.model import Source, Stage

_WAYS: tuple[tuple[str, str, str], ...] = (
    (
        # The first is a slip in TorchRL's own message of the second.
        r"__name___|1-dimensional\s+tensordict",
        "this loss takes flat batches only: [steps], not [rows, steps]",
        (
            "flatten the batch behind the collector, data.reshape(-1), with is_init true at every"
            " row's start; or sample slices from a replay buffer"
        ),
    ),
    (
        r"more out_keys than tensors",
        "a module returns fewer tensors than it has out_keys",
        (
            "return one tensor for each out_key: for loc and scale, put NormalParamExtractor()"
            " behind the network that gives both, nn.Sequential(network, NormalParamExtractor())"
        ),
    ),
    (
        r"vmap|Batching rule|data-dependent|batched tensor|\.item\(\) on a Tensor|functorch",
        (
            "a recurrent module is called under vmap: the pad backend splits by is_init, which"
            " depends on the data, and the scan backend runs there only as an LSTM whose states are"
            " in the batch"
        ),
        (
            "for an estimator shifted=True: one pass over T+1 steps (deactivate_vmap=True runs as"
            " well, but starts its next pass from the states in the batch, see VL602); for a loss"
            " deactivate_vmap=True"
        ),
    ),
    (
        r"name starts with loss",
        (
            "a training step adds up what the loss returns under names that start with `loss`, and"
            " there is none"
        ),
        "return a tensordict (or a dict) such as {'loss_value': tensor}, or one tensor",
    ),
    (
        r"[Cc]onsider providing",  # TorchRL's own words, of the size of an action
        "an argument is missing, no entry of the batch: the message names it",
        (
            "give what the message names: the policy's ProbabilisticActor spec=env.action_spec, or"
            " the loss target_entropy (SACLoss: or action_spec)"
        ),
    ),
    (
        r"log-prob|log_prob",
        (
            "the batch has no log-probability of its actions: the policy is deterministic, or does"
            " not write it"
        ),
        "make the policy a ProbabilisticActor with return_log_prob=True",
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
        r"mat1 and mat2|input\.size\(-1\)|input has inconsistent input_size",
        "a layer was built for another size than it is given",
        "set its in_features or input_size to the size of what it reads",
    ),
    (
        r"\bkey\b|KeyError|not found|'NoneType' object has no attribute",
        "an entry that is read is missing: in the batch, or among what a network writes",
        (
            "add the stage, network output or key that writes it (advantage, log-probability,"
            " state, value), or rename it with `keys`"
        ),
    ),
)
_NO_STATE = (
    (
        "it is the state of a network of the loss that does not run while collecting, so that"
        " nothing writes it"
    ),
    (
        "give the batch that state, zeros for a network that starts anew: a TensorDictPrimer for it"
        " behind the env's transforms (get_primers_from_module(network)), or a batch factory"
    ),
)
UNKNOWN = (
    "it raised in the configuration of this spec",
    "look at the named line; the batch that it was called on is the pipeline's own",
)


def way_out(message: str) -> tuple[str, str]:
    """Cause and fix for an error message."""
    for pattern, cause, fix in _WAYS:
        if re.search(pattern, message):
            return cause, fix
    return UNKNOWN


def stage_raises(pipeline: Pipeline, stage: Stage, failure: StageError) -> Observation:
    """The finding of a stage that raises, at the user's own line where there is one."""
    under = "vmap" if passed_through(failure, ("torch/_functorch/",)) else ""
    held_back = _held_back(pipeline, stage, failure.message)
    cause, fix = held_back or way_out(f"{failure.message} {under}")
    return Observation(
        stage=stage,
        message=f"the {stage} raises: {failure.message[:300]}",
        quantity=f"runs of the {stage} that raise",
        measured=1.0,
        cause=cause,
        fix=fix,
        source=raised_at(pipeline, stage, failure.place),
    )


def _held_back(pipeline: Pipeline, stage: Stage, message: str) -> tuple[str, str] | None:
    """Cause and fix where the entry that a loss misses is in its batch, or is a state of its own
    network."""
    named = re.search(r'key "(\w+)" not found', message)
    if stage is not Stage.LOSS or named is None or not pipeline.samples:
        return None
    key = named[1]
    if (key,) not in tensor_keys(pipeline.samples[0]):
        return _NO_STATE if (key,) in state_keys_in(pipeline.loss) else None
    return (
        (
            f"the loss hands a network only what another one reads, and that leaves out {key!r},"
            " which is in the batch"
        ),
        (
            f"let the other networks read {key!r} too (in_keys), or leave out the network that the"
            " loss can do without (SACLoss: value_network)"
        ),
    )


def raised_at(pipeline: Pipeline, stage: Stage, place: Place | None) -> Source:
    """The user's own line where there is one, else the stage's."""
    if place is None:
        return pipeline.source(stage)
    frame = read_frame(place.path, place.line)
    return Source(place.path, place.line, place.column, "python", str(stage), frame)
