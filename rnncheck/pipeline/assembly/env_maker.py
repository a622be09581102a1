"""The environment: one copy or several, its transforms, its statistics, the state primers it
lacks."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import torch
from torch import nn
from torchrl.envs import EnvBase, TransformedEnv
from torchrl.envs.transforms import InitTracker, ObservationNorm, Transform

from rnncheck.errors import ComponentError, UserError, did_you_mean
from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.assembly.factories import call_factory, wrong_type
from rnncheck.pipeline.assembly.needs import refuse_workers
from rnncheck.pipeline.assembly.values import convert_arguments
from rnncheck.pipeline.compat import primers_of
from rnncheck.pipeline.guard.worker_log import logged
from rnncheck.pipeline.keys import Key, as_key, declared, dotted
from rnncheck.pipeline.plant.hooks import unchanged
from rnncheck.spec.model import Component, Spec

# Random steps that ObservationNorm's statistics are taken over by default: a mean to 1/sqrt(256) =
# 6 % of a deviation where steps are independent. Chosen; more steps cost time with slow envs.
STATS_FRAMES = 256
INIT_KEY = "is_init"
Stats = dict[int, tuple[torch.Tensor, torch.Tensor]]  # transform index -> (loc, scale)


def build_any(spec: Spec, component: Component) -> Any:
    """A component nested in another's arguments, of whatever kind."""
    if component.factory is not None:
        return call_factory(spec, component, {})
    target = c.find_class(spec, component.use or "", c.ANY, (*component.at, "use"))
    return _build(spec, component, target)


def _build(spec: Spec, component: Component, target: Any) -> Any:
    c.check_arguments(spec, component, target, component.args)
    nested = functools.partial(build_any, spec)
    return c.construct(spec, component, target, convert_arguments(spec, component, nested))


@dataclass
class EnvMaker:
    """Gives a fresh, seeded, complete env at every call.

    ``extra`` are the state transforms that the spec's own env lacks; a factory's env gets none.
    """

    spec: Spec
    device: torch.device
    stats: Stats = field(default_factory=dict)
    extra: list[Transform] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    change: Callable[[EnvBase], EnvBase] = unchanged  # the last word on every env
    log: FilePath | None = None  # where worker processes write what goes wrong

    def __call__(self) -> EnvBase:
        return self.change(self.completed(self._copies()))

    def completed(self, env: EnvBase) -> EnvBase:
        """``env`` with the state transforms that it lacks, on its device, seeded."""
        for transform in self.extra:
            env = env.append_transform(transform.clone())
        if self.device.type != "cpu":
            env = env.to(self.device)
        self._seed(env)
        return env

    def for_worker(self) -> Callable[[], EnvBase]:
        """The maker for a worker process, whose errors go to the log."""
        return self if self.log is None else functools.partial(logged, self, self.log)

    def single(self) -> EnvBase:
        """One of the copies, alone."""
        return self.completed(make_single(self.spec, self.stats))

    def _copies(self) -> EnvBase:
        count, spec = self.spec.env.workers, self.spec
        if count == 1:
            return make_single(spec, self.stats)
        if _open_norms(spec, self.stats):
            make_single(spec, self.stats).close()  # fills the statistics once, for all workers
        make = functools.partial(make_single, spec, self.stats)
        if self.device.type != "cpu":
            make = functools.partial(_on_the_cpu, make)
        if self.log is not None:
            make = functools.partial(logged, make, self.log)
        return _batched(spec, count, make)

    def _seed(self, env: EnvBase) -> None:
        try:
            env.set_seed(self.spec.seed)
        except Exception as error:
            text = f"the env cannot be seeded ({type(error).__name__}: {error})"
            if text not in self.notices:
                self.notices.append(text)


def _on_the_cpu(make: Callable[[], EnvBase]) -> EnvBase:
    """One of several copies. TorchRL moves what a copy gets and gives to where they are asked for
    only where the copy has a device."""
    env = make()
    return env.to("cpu") if env.device is None else env


def _batched(spec: Spec, count: int, make: Callable[[], EnvBase]) -> EnvBase:
    from torchrl.envs import ParallelEnv, SerialEnv

    batched = ParallelEnv if spec.env.vectorize == "parallel" else SerialEnv
    if batched is ParallelEnv:
        refuse_workers(spec, ("env", "workers"), count)
    with c.constructing(spec, spec.env, batched):
        env: EnvBase = batched(count, make)
        env.batch_size  # noqa: B018  the copies are made here, so that their errors are caught here
        return env


def make_single(spec: Spec, stats: Stats) -> EnvBase:
    """One env with the spec's own transforms. ``stats`` is filled by the first call."""
    env = _base(spec)
    for index, component in enumerate(spec.env.transforms):
        env = _append(spec, env, component, index, stats)
    return env


def _base(spec: Spec) -> EnvBase:
    component = spec.env
    if component.factory is not None:
        made = call_factory(spec, component, {})
        if not isinstance(made, EnvBase):
            raise wrong_type(spec, component, made, "a TorchRL env (torchrl.envs.EnvBase)")
        return made
    target = c.find_class(spec, component.use or "", c.ENV, (*component.at, "use"))
    try:
        env: EnvBase = _build(spec, component, target)
    except ComponentError as error:
        raise _with_known_envs(spec, error) from error
    return env


def _with_known_envs(spec: Spec, error: ComponentError) -> ComponentError:
    """A gym env that is not registered gets the nearest registered name."""
    import gymnasium

    name = spec.env.args.get("env_name")
    if not isinstance(name, str) or name in gymnasium.registry or "unexpected" in error.message:
        return error
    return c.bad_value(
        spec, (*spec.env.at, "env_name"), name, "a registered gymnasium env", gymnasium.registry
    )


def _append(spec: Spec, env: EnvBase, component: Component, index: int, stats: Stats) -> EnvBase:
    if component.factory is not None:
        made = call_factory(spec, component, {})
        if not isinstance(made, Transform):
            raise wrong_type(spec, component, made, "a torchrl.envs.transforms.Transform")
        return env.append_transform(made)
    target = c.find_class(spec, component.use or "", c.TRANSFORM, (*component.at, "use"))
    if target is ObservationNorm:
        return _append_norm(spec, env, component, index, stats)
    if target.__name__ == "Resize" and needs_resize():
        from rnncheck.pipeline.assembly.transforms import InterpolateResize

        target = InterpolateResize
    _check_in_keys(spec, env, component)
    return _appended(spec, env, component, _build(spec, component, target))


def _check_in_keys(spec: Spec, env: EnvBase, component: Component) -> None:
    """A transform that is told to read what the env does not write raises only in the first
    step."""
    known = [as_key(key) for part in _output_specs(env) for key in part.keys(True)]
    for key in c.as_keys(component.args.get("in_keys")) or ():
        if isinstance(key, (str, tuple)) and as_key(key) not in known:
            names = [dotted(one) for one in known]
            message = f"{component.use} reads {dotted(as_key(key))!r}, which the env does not write"
            place = spec.locate((*component.at, "in_keys"))
            hint = did_you_mean(dotted(as_key(key)), names)
            raise ComponentError(message, place=place, accepted=c.listed_names(names), hint=hint)


def _output_specs(env: EnvBase) -> tuple[Any, ...]:
    return (
        env.full_observation_spec,
        env.full_state_spec,
        env.full_reward_spec,
        env.full_done_spec,
        env.full_action_spec,
    )


def needs_resize() -> bool:
    """Whether TorchRL's own Resize cannot run here."""
    return importlib.util.find_spec("torchvision") is None


def _appended(spec: Spec, env: EnvBase, component: Component, transform: Transform) -> EnvBase:
    """Appending computes the specs, so a transform that does not fit the env shows here."""
    with c.constructing(spec, component, type(transform)):
        grown: EnvBase = env.append_transform(transform)
        grown.observation_spec  # noqa: B018
        return grown


def _is_open(component: Component) -> bool:
    return component.use == "ObservationNorm" and not {"loc", "scale"} & set(component.args)


def _open_norms(spec: Spec, stats: Stats) -> bool:
    return any(_is_open(t) and i not in stats for i, t in enumerate(spec.env.transforms))


def _append_norm(
    spec: Spec, env: EnvBase, component: Component, index: int, stats: Stats
) -> EnvBase:
    """ObservationNorm with the statistics of a random rollout, taken once and then kept."""
    _check_in_keys(spec, env, component)
    settings = component.args.get("init_stats", {})
    args = {key: value for key, value in component.args.items() if key != "init_stats"}
    plain = component.model_copy(update={"args": args})
    c.check_arguments(spec, plain, ObservationNorm, args, also=["init_stats"])
    values = convert_arguments(spec, plain, functools.partial(build_any, spec))
    if _is_open(component) and index in stats:
        values["loc"], values["scale"] = stats[index]
    norm = c.construct(spec, plain, ObservationNorm, values)
    if values.get("loc") is not None or values.get("scale") is not None:
        return _appended(spec, env, component, norm)
    grown: EnvBase = env.append_transform(norm)
    stats[index] = _measure(spec, component, grown, norm, settings)
    return _appended_norm(grown)


def _appended_norm(grown: EnvBase) -> EnvBase:
    """The specs were cached before the statistics were known: drop them."""
    if isinstance(grown, TransformedEnv):
        grown.empty_cache()
    return grown


def _measure(
    spec: Spec, component: Component, env: EnvBase, norm: ObservationNorm, settings: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    at = (*component.at, "init_stats")
    if not isinstance(settings, dict):
        raise c.bad_value(spec, at, settings, "a mapping such as {num_iter: 1000}")
    inner = Component(use="ObservationNorm.init_stats", args=settings, at=at)
    c.check_arguments(spec, inner, norm.init_stats, {"num_iter": STATS_FRAMES, **settings})
    with c.constructing(spec, component, ObservationNorm):
        env.set_seed(spec.seed)
        norm.init_stats(**_stat_settings(env, norm, settings))
    return norm.loc.detach().clone(), norm.scale.detach().clone()


def _stat_settings(env: EnvBase, norm: ObservationNorm, settings: dict[str, Any]) -> dict[str, Any]:
    """The user's arguments of ``init_stats``, and defaults: per channel for images, else per
    feature."""
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    key = given.get("key", norm.in_keys[0])
    time = len(env.batch_size)
    chosen: dict[str, Any] = {"num_iter": STATS_FRAMES, **given}
    if "reduce_dim" in chosen:
        return chosen
    events = len(norm.parent.observation_spec[key].shape) - time
    spatial = (-2, -1) if events == 3 else ()
    leading = tuple(range(-events - time - 1, -events))
    chosen.update(reduce_dim=(*leading, *spatial), cat_dim=-events - 1)
    if spatial:
        chosen["keep_dims"] = spatial
    return chosen


def missing_state_transforms(
    env: EnvBase, policy: nn.Module, critic: nn.Module | None
) -> list[Transform]:
    """The InitTracker and state primers that the modules need and the env does not have."""
    present = _written_by(env)
    missing: list[Transform] = []
    readers = [policy] if critic is None else [policy, critic]
    if _reads_init(readers) and not any(key[-1] == INIT_KEY for key in present):
        missing.append(InitTracker())
    for primer in primers_of(policy):
        keys = {as_key(key) for key in primer.primers.keys(True, True)}
        if not keys <= present:
            missing.append(primer)
            present |= keys
    return missing


def _written_by(env: EnvBase) -> set[Key]:
    specs = (env.full_observation_spec, env.full_state_spec)
    return {as_key(key) for spec in specs for key in spec.keys(True, True)}


def _reads_init(modules: Iterable[nn.Module]) -> bool:
    return any(
        key[-1] == INIT_KEY
        for module in modules
        for part in module.modules()
        for key in declared(part, "in_keys")
    )


def resolve_device(spec: Spec) -> torch.device:
    """The device that the spec asks for, or a UserError when this machine lacks it."""
    if spec.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = spec.device.partition(":")
    if int(index or 0) >= _count(kind):
        raise UserError(
            f"device {spec.device!r} is not on this machine",
            place=spec.locate(("device",)),
            accepted="cpu, auto" + "".join(f", {one}" for one in _accelerators()),
        )
    return torch.device(spec.device)


def _accelerators() -> list[str]:
    """Those of this machine, as a spec names them."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return [] if found is None else [f"{found.type}:{i}" for i in range(_count(found.type))]


def _count(kind: str) -> int:
    """How many devices of a type this machine has; the CPU is one."""
    if kind == "cpu":
        return 1
    found = torch.accelerator.current_accelerator(check_available=True)
    return torch.accelerator.device_count() if found is not None and found.type == kind else 0
