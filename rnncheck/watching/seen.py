"""What was seen of a script: who acted, what was collected, estimated and trained on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.errors import Place
from rnncheck.pipeline.copying.holdings import held_modules
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.recording.ends_by import EndsBy

CalledOn = tuple[nn.Module, TensorDictBase]
# By the id of the module that has a buffer, and its name there: both, and a copy of what it held.
HeldBuffers = dict[tuple[int, str], tuple[nn.Module, str, Tensor]]
Returned = tuple[FunctionType, dict[str, Any]]
# Training batches that are kept of each loss, as many as verify draws of a buffer.
KEPT = 3


@torch.no_grad()
def copy_now(data: TensorDictBase) -> TensorDictBase:
    """What it holds now, without a graph."""
    return data.clone()


@dataclass(frozen=True)
class Modes:
    """What the code around a call had set."""

    recurrent: bool | None
    explore: Any  # torchrl's ExplorationType


@dataclass
class Acting:
    """Someone who acts: a collector, calls of ``env.rollout``, or a loop over ``env.step``.

    ``batches`` are copies of what was collected before the first update. ``more`` gives one more
    batch of the same, while the script is still alive.
    """

    kind: str  # "collector", "rollout" or "steps"
    policy: Any
    make_env: Any  # a function, or an env
    place: Place
    collector: Any = None
    made: Any = None  # its env, as ``make_env`` made it
    env: Any = None  # whose ``rollout`` or ``step`` was called
    sent: list[Tensor] | None = None  # weights, where its workers make their policy by themselves
    modes: Modes | None = None
    batches: list[TensorDictBase] = field(default_factory=list)
    further: list[TensorDictBase] = field(default_factory=list)
    more: Callable[[], TensorDictBase | None] | None = None
    switches: dict[str, dict[str, Any]] = field(default_factory=dict)  # as it acts
    trains: dict[str, bool] = field(default_factory=dict)  # which of its modules are in that mode
    random: int | None = None  # leading random ``batches`` of those read back from a buffer
    parts: list[str] = field(default_factory=list)  # of the policy, whose outputs were noted
    writes: list[Key] = field(default_factory=list)  # what it was seen to write
    # States that rows of later batches began with, ``collected``, and those ``given`` to training.
    openings: list[TensorDictBase] = field(default_factory=list)
    # States that a later batch was to go on with, ``collected``, and those it was ``given``.
    joins: list[TensorDictBase] = field(default_factory=list)
    disturbed: str = ""  # where the script played its collector's env between two batches
    spent: bool = False  # the collector gave all of its frames ahead of the first update
    late: bool = False  # its workers collected ahead of the weights that they were sent
    apart: bool = False  # no optimiser has its weights, and it was given none of what they step
    untrained: int = 0  # where that was so up to the script's own end: the updates until then
    # Entries that the script's loop fills with others of the step before, which are these.
    shown: dict[Key, Key] = field(default_factory=dict)
    primed: dict[Key, Tensor] = field(default_factory=dict)  # states that its loop began with
    ahead: frozenset[Key] = frozenset()  # entries of its tensordict ahead of its first step
    counted: list[str] = field(default_factory=list)  # buffers that moved while it acted
    forgets: str = ""  # which function ran its recurrent layers from zeros at every step
    moved: bool = False  # its weights were trained between the steps of its batches
    anew: bool = False  # every batch began with a reset of all envs
    never_reset: bool = False  # a loop that puts its state back by itself was not seen to do so
    ends_by: EndsBy = EndsBy.ANY  # what its episodes were seen to end by
    # Networks that acted, in whose place those that are trained are judged, as these had the same
    # weights: a target network, a copy for acting.
    copies: list[nn.Module] = field(default_factory=list)
    # Of these, or of a policy that is ``apart``: where the script may give it weights again, empty
    # where it may not; None where it did, or that was not asked.
    left: str | None = None
    shows_starts: bool = False  # its env may show at an end what the next episode begins with


@dataclass
class Called:
    """A loss or an estimator that was called on tensordicts; ``inputs`` are copies of these."""

    module: Any
    place: Place
    modes: Modes
    inputs: list[TensorDictBase] = field(default_factory=list)
    switches: dict[str, dict[str, Any]] = field(default_factory=dict)  # of the policy, then
    own: Any = None  # the code of the user's that it is, where it is no module of TorchRL's
    batch: str = ""  # the argument that gets the batch, where that is not the first
    last: int = 0  # of lines of a loop: the last of them
    fed: bool = False  # what it was called on has a graph: networks ran on the batch before it
    trains: bool = False  # what a loss gave has a graph
    of_who_acts: bool = False  # and leads to weights that act, as far as that was asked
    unreduced: bool = False  # it leaves it to its caller to reduce what it gives for each step
    added_to: bool = False  # networks that run beside it add to what it gives
    covered: bool = False  # the script's own lines around it are the loss
    # Lines of the user's around that function, each from a batch of theirs: the innermost first.
    around: list[Called] = field(default_factory=list)
    # The same of a loop that makes another batch under the same name: of what it was given first.
    rounds: list[Called] = field(default_factory=list)
    passed: list[TensorDictBase] = field(default_factory=list)  # to the recurrent pass inside it
    # To calls of it without gradients ahead of that, of the first steps of what was drawn.
    burn_ins: list[TensorDictBase] = field(default_factory=list)
    over: Any = None  # that pass, where it is a call of a function on tensors
    alone: bool = False  # each call of that pass is on one whole episode
    holds_states: bool = False  # the batches, of sequences that were drawn out of a memory
    itself: bool = False  # the policy itself, or a module around it, ran on a tensordict in it
    kind: str = "the loss"  # what code of the user's is
    unstepped: list[str] | None = None  # trained weights that no optimiser has, by name, if told
    learning: list[str] | None = None  # those with a gradient of the script's, by name, if told
    # By name, networks of the kind of trained ones that no update was seen to change: where the
    # script may do so later, empty where it may not; None for those that were changed.
    targets: dict[str, str | None] = field(default_factory=dict)
    beside: list[dict[str, Any]] = field(default_factory=list)  # arguments, with each input
    # What it may read and no batch changes: what is said of that, and the loss with other values.
    doubts: list[tuple[str, Any]] = field(default_factory=list)
    # Of lines of a loop that bind the batch more than once: shorter ones, to those behind the last.
    later: Sequence[Any] = ()
    # Lines of functions inside of one that counts its calls by itself, which may train no more,
    # each with its doubts.
    inner: Sequence[tuple[Any, list[tuple[str, Any]]]] = ()
    numbers: Sequence[Mapping[str, Any]] = ()  # that lines read, by update
    ways: list[Any] = field(default_factory=list)  # a function as it was called at each update
    told_by: list[Any] = field(default_factory=list)  # these: the numbers that they were given
    time_dim: int | None = None  # that an estimator was called with
    begins: int = 0  # of lines of the user's: the one that they begin behind, where that is known

    def holds(self, place: Place) -> bool:
        """Whether the place is among the lines that it is."""
        inside = 0 < self.begins <= (place.line or 0) <= (self.place.line or 0)
        return inside and place.path == self.place.path

    def is_around(self, stack: Sequence[FrameType]) -> bool:
        """Whether it is a function that one of the frames is a call of."""
        return bool(self.told_by) and any(frame.f_code is self.own[0] for frame in stack)

    @property
    def as_called(self) -> Any:
        """The module; an estimator with the dimension of time that the script calls it with."""
        if self.time_dim is None:
            return self.module
        made = copy.copy(self.module)
        made.time_dim = self.time_dim
        return made

    @property
    def name(self) -> str:
        """What it is called beside others."""
        kind = self.kind if self.own is not None else type(self.module).__name__
        place = Path(self.place.path).name
        return f"{kind} ({place}:{self.place.line})" if self.place.line else f"{kind} ({place})"


@dataclass
class MadeAhead:
    """A place where the script held batches with more in them than was collected, by the variable,
    each time as copies; ``names`` are all of its variables that held one."""

    place: Place
    modes: Modes
    scene: Any
    names: frozenset[str]
    batches: list[dict[str, TensorDictBase]] = field(default_factory=list)


@dataclass
class HeldBeside:
    """A place where the script held, beside batches, variables with a number for each of their
    steps; the same otherwise. ``values`` are what these variables held."""

    place: Place
    modes: Modes
    scene: Any
    names: frozenset[str]
    batches: list[dict[str, TensorDictBase]] = field(default_factory=list)
    values: list[dict[str, Tensor]] = field(default_factory=list)


@dataclass
class Making:
    """The arguments that something was made with, and the calls that set a loss up afterwards.
    ``own``: they are those of a constructor of the script's; ``inside`` are the script's functions
    that were under way."""

    made: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    own: bool = False
    inside: tuple[CodeType, ...] = ()


@dataclass
class Sightings:
    """All of it. ``networks`` are the live networks that a loss or an estimator was given: whose,
    and the name that its class gives them."""

    acting: list[Acting] = field(default_factory=list)
    losses: list[Called] = field(default_factory=list)
    # Losses that are not judged, as they read what nobody knows: the pass in them is.
    passes: list[Called] = field(default_factory=list)
    estimators: list[Called] = field(default_factory=list)
    networks: list[tuple[Any, str, nn.Module]] = field(default_factory=list)
    transforms: list[Called] = field(default_factory=list)  # run on samples
    ahead: list[MadeAhead] = field(default_factory=list)  # of losses and replay buffers
    beside: list[HeldBeside] = field(default_factory=list)  # batches that losses are made of
    by_buffer: set[Key] = field(default_factory=set)  # what samples have more than was stored
    makings: dict[int, Making] = field(default_factory=dict)  # by the id of what was made
    parts: dict[int, Making] = field(default_factory=dict)  # of all else, where a spec is written
    # By the id of a part: the script's functions that returned it, with their arguments.
    returned: dict[int, list[Returned]] = field(default_factory=dict)
    sampled: tuple[Any, TensorDictBase] | None = None  # a buffer and the first that it gave
    recurrent: dict[str, int] = field(default_factory=dict)  # TorchRL's modules and their calls
    layers: dict[str, int] = field(default_factory=dict)  # torch's own, inside these or alone
    env_steps: int = 0  # by the script itself, one by one
    steppers: set[str] = field(default_factory=set)  # files of libraries that step plain envs
    processes: int = 0  # of the script's own, that ran at the first update
    plain: str = ""  # why a loop over a plain env's steps is not judged
    unseen: str = ""  # why what leads to `backward` is not judged
    updates: int = 0
    steps: int = 0  # of any optimiser
    optimisers: int = 0  # that the script made
    stepped: set[int] = field(default_factory=set)  # weights that they have, by id
    learning: set[int] = field(default_factory=set)  # of these those that got a gradient
    trained: dict[int, Tensor] = field(default_factory=dict)  # those that wanted gradients then
    judged: dict[str, int] = field(default_factory=dict)  # calls of losses and estimators, by class
    given: dict[int, list[Any]] = field(default_factory=dict)  # by loss module: its graph's ends
    unjudged: dict[str, str] = field(default_factory=dict)  # by place: what was trained on as well
    with_memory: set[str] = field(default_factory=set)  # those places where a memory is run in it
    backwards: int = 0
    frozen: bool = False  # the first update was reached: later data belongs to other weights
    moved_on: bool = False  # and something was collected after it
    weights: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    # Buffers of who acts as they were at the last batch ahead of the first update.
    buffers: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    # Buffers as they were at the latest step of an env, and names of those that moved while it was
    # stepped, behind the latest update.
    still: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    counting: set[str] = field(default_factory=set)
    # The same of those that the script may bind to other tensors, by where they are; and these as
    # they were with the weights.
    still_in: HeldBuffers = field(default_factory=dict)
    buffers_in: HeldBuffers = field(default_factory=dict)
    # By the id of a module, with it: whether it was in the mode of training as a step was acted.
    modes: dict[int, tuple[nn.Module, bool]] = field(default_factory=dict)

    def actor(self) -> Acting | None:
        """Who collected most with a policy, of those who go on if they have begun (a teacher's
        collector ends ahead of training); None where nobody was to."""
        found = [one for one in self.acting if one.policy is not None]
        frames = [sum(batch.numel() for batch in one.batches) for one in found]
        goes_on = [size > 0 and not one.spent for one, size in zip(found, frames, strict=True)]
        ranks = list(zip(goes_on, frames, strict=True))
        return found[ranks.index(max(ranks))] if found else None

    def loss(self) -> Called | None:
        """The loss that was called on the most data."""
        found = self._whole()
        size = [(o.trains, len(o.inputs), len(_entries(o)), o.of_who_acts) for o in found]
        return found[size.index(max(size))] if found else None

    def losses_alike(self) -> list[Called]:
        """The loss that is judged first, then the others that are judged with it: code of the
        user's as well, and given what that one was given."""
        first = self.loss()
        if first is None or first.own is None:
            return [] if first is None else [first]
        own = [one for one in self.losses if one.own is not None and one.inputs]
        alike = [one for one in own if _entries(one) <= _entries(first)]
        return [first, *(one for one in alike if one is not first)]

    def other_losses(self) -> list[Called]:
        """Those that are judged beside these, each by itself: what they gave can be trained on."""
        alike = self.losses_alike()
        found = [one for one in self._whole() if one.trains]
        return [one for one in found if alike and not any(one is other for other in alike)]

    def _whole(self) -> list[Called]:
        """The losses, without modules that networks ran ahead of, or that leave more to be done
        behind them than to add: the script's own lines around these are the loss."""
        found = [one for one in self.losses if one.inputs and not one.fed]
        return [one for one in found if not one.covered]

    def judge_within(self, loss: Called) -> None:
        """What of its lines was said not to be judged is."""
        self.unjudged = {
            place: said for place, said in self.unjudged.items() if not loss.holds(_place_of(place))
        }

    @property
    def memory_unjudged(self) -> str:
        """The first place at which a loss that is not judged runs a network's memory, or none."""
        return next((place for place in self.unjudged if place in self.with_memory), "")

    def judged_losses(self) -> list[Called]:
        """All that are judged."""
        return [*self.losses_alike(), *self.other_losses()]

    def other_estimators(self) -> list[Called]:
        """Those that the script called beside the one that is judged first."""
        first = self.estimator()
        return [one for one in self.estimators if one.inputs and one is not first]

    def estimator(self) -> Called | None:
        """The estimator that the script itself called."""
        found = [one for one in self.estimators if one.inputs]
        return max(found, key=lambda one: len(one.inputs), default=None)

    def sets_out_to_train(self) -> bool:
        """Whether anything was called or made that only training needs."""
        return bool(self.judged or self.losses or self.backwards or self.steps or self.optimisers)

    @property
    def weights_then(self) -> dict[int, tuple[Tensor, Tensor]]:
        """The weights, with buffers that are other tensors by now."""
        now = ((module._buffers.get(name), held) for module, name, held in self.buffers_in.values())
        pairs = ((one, held) for one, held in now if one is not None and one.shape == held.shape)
        return self.weights | {id(one): (one, held) for one, held in pairs}

    def modules(self) -> Iterator[nn.Module]:
        """Every module that acts, judges or is trained."""
        for one in self.acting:
            if isinstance(one.policy, nn.Module):
                yield one.policy
        for called in (*self.losses, *self.estimators):
            yield from (module for _, module in held_modules(called.module))  # targets as well
        yield from (network for _, _, network in self.networks)

    def networks_of(self, owner: Any) -> dict[str, nn.Module]:
        """The networks that a loss or an estimator was given."""
        return {name: network for one, name, network in self.networks if one is owner}


def _entries(called: Called) -> set[object]:
    """What the first batch has: the number of its dimensions, and its keys."""
    batch = called.inputs[0]
    return {batch.batch_dims, *batch.keys(True, True)}


def _place_of(told: str) -> Place:
    """Of ``file:line``."""
    path, _, line = told.rpartition(":")
    return Place(path, int(line)) if line.isdigit() else Place(told)
