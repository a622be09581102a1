"""Log-probabilities of recorded actions, as the policy gives them now."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictSequential,
)
from torch import Tensor

from rnncheck.pipeline.keys import Key, as_key, declared, tensor_keys
from rnncheck.pipeline.placing import device_of, on_cpu, placed
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.pipeline.subject.training_pass import TwoPasses

_USUAL_NAMES = ("action_log_prob", "sample_log_prob")


def log_prob_key(policy: Any, loss: Any, td: TensorDictBase) -> Key | None:
    """Where the actions' log-probability was recorded: the policy's key, the loss's, or a usual
    name."""
    candidates: list[Any] = []
    for part in policy.modules() if hasattr(policy, "modules") else []:
        if isinstance(part, ProbabilisticTensorDictModule):
            candidates += list(getattr(part, "log_prob_keys", None) or [])
    candidates.append(getattr(getattr(loss, "tensor_keys", None), "sample_log_prob", None))
    known = set(tensor_keys(td))
    for name in [*candidates, *_USUAL_NAMES]:
        if name is not None and as_key(name) in known:
            return as_key(name)
    return None


def log_prob_now(subject: Subject, td: TensorDictBase, recorded: Tensor) -> Tensor | None:
    """The log-probability of the batch's actions in recurrent mode; None where the policy has no
    distribution."""
    policy = subject.copy()
    td = placed(td, device_of(policy))
    if isinstance(policy, TwoPasses):
        return _by_its_pass(policy, td)
    batch = td.select(*[key for key in tensor_keys(td) if key[0] != "next"]).copy()
    with measuring(recurrent=True):
        result = _of_its_actor(policy, batch)
    value = result if isinstance(result, Tensor) else None
    if value is None and isinstance(result, TensorDictBase):
        found = [result.get(key) for key in tensor_keys(result) if key[-1].endswith("log_prob")]
        value = found[0] if found else None
    return on_cpu(value) if value is not None and value.numel() == recorded.numel() else None


def _of_its_actor(policy: Any, batch: TensorDictBase) -> Any:
    """What its actor gives, which may have a trunk ahead of it and a critic behind."""
    if isinstance(policy, ProbabilisticTensorDictSequential):
        return policy.log_prob(batch)
    for part in policy.module if isinstance(policy, TensorDictSequential) else ():
        found = _of_its_actor(part, batch)
        if found is not None:
            return found
        batch = part(batch)
    return None


def _by_its_pass(policy: TwoPasses, td: TensorDictBase) -> Tensor | None:
    """The same by the distribution's parameters that the training pass gives."""
    acting = policy.acting
    if not isinstance(acting, ProbabilisticTensorDictSequential):
        return None
    batch = td.select(*[key for key in tensor_keys(td) if key[0] != "next"]).copy()
    with measuring(recurrent=True):
        given = policy(batch)
    if not all(key in tensor_keys(given) for key in declared(acting[-1], "in_keys")):
        return None
    with measuring(recurrent=False):
        value = acting.build_dist_from_params(given).log_prob(batch.get(acting[-1].out_keys[0]))
    return on_cpu(value) if isinstance(value, Tensor) else None
