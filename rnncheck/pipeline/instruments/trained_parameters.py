"""Which trained parameters of a loss belong to recurrent modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rnncheck.pipeline.copying.holdings import trained_parameters
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.subject.subject import Carrier, Subject, carriers
from rnncheck.pipeline.subject.training_pass import TwoPasses
from rnncheck.results.model import Stage


def recurrent_parameters(
    loss: Any, pipeline: Pipeline, subjects: Iterable[Subject] = ()
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Trained parameters of the recurrent modules inside ``loss``, by name, and all other trained
    ones.

    A TorchRL loss holds its networks' parameters by name; a loss of the user's holds the modules
    themselves, a function in its closure. What is only a part of the policy (without its
    exploration) is known by the parameters that the pipeline's own loss shares. ``subjects`` know
    the modules whose state only a step shows.
    """
    found = [*_carriers(pipeline), *_undeclared(pipeline, subjects)]
    trained, shared = trained_parameters(loss), _shared_names(pipeline, found)
    if not isinstance(loss, nn.Module):
        shared |= copied_names(trained, found)
    # what a function holds under a like name may be its target network
    paths = _recurrent_paths(found) if isinstance(loss, nn.Module) else set()
    recurrent: dict[str, Tensor] = {
        name: parameter
        for name, parameter in trained.items()
        if name in shared or any(_ends_with(name, path) for path in paths)
    }
    ids = {id(p) for p in recurrent.values()}
    return recurrent, [p for p in trained.values() if id(p) not in ids]


def _carriers(pipeline: Pipeline) -> list[Carrier]:
    networks = [one for one in (pipeline.policy, pipeline.critic) if one is not None]
    return [carrier for network in networks for carrier in carriers(network)]


def _undeclared(pipeline: Pipeline, subjects: Iterable[Subject]) -> Iterator[Carrier]:
    """Those of the pipeline's own networks that the subjects, which are copies, have found."""
    networks = {Stage.POLICY: pipeline.policy, Stage.CRITIC: pipeline.critic}
    for subject in subjects:
        network = networks[subject.stage]
        for one in subject.undeclared:
            path = (
                one.path.removeprefix("acting.")
                if isinstance(subject.module, TwoPasses)
                else one.path
            )
            if network is not None:
                yield Carrier(path, network.get_submodule(path), one.keys)


def _shared_names(pipeline: Pipeline, found: list[Carrier]) -> set[str]:
    """Parameters of the pipeline's loss that are, as objects, those of a recurrent module."""
    own = {id(p) for carrier in found for p in carrier.module.parameters()}
    return {name for name, p in trained_parameters(pipeline.loss).items() if id(p) in own}


def copied_names(trained: Mapping[str, Tensor], found: list[Carrier]) -> set[str]:
    """Parameters that hold the weights of a recurrent module as its copy: a learner's, where its
    copy acts."""
    own = [p for carrier in found for p in carrier.module.parameters()]
    return {name for name, p in trained.items() if any(same_weights(p, one) for one in own)}


def same_weights(one: Tensor, other: Tensor) -> bool:
    """Whether they are alike to the bit, on whatever device, and not all of one number, as biases
    are that begin with zero."""
    if one.is_meta or other.is_meta:
        return False
    if one.shape != other.shape or not bool((one != one.flatten()[:1]).any()):
        return False
    return torch.equal(on_cpu(one.detach()), on_cpu(other.detach()))


def _recurrent_paths(carrying: list[Carrier]) -> set[str]:
    """Where recurrent parameters sit in policy and critic, as ``module.0.lstm.weight_ih_l0``."""
    found = set()
    for carrier in carrying:
        prefix = f"{carrier.path}." if carrier.path else ""
        found |= {prefix + name for name, _ in carrier.module.named_parameters()}
    return found


def _ends_with(name: str, path: str) -> bool:
    """Whether ``name`` is ``path`` in full, behind whatever holds the network.

    TorchRL holds ``module.1.lstm.bias_ih_l0`` as ``value_network_params.module.1.lstm.bias_ih_l0``.
    """
    return name == path or name.endswith(f".{path}")
