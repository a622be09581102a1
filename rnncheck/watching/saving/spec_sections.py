"""The sections of a spec of what was seen: each as plain data, or why it cannot be written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.data import ReplayBuffer
from torchrl.envs import (
    Compose,
    EnvBase,
    EnvCreator,
    ParallelEnv,
    SerialEnv,
    TensorDictPrimer,
    TransformedEnv,
)
from torchrl.objectives import LossModule, TargetNetUpdater, ValueEstimators

from rnncheck.pipeline.instruments.own_estimates import OwnEstimates
from rnncheck.pipeline.keys import dotted
from rnncheck.watching.forms.estimates import Unmade
from rnncheck.watching.saving.import_paths import CannotKeep
from rnncheck.watching.saving.spec_forms import Form, Forms, arguments_given, modules_run
from rnncheck.watching.seen import Acting, Called, Making, Sightings

_WIRED = ("create_env_fn", "policy", "total_frames", "replay_buffer")  # of a collector
_NETWORKS = ("_network", "_model", "network", "qvalue_network")
_BUFFER_PARTS = ("storage", "sampler", "writer")
_EXPLORES = "torchrl.modules.tensordict_module.exploration"
_LASTING = ("observation", "action", "reward", "done")
BATCHES = 2  # the fewest that have a join between them


class Unsaid(CannotKeep):
    """A section that would be another one without what its message says; ``form`` is the rest."""

    def __init__(self, why: str, form: Form) -> None:
        super().__init__(why)
        self.form = form


class Sections:
    """Writes the sections of one run."""

    def __init__(self, seen: Sightings, acting: Acting, critic: Any, forms: Forms) -> None:
        self._seen, self._acting, self._critic, self._forms = seen, acting, critic, forms
        self._primed = False  # whether the script adds state primers outside of its functions
        self._stored = self._estimated = True  # whether buffer and estimator can be written
        self.notes: dict[str, str] = {}  # by section: what is written otherwise than it was seen

    def env(self) -> Form:
        """The env as the script handed it over, not the copy that is kept of it."""
        make = self._acting.env
        if self._acting.collector is not None:
            make = self._forms.arguments(self._acting.collector).get("create_env_fn")
        if isinstance(make, (list, tuple)):
            make = make[0]
        form = self._env(make)
        if self._primed:
            return form if "use" in form else {**form, "primers": "always"}
        return {**form, "primers": "manual"} if "use" in form else form

    def _env(self, make: Any) -> Form:
        if isinstance(make, EnvCreator):
            make = make.create_env_fn
        if not isinstance(make, EnvBase):
            return self._by_function(make)
        if isinstance(make, TransformedEnv):
            base = self._env(make.base_env)
            added = [one for t in _flat(make.transform) for one in self._transform(t)]
            return {**base, "transforms": [*base.get("transforms", []), *added]}
        if isinstance(make, (SerialEnv, ParallelEnv)):
            return self._several(make)
        return self._forms.component(make)

    def _by_function(self, make: Any) -> Form:
        """Its name; of a function without one, what it made."""
        try:
            return self._forms.function(make)
        except CannotKeep:
            made = self._forms.made_in(getattr(make, "__code__", None), EnvBase)
            if made is None:
                raise
            return self._env(made)

    def _several(self, env: SerialEnv | ParallelEnv) -> Form:
        makers = env.create_env_fn
        makers = list(makers) if isinstance(makers, (list, tuple)) else [makers]
        try:
            found = [self._env(one) for one in makers]
        except CannotKeep:  # of functions without a name, what they made
            live = vars(env).get("_envs")  # a closed one has none
            if not live:
                raise
            found = [self._env(one) for one in live]
        if any(one != found[0] for one in found):
            raise CannotKeep(f"a {type(env).__name__} of envs that differ")
        more = {"vectorize": "parallel"} if isinstance(env, ParallelEnv) else {}
        return {**found[0], "workers": env.num_workers, **more}

    def _transform(self, transform: Any) -> list[Any]:
        """State primers are added by themselves, where the script adds some."""
        if isinstance(transform, TensorDictPrimer):
            self._primed = True
            return []
        return [_short(self._forms.component(transform))]

    def policy(self) -> Form:
        """The modules of who acts."""
        return {"modules": [_short(one) for one in self._forms.network(self._acting.policy)]}

    def critic(self) -> Form | None:
        """The network that judges; what it shares with the policy stays shared."""
        if self._critic is None:
            return None
        try:
            listed = self._forms.network(self._critic, self._acting.policy)
        except CannotKeep:
            self._critic = None  # nor is it there for an estimator or a loss
            raise
        return {"modules": [_short(one) for one in listed]}

    def collect(self) -> Form | None:
        """The collector, or one in the place of the script's own loop."""
        acting, first = self._acting, next(iter(self._acting.batches), None)
        if acting.collector is None:
            if first is None:
                return None
            name = {"rollout": "env.rollout", "steps": "a loop over env.step"}[acting.kind]
            self.notes["collect"] = f"the script collects by {name} at {acting.place}"
            frames = first.numel()
            return {"use": "Collector", "frames_per_batch": frames, "batches": BATCHES}
        args = self._forms.arguments(acting.collector)
        made = self._forms.component(acting.collector, _WIRED)
        makers = args.get("create_env_fn")
        if type(acting.collector).__name__.startswith("Multi"):
            made["workers"] = len(makers) if isinstance(makers, (list, tuple)) else 1
        if args.get("replay_buffer") is not None:
            made["replay_buffer"] = True
        return {**made, "batches": BATCHES}

    def replay(self) -> Form | None:
        """The buffer that the script sampled."""
        if self._seen.sampled is None:
            return None
        buffer, sample = self._seen.sampled
        if not isinstance(buffer, ReplayBuffer):
            raise CannotKeep(f"a {type(buffer).__name__}")
        args = self._forms.arguments(buffer)
        form = self._forms.component(buffer, (*_BUFFER_PARTS, "transform"))
        for name in _BUFFER_PARTS:
            if args.get(name) is not None:
                form[name] = _short(self._part(args[name]))
        added = [] if buffer._transform is None else _flat(buffer._transform)
        if added:
            form["transforms"] = [_short(self._forms.component(one)) for one in added]
        return self._as_stored(form, buffer, sample)

    def _as_stored(self, form: Form, buffer: ReplayBuffer, sample: TensorDictBase) -> Form:
        """Steps or whole rows as the items; what else a script stores, it makes itself."""
        collected = next((one.batch_dims for one in self._acting.batches), 1)
        if getattr(buffer.storage, "ndim", 1) != 1 or sample.batch_dims == 1:
            return form
        if sample.batch_dims != collected:
            self._stored = False
            raise Unsaid(
                f"the script stores other items than it collects: it samples {_shape(sample)}", form
            )
        return {**form, "flatten": "none"}

    def _part(self, part: Any) -> Form:
        if self._forms.made(part) is None and callable(part):
            part = part()  # a partial that makes it
        return self._forms.component(part, ["scratch_dir", "max_capacity"])

    def advantage(self) -> Form | None:
        """The estimator that the script calls itself."""
        called = self._seen.estimator()
        if called is None:
            return None
        module = called.module
        if isinstance(module, (OwnEstimates, Unmade)):
            raise CannotKeep(
                f"the script's own lines make it ({called.place}): write a function of the batch"
                " and name it, `advantage: {factory: module:function}`"
            )
        form = self._forms.component(module, ["value_network", "actor_network"])
        if keys := _own_keys(module):
            form["keys"] = self._forms.forms(keys)
        if not called.modes.recurrent:
            form["recurrent_mode"] = False
        collected = {one.shape for one in self._acting.batches}
        if self._seen.sampled is not None and called.inputs[0].shape not in collected:
            form["on"] = "sample"
        why = [*self._other_networks(self._forms.arguments(module))]
        if why := [*why, *self._before_estimating(called, sampled=form.get("on") == "sample")]:
            self._estimated = False
            raise Unsaid("; ".join(why), form)
        return form

    def _before_estimating(self, called: Called, *, sampled: bool) -> Iterator[str]:
        """What the script itself does for the estimator."""
        if getattr(called.module, "value_network", self) is None:
            yield "the script runs the critic before it, which has none"
        first = next(iter(self._acting.batches), None)
        changed = "" if sampled or first is None else _changes(first, called.inputs[0])
        if changed:
            yield (
                f"between the collector and the estimator the script {changed}; name a function"
                " that does so, `batch: {factory: module:function}`, and say `on: sample`"
            )

    def loss(self) -> Form | None:
        """TorchRL's loss as the script made it and set it up."""
        called = self._seen.loss()
        if called is None:
            return None
        making = self._seen.makings.get(id(called.module))
        if called.own is not None or not isinstance(called.module, LossModule) or making is None:
            raise CannotKeep(
                "it is the script's own code; name a function that is called on the batch:"
                " {function: module:function}"
            )
        args = arguments_given(type(called.module), making)
        rest = {k: v for k, v in args.items() if not _is_network(k, v)}
        plain = {"use": type(called.module).__name__, **self._forms.forms(rest)}
        form = self._set_up(plain, making)
        why = [*self._other_batches(called), *self._other_networks(args)]
        why += [] if self._stored else ["its batches are what the buffer holds"]
        why += [] if self._estimated else ["its batches are what the estimator gave"]
        if why:
            raise Unsaid("; ".join(why), form)
        return form

    def _set_up(self, form: Form, making: Making) -> Form:
        kind = type(making.made)
        for name, args, kwargs in making.calls:
            if name == "set_keys":
                form["keys"] = {**form.get("keys", {}), **self._forms.forms(kwargs)}
                continue
            call = Making(making.made, args, kwargs)
            told = arguments_given(kind, call, "make_value_estimator")
            chosen = told.pop("value_type", None)
            if not isinstance(chosen, (ValueEstimators, type(None))):
                raise CannotKeep("its value estimator is one of the script's")
            named = {} if chosen is None else {"type": chosen.name.lower()}
            form["value_estimator"] = {**named, **self._forms.forms(told)}
        for one in self._seen.parts.values():
            if isinstance(one.made, TargetNetUpdater) and making.made in one.args:
                form["target_update"] = self._forms.component(one.made, ["loss_module"])
        return form

    def _other_networks(self, args: dict[str, Any]) -> Iterator[str]:
        """Those that the spec has not yet: another one would have weights of its own."""
        known = [one for one in (self._acting.policy, self._critic) if one is not None]
        for name, network in args.items():
            if not _is_network(name, network):
                continue
            try:
                same = any(self._is_the_same(network, one) for one in known)
            except CannotKeep as error:
                yield f"`{name}`: {error}"
                continue
            if not same:
                what = type(network).__name__
                yield f"its `{name}` is a {what} beside the policy and the critic"

    def _other_rows(self, trained: TensorDictBase) -> Iterator[str]:
        batches = self._acting.batches
        if not batches or not _are_rows_of(trained, batches):
            yield "the script makes other batches than it collects; name a function under `batch`"
        elif trained.shape != batches[0].shape:
            self.notes["loss"] = (
                f"the script calls it on {_shape(trained)} of the {_shape(batches[0])} that it"
                " collects; here it gets them whole, unless a function under `batch` parts them"
            )

    def _is_the_same(self, network: Any, known: Any) -> bool:
        """Whether they run the same modules; what explores stands behind the actor alone."""
        if network is known:
            return True
        mine, theirs = (modules_run(one, self._forms) for one in (network, known))
        acting = [one for one in theirs if not type(one).__module__.startswith(_EXPLORES)]
        return [id(one) for one in mine] == [id(one) for one in acting]

    def _other_batches(self, called: Called) -> Iterator[str]:
        """What it is called on is what was sampled; of collected data it may be some rows."""
        if self._seen.sampled is None:
            yield from self._other_rows(called.inputs[0])
            return
        changed = _changes(self._seen.sampled[1], called.inputs[0])
        if changed and self._seen.estimator() is None:
            yield (
                f"between the sample and the loss the script {changed}; name a function that does"
                " so: `batch: {factory: module:function}`"
            )


def _are_rows_of(trained: TensorDictBase, batches: list[TensorDictBase]) -> bool:
    """Whether each row is one that was collected, by what the env and the actor wrote: networks
    write the rest again."""
    first = batches[0]
    if trained.shape[1:] != first.shape[1:]:
        return False
    names = [key for key in first.keys(True, True) if _key(key)[-1] in _LASTING]
    both = [key for key in names if trained.get(key, None) is not None]
    rows = [[batch.get(key)[row] for key in both] for batch in batches for row in range(len(batch))]
    return all(
        any(all(map(_equal, (trained.get(key)[row] for key in both), one)) for one in rows)
        for row in range(len(trained))
    )


def _changes(sample: TensorDictBase, trained: TensorDictBase) -> str:
    if sample.shape != trained.shape:
        return f"makes {_shape(trained)} of {_shape(sample)}"
    before, after = set(sample.keys(True, True)), set(trained.keys(True, True))
    if after - before:
        return f"writes {', '.join(sorted(map(dotted, map(_key, after - before))))}"
    both = [k for k in before & after if isinstance(trained.get(k), torch.Tensor)]
    other = [k for k in both if not _equal(sample.get(k), trained.get(k))]
    return f"changes {', '.join(sorted(map(dotted, map(_key, other))))}" if other else ""


def _own_keys(estimator: Any) -> dict[str, Any]:
    """What its set_keys was called with."""
    now, stock = estimator.tensor_keys, estimator.default_keys()
    named = {name: getattr(now, name) for name in type(stock).__dataclass_fields__}
    return {name: key for name, key in named.items() if key != getattr(stock, name)}


def _equal(one: Any, other: Any) -> bool:
    return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())


def _key(key: Any) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _shape(batch: TensorDictBase) -> str:
    return str(list(batch.shape))


def _is_network(name: str, value: Any) -> bool:
    if not isinstance(value, nn.Module):
        return False
    return name.endswith(_NETWORKS) or isinstance(value, TensorDictModuleBase)


def _flat(transform: Any) -> list[Any]:
    if transform is None:
        return []
    if not isinstance(transform, Compose):
        return [transform]
    return [inner for one in transform.transforms for inner in _flat(one)]


def _short(form: Form) -> Any:
    """A class without arguments is its name."""
    return form["use"] if [*form] == ["use"] else form


Section = Callable[[], Form | None]
