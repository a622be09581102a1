"""From what was seen to a spec of live parts, which is verified like any other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.envs import EnvBase
from torchrl.objectives import LossModule

from rnncheck.errors import Place, UnrepeatableError, UserError
from rnncheck.pipeline.assembly.factories import Given
from rnncheck.pipeline.assembly.live import loss_section, spec_of
from rnncheck.pipeline.compat import adds_policy_transforms, with_policy_transforms
from rnncheck.pipeline.instruments.own_loss import OwnLoss, OwnLosses
from rnncheck.pipeline.instruments.vmap import left_under_vmap
from rnncheck.pipeline.recording.batch_makers import Maker
from rnncheck.pipeline.recording.made_batches import MadeBatches, OtherTraining
from rnncheck.pipeline.subject.modes import InMode
from rnncheck.spec.model import ACCELERATORS, AdvantageSpec, Component, Spec
from rnncheck.watching.envs import env_maker, env_name
from rnncheck.watching.forms.doubted_pass import with_pass_alone
from rnncheck.watching.forms.estimates import Unmade
from rnncheck.watching.forms.in_form import InForm, beside, in_form, turned
from rnncheck.watching.seen import Acting, Called, Sightings
from rnncheck.watching.stepped import learning_weights, unstepped_weights
from rnncheck.watching.words import what_there_was

ACTOR = "actor_network"
CRITICS = ("critic_network", "value_network", "qvalue_network")


class NothingSeen(UserError):
    """The script did nothing that could be judged."""


@dataclass
class Recorded:
    """Collected batches one after the other; who collected them can be asked what it is."""

    batches: list[TensorDictBase]
    collector: Any

    def __iter__(self) -> Iterator[TensorDictBase]:
        self._rest = iter(self.batches)
        return self

    def __next__(self) -> TensorDictBase:
        return next(self._rest)


def spec_from(seen: Sightings, asked: Spec) -> Spec:
    """The spec of what was seen, with the settings of ``asked``. Raises NothingSeen where nobody
    acted."""
    acting, place = seen.actor(), asked.locate(())
    if acting is None:
        raise NothingSeen(what_there_was(seen), place=place)
    loss, estimator = seen.loss(), seen.estimator()
    if loss is not None and left_under_vmap(loss.module):
        loss = None  # the script ended inside it
    apart = None if loss is not None else with_pass_alone(acting, seen.passes)
    pair = apart or in_form(acting, loss, estimator)
    batches = pair.batches
    parts: dict[str, Any] = {
        "env": _env(acting, collected=bool(batches)),
        "policy": pair.policy,
        "critic": critic_of(seen, acting, estimator, loss),
        "collect": Recorded(batches, acting.collector) if batches else False,
        "loss": None if loss is None else _loss(pair, seen.losses_alike()),
        "training_pass": pair.over_sequences,
    }
    device = _device(acting.policy)
    made = spec_of(
        parts, name=asked.name, seed=asked.seed, device=device, verify=asked.verify, place=place
    )
    sections: dict[str, Any] = {
        "env": made.env.model_copy(update={"factory": env_name(acting.make_env)}),
        "collect": _all_of(made, len(batches), acting),
    }
    if estimator is not None and batches:
        sections["advantage"] = _advantage(estimator)
    if loss is not None and batches:
        sections["batch"] = _making()
    whole = made.model_copy(update=sections)
    first = MadeBatches(
        estimated=[] if estimator is None else estimator.inputs,
        trained=pair.trained,
        whole=pair.whole,
        makers=[_maker(made, one) for one in seen.transforms if one.inputs],
        random=acting.random,
        openings=acting.openings,
        joins=acting.joins,
        disturbed=acting.disturbed,
        apart=acting.apart,
        untrained=acting.untrained,
        left=acting.left,
        anew=acting.anew,
        never_reset=acting.never_reset,
        forgets=acting.forgets,
        counted=frozenset(acting.counted),
        ends_by=acting.ends_by,
        shows_starts=acting.shows_starts,
        unstepped=unstepped_weights(seen, [one for one in seen.losses if one.inputs]),
        learning=learning_weights(seen, [one for one in seen.losses if one.inputs]),
        burn_ins=[] if loss is None else loss.burn_ins,
        targets={name: said for one in seen.losses_alike() for name, said in one.targets.items()},
    )
    whole._made, whole._hash = first, asked.hash
    whole._places = {(): place, **_places(acting, loss, estimator)}
    pairs = pairs_beside(seen)
    if loss is not None and pair.whole and pair.trained[0].numel() > pair.whole[0].numel():
        pairs = [(loss, None), *pairs]  # its own batch, which the lines ahead of it have padded
    if loss is not None and batches and pairs:
        others = [_other(seen, acting, whole, batches, *one) for one in pairs]
        whole._made = replace(first, first=loss.name, others=others)
    return whole


def _env(acting: Acting, *, collected: bool) -> Callable[..., EnvBase]:
    """As the script makes it; where its collector gave no batch, so that there is no stage of it,
    with the transforms that this adds."""
    make = env_maker(acting.make_env, acting.made)
    if collected or not adds_policy_transforms(acting.collector):
        return make

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> EnvBase:
        return cast(EnvBase, with_policy_transforms(make(*args, **kwargs), acting.policy))

    return made


def pairs_beside(seen: Sightings) -> list[tuple[Called | None, Called | None]]:
    """The losses that are judged by themselves, each with the estimator of its critic, then the
    estimators that none of them has."""
    left, found = seen.other_estimators(), list[tuple[Called | None, Called | None]]()
    for loss in seen.other_losses():
        weights = _judging_weights(seen, loss)
        own = next((one for one in left if _judging_weights(seen, one) & weights), None)
        left = [one for one in left if one is not own]
        found.append((loss, own))
    return [*found, *((None, one) for one in left)]


def _judging_weights(seen: Sightings, called: Called) -> set[int]:
    """The weights of its networks, by id, without its actor's."""
    given = seen.networks_of(called.module)
    return {id(p) for name, one in given.items() if name != ACTOR for p in one.parameters()}


def _other(
    seen: Sightings,
    acting: Acting,
    whole: Spec,
    acted: list[TensorDictBase],
    loss: Called | None,
    estimator: Called | None,
) -> OtherTraining:
    """The sections of a loss and an estimator beside the first ones."""
    judged, trained = (None, list[TensorDictBase]()) if loss is None else beside(loss, acted)
    judged = None if loss is None else _alone(judged, loss)
    spec = whole.model_copy(
        update={
            "loss": None if loss is None else loss_section(judged),
            "batch": None if loss is None else _making(),
            "advantage": None if estimator is None else _advantage(estimator),
        }
    )
    spec._made = MadeBatches(
        estimated=[] if estimator is None else estimator.inputs,
        trained=trained,
        makers=whole._made.makers,
        random=acting.random,
        targets={} if loss is None else loss.targets,
    )
    spec._places = whole._places | _places(acting, loss, estimator)
    named = [one.name for one in (loss, estimator) if one is not None]
    return OtherTraining(named[0], spec, critic_of(seen, acting, estimator, loss))


def _places(acting: Acting, loss: Called | None, estimator: Called | None) -> dict[Any, Place]:
    found: dict[Any, Place] = {("env",): acting.place, ("policy",): acting.place}
    found["collect",] = acting.place
    if loss is not None:
        found["loss",] = found["batch",] = loss.place
    if estimator is not None:
        found["advantage",] = estimator.place
    judged_in = estimator or loss  # what runs the critic
    if judged_in is not None:
        found["critic",] = judged_in.place
    return found


def _all_of(spec: Spec, count: int, acting: Acting) -> Component | None:
    """As many batches as there are."""
    if spec.collect is None:
        return None
    names = {"rollout": "env.rollout", "steps": "env.step"}
    name = names.get(acting.kind) or type(acting.collector).__name__
    return spec.collect.model_copy(update={"factory": name, "args": {"batches": count}})


def _advantage(called: Called) -> AdvantageSpec:
    """The estimator as the script calls it: where it was, and in which mode."""
    if called.own is not None or isinstance(called.module, Unmade):
        return _own_advantage(called)
    name = type(called.module).__name__
    made = AdvantageSpec(
        use=name, factory=name, recurrent_mode=bool(called.modes.recurrent), at=("advantage",)
    )
    made._live = Given(lambda: called.as_called)
    return made


def _own_advantage(called: Called) -> AdvantageSpec:
    """The script's own lines, which set the mode by themselves; or that none were seen."""
    made = AdvantageSpec(factory=called.name, at=("advantage",))

    def handed() -> Any:
        if isinstance(called.module, Unmade):
            raise UnrepeatableError(called.module.said)
        return called.module

    made._live = Given(handed)
    return made


def _making() -> Component:
    made = Component(factory="the script", at=("batch",))
    made._live = Given(lambda: None)
    return made


def _loss(pair: InForm, alike: list[Called]) -> Any:
    """What is trained on; several functions of the user's as one loss with as many parts. Their
    other arguments are what they were in the script, whatever they are called."""
    if len(alike) < 2:
        return _alone(pair.loss, alike[0] if alike else None)
    own = {}
    for one in alike:
        name = one.batch if pair.axis is None else ""
        own[f"{one.place}"] = OwnLoss(turned(one.module, pair.axis), {}, name)
    return OwnLosses(own)


def _alone(loss: Any, called: Called | None) -> Any:
    if isinstance(loss, (nn.Module, OwnLoss)):
        return loss
    itself = called is not None and loss is called.module
    return OwnLoss(loss, {}, called.batch if called is not None and itself else "")


def critic_of(seen: Sightings, acting: Acting, *given_to: Called | None) -> nn.Module | None:
    """The network that judges what the policy does: of a loss one beside its actor, and one with
    weights that the policy lacks."""
    owners = [one for one in given_to if one is not None]
    acts = isinstance(acting.policy, nn.Module)
    inside = {id(one) for one in acting.policy.parameters()} if acts else set()
    for owner in owners:
        given = seen.networks_of(owner.module)
        if isinstance(owner.module, LossModule) and ACTOR not in given:
            continue
        for name in CRITICS:
            network = given.get(name)
            if network is None or left_under_vmap(network):
                continue
            if {id(one) for one in network.parameters()} - inside:
                return network
    return None


def _maker(spec: Spec, called: Called) -> Maker:
    """The transform as it was run, with a copy of the networks."""
    transform = spec._copies.whole(called.module, "the transform")
    return Maker("batch", called.inputs[0], InMode(transform, called.modes.recurrent))


def _device(policy: Any) -> str:
    first = next(policy.parameters(), None) if isinstance(policy, nn.Module) else None
    device = torch.device("cpu") if first is None else first.device
    return str(device) if device.type in ACCELERATORS else "cpu"
