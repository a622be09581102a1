"""The losses that a script has beside its first: each with the pipeline around it as its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from rnncheck.errors import Lacking, StageError, UserError
from rnncheck.pipeline.assembly.materialise import pristine_copy
from rnncheck.pipeline.assembly.training import Training
from rnncheck.pipeline.copying.copies import CannotCopy
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.recording.made_batches import OtherTraining
from rnncheck.results.model import Stage

_TRAINS = (Stage.ADVANTAGE, Stage.REPLAY, Stage.LOSS)


def other_pipelines(
    pipeline: Pipeline, others: Iterable[OtherTraining], first: Training
) -> Iterator[Pipeline]:
    """``pipeline`` with each of the ``others`` in the place of its estimator, its training batches
    and its loss; what goes wrong in one is noted there."""
    for one in others:
        own = Training(one.spec, first.offered, first.device, first.make_network, hooks=first.hooks)
        made = _without_training(pipeline, one)
        for stage, run in zip(_TRAINS, (own.advantage, own.replay, own.loss), strict=True):
            try:
                run(made)
            except Lacking as error:
                made.lacking[stage] = error.reason
            except StageError as error:
                made.failures[stage] = error
            except UserError as error:  # it can neither be copied nor called
                made.lacking[stage] = error.message
        yield made


def _without_training(pipeline: Pipeline, one: OtherTraining) -> Pipeline:
    return replace(
        pipeline,
        spec=one.spec,
        of_loss=one.name,
        targets={} if one.spec._made is None else one.spec._made.targets,
        others=[],
        estimator=None,
        loss=None,
        uncalled="",
        estimated=[],
        samples=[],
        makers=[],
        sources=dict(pipeline.sources),
        failures={k: v for k, v in pipeline.failures.items() if k not in _TRAINS},
        lacking={k: v for k, v in pipeline.lacking.items() if k not in _TRAINS},
        **_critic(pipeline, one),
    )


def _critic(pipeline: Pipeline, one: OtherTraining) -> dict[str, Any]:
    """Its own critic, where it has one that can be copied."""
    if one.critic is None:
        return {}
    try:
        network = one.spec._copies.whole(one.critic, "the critic")
    except CannotCopy as error:
        pipeline.notices.append(f"{one.name}: {error}: its critic is not judged")
        return {}
    if network is pipeline.critic:
        return {}
    pristine = pristine_copy(network, "critic", pipeline.notices)
    return {"critic": network, "pristine_critic": pristine}
