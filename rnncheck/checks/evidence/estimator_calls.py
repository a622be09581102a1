"""Calling the user's value estimator on the batches that it is run on, and on changed copies of
them."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import ambient
from rnncheck.checks.evidence.training_batches import Sample, estimator_device, make_sample
from rnncheck.checks.rule import CouldNotLook, Deferred, NotApplicable
from rnncheck.numerics.difference import bits_differ
from rnncheck.numerics.kernels import reason_of
from rnncheck.pipeline.copying.copies import CannotCopy, copy_of
from rnncheck.pipeline.instruments.run_estimator import run_estimator
from rnncheck.pipeline.keys import STEP_KEY, Key, as_key, tensor_items, tensor_keys
from rnncheck.pipeline.placing import on_cpu, placed
from rnncheck.results.model import Stage

FEW = 2  # batches that are asked without --thorough
VALUE = "state_value"
SHIFTED = (
    "shifted_valid"  # GAE(shifted=True): false where ends inside a row pushed steps out of the pass
)


def estimator_of(evidence: Evidence) -> Any:
    """The estimator. Unanswered where the spec has none, or it raised."""
    pipeline = evidence.pipeline
    failure = pipeline.failures.get(Stage.ADVANTAGE)
    if failure is not None:
        raise Deferred("the estimator raises", "VL605")
    if pipeline.estimator is None:
        raise evidence.absent(Stage.ADVANTAGE)
    return pipeline.estimator


def value_key(evidence: Evidence) -> Key:
    """The key of the values, as the estimator names it; nested where there are several agents."""
    keys = getattr(evidence.pipeline.estimator, "tensor_keys", None)
    return as_key(getattr(keys, "value", VALUE))


def batches(evidence: Evidence) -> list[Sample]:
    """The batches that the estimator is run on, before it: collected ones, or training batches
    (``on: sample``)."""
    return evidence.once("estimator's batches", lambda: _batches(evidence))


def _batches(evidence: Evidence) -> list[Sample]:
    pipeline, spec = evidence.pipeline, evidence.pipeline.spec.advantage
    if spec is None:
        raise evidence.absent(Stage.ADVANTAGE)
    source = pipeline.estimated if spec.on == "collect" else pipeline.samples
    if not source:
        raise CouldNotLook("the estimator was not run on any batch")
    if evidence.thorough:
        return [make_sample(evidence, td) for td in source]
    return [make_sample(evidence, td) for td in _few(source)]


def _few(source: list[TensorDictBase]) -> list[TensorDictBase]:
    """The first ``FEW`` batches, and the first one that holds an end where these hold none."""
    few, rest = source[:FEW], source[FEW:]
    if any(map(_has_end, few)):
        return few
    return [*few, *[batch for batch in rest if _has_end(batch)][:1]]


def _has_end(batch: TensorDictBase) -> bool:
    """Whether an episode ends in it, by a flag of any nest, with a step behind it."""
    flags = [value for key, value in tensor_items(batch) if key[0] == "next" and key[-1] == "done"]
    return any(bool(flag.reshape(*batch.shape, -1)[..., :-1, :].any()) for flag in flags)


def estimated(evidence: Evidence, td: TensorDictBase, estimator: Any = None) -> dict[str, Tensor]:
    """What the estimator writes on ``td``: ``[*batch, ...]`` by key. Unanswered where it raises."""
    spec = evidence.pipeline.spec.advantage
    estimator = estimator_copy(evidence) if estimator is None else estimator
    if spec is None:
        raise NotApplicable("the spec has no advantage stage")
    with ambient(), torch.no_grad():
        try:
            given = placed(td, estimator_device(evidence)).clone()
            out = on_cpu(run_estimator(spec, estimator, given))
        except Exception as error:
            raise Deferred(f"the estimator raises ({reason_of(error)})", "VL605") from error
    before = {key: td.get(key) for key in tensor_keys(td)}
    found, own = {}, [*made_by(evidence), *_named_by(estimator)]
    for key in tensor_keys(out):
        value = out.get(key)
        old = before.get(key)
        named = key in own or key[-1] in (VALUE, "advantage", "value_target", SHIFTED)
        if named or old is None or old.shape != value.shape or bool(bits_differ(old, value).any()):
            found[".".join(key)] = value
    return found


def _named_by(estimator: Any) -> list[Key]:
    """What one of TorchRL's writes, under the names that it was given."""
    keys = getattr(estimator, "tensor_keys", None)
    names = (getattr(keys, name, None) for name in ("advantage", "value_target", "value"))
    return [as_key(name) for name in names if name is not None]


def made_by(evidence: Evidence) -> list[Key]:
    """Numbers of each step that an estimator of the user's own was seen to make, whatever they are
    called: nothing else is known to have made them."""
    return evidence.once("made by the estimator", lambda: _made_by(evidence))


def _made_by(evidence: Evidence) -> list[Key]:
    pipeline = evidence.pipeline
    if hasattr(pipeline.estimator, "tensor_keys") or not (pipeline.estimated and pipeline.batches):
        return []
    done, collected = pipeline.estimated[0], set(tensor_keys(pipeline.batches[0]))
    return [
        key
        for key in tensor_keys(done)
        if key not in collected
        and key != STEP_KEY
        and (value := done.get(key)).is_floating_point()
        and value.shape[: done.batch_dims] == done.shape
    ]


def estimator_copy(evidence: Evidence) -> Any:
    """A copy of the estimator. Unanswered where none can be made."""
    try:
        return copy_of(estimator_of(evidence), "the estimator")
    except CannotCopy as error:
        raise CouldNotLook(str(error)) from error


def written(evidence: Evidence, sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
    """Those of the estimator's outputs that have one entry a step, as ``[rows, steps, ...]``."""
    return {
        name: value.reshape(*sample.rows.shape, *value.shape[td.batch_dims :])
        for name, value in estimated(evidence, td).items()
        if value.shape[: td.batch_dims] == td.shape
    }
