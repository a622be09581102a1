"""Policies and critics: the spec's module list as one TensorDictSequential, sizes inferred as it
goes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
)
from torch import Tensor, nn

from rnncheck.errors import ComponentError, did_you_mean
from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.assembly import sizes
from rnncheck.pipeline.assembly.env_maker import INIT_KEY, build_any
from rnncheck.pipeline.assembly.factories import Offered, call_factory, wrong_type
from rnncheck.pipeline.assembly.materialise import run_from_some_state
from rnncheck.pipeline.assembly.needs import refuse_weights
from rnncheck.pipeline.assembly.values import convert_arguments
from rnncheck.pipeline.compat import unbatched_action_spec, without_implied
from rnncheck.pipeline.keys import Key, as_key, declared, dotted, tensor_keys
from rnncheck.spec.model import Component, NetworkSpec, Spec

WRAPPED = ("in_keys", "out_keys")  # what makes a tensordict module of a plain one
SCALED = ("loc", "scale")
MODULE_LIKE = "a tensordict module: an nn.Module with in_keys and out_keys"


@dataclass
class NetworkBuilder:
    """Builds one network; ``td`` grows as each module runs on it, which gives the next one its
    sizes."""

    spec: Spec
    network: NetworkSpec
    env: Any
    td: TensorDictBase
    device: torch.device
    offered: Offered  # what a factory in the list may ask for
    critic: bool = False
    built: list[nn.Module] = field(default_factory=list)
    index: int = 0
    other_dtype: str = ""

    def build(self) -> nn.Module:
        """The whole list as one module."""
        self.other_dtype = self._other_dtype()
        for index, component in enumerate(self.network.modules):
            self.index = index
            module = self._element(component).to(self.device)
            self.built.append(module)
            self._run(component, module)
        if len(self.built) == 1:
            return self.built[0]
        whole: nn.Module = TensorDictSequential(*self.built)
        return whole

    def _element(self, component: Component) -> nn.Module:
        if component.factory is not None:
            return self._from_factory(component)
        refuse_weights(self.spec, component)
        target = c.find_class(self.spec, component.use or "", c.NN_MODULE, (*component.at, "use"))
        if target.__name__ == "ProbabilisticActor":
            return self._probabilistic(self._without_module(component), target)
        if issubclass(target, TensorDictModuleBase):
            return self._tensordict_module(component, target)
        return self._wrapped(component, target)

    def _from_factory(self, component: Component) -> nn.Module:
        keys = {name: component.args[name] for name in WRAPPED if name in component.args}
        rest = {k: v for k, v in component.args.items() if k not in keys}
        plain = component.model_copy(update={"args": rest})
        made = call_factory(self.spec, plain, self.offered, optional=keys)
        if isinstance(made, nn.Module) and isinstance(made, TensorDictModuleBase):
            return made
        if isinstance(made, nn.Module) and len(keys) == len(WRAPPED):
            return self._wrap(component, made)
        accepted = f"{MODULE_LIKE}, or an nn.Module where the spec gives both keys"
        raise wrong_type(self.spec, component, made, accepted)

    # --- plain modules -----------------------------------------------------------------------

    def _wrapped(self, component: Component, target: type) -> nn.Module:
        """A plain nn.Module class between the entries that ``in_keys`` and ``out_keys`` name."""
        keyed = self._with_default_keys(component)
        missing = [name for name in WRAPPED if name not in keyed.args]
        if missing:
            raise ComponentError(
                f"{component.use} needs {' and '.join(missing)}: the entries that it reads and"
                " writes",
                place=self.spec.locate(component.at),
                hint=f"entries to read: {c.listed_names(dotted(key) for key in self._available())}",
            )
        rest = {k: v for k, v in keyed.args.items() if k not in WRAPPED}
        plain = keyed.model_copy(update={"args": rest})
        return self._wrap(keyed, self._plain(plain, target, self._inputs(keyed), also=WRAPPED))

    def _with_default_keys(self, component: Component) -> Component:
        """NormalParamExtractor splits what was written last into its two halves."""
        if component.use != "NormalParamExtractor" or not self.built:
            return component
        last = declared(self.built[-1], "out_keys")
        defaults = {"in_keys": [list(last[-1])] if last else [], "out_keys": list(SCALED)}
        return component.model_copy(update={"args": {**defaults, **component.args}})

    def _wrap(self, component: Component, module: nn.Module) -> nn.Module:
        keys = {name: c.as_keys(component.args[name]) for name in WRAPPED}
        with c.constructing(self.spec, component, TensorDictModule):
            wrapped: nn.Module = TensorDictModule(module, **keys)
            return wrapped

    def _plain(
        self, component: Component, target: type, inputs: list[Tensor], also: tuple[str, ...] = ()
    ) -> nn.Module:
        if target is nn.Sequential:
            return self._sequential(component, inputs)
        values = self._arguments(component, inputs)
        return self._constructed(component, target, values, inputs, also)

    def _sequential(self, component: Component, inputs: list[Tensor]) -> nn.Module:
        """``{use: Sequential, modules: [...]}``: each layer sees what the one before it gives."""
        c.check_arguments(self.spec, component, _takes_modules, component.args, also=WRAPPED)
        layers: list[nn.Module] = []
        for number, item in enumerate(component.args["modules"]):
            inner = self._as_component(item, (*component.at, "modules", number))
            layer = self._nested(inner, inputs).to(self.device)
            with c.constructing(self.spec, inner, type(layer)), torch.no_grad():
                inputs = [layer(*inputs)]
            layers.append(layer)
        return nn.Sequential(*layers)

    def _as_component(self, value: Any, at: tuple[str | int, ...]) -> Component:
        found = c.nested(value, at)
        if found is None and not isinstance(value, str):
            raise c.bad_value(self.spec, at, value, "a module: a class's name, or {use: ...}")
        return found or Component(use=value, at=at)

    # --- tensordict modules ------------------------------------------------------------------

    def _tensordict_module(self, component: Component, target: type) -> nn.Module:
        args = without_implied(target.__name__, component.args)
        component = component.model_copy(update={"args": args})
        inputs = self._inputs(component)
        values = {
            **self._from_env(component, target),
            **self._arguments(component, inputs),
        }
        return self._constructed(component, target, values, inputs)

    def _arguments(self, component: Component, inputs: list[Tensor]) -> dict[str, Any]:
        """The arguments, nested modules built on the same inputs."""
        args = dict(component.args)
        if isinstance(args.get("module"), str):
            args["module"] = self._as_component(args["module"], (*component.at, "module"))
        whole = component.model_copy(update={"args": args})
        return convert_arguments(self.spec, whole, lambda inner: self._nested(inner, inputs))

    def _nested(self, component: Component, inputs: list[Tensor]) -> Any:
        """A component inside another's arguments."""
        if component.factory is not None:
            return call_factory(self.spec, component, self.offered)
        target = c.find_class(self.spec, component.use or "", c.ANY, (*component.at, "use"))
        if not issubclass(target, nn.Module):
            return build_any(self.spec, component)
        if issubclass(target, TensorDictModuleBase):
            return self._tensordict_module(component, target)
        if set(WRAPPED) <= set(component.args):
            return self._wrapped(component, target)
        return self._plain(component, target, inputs)

    def _constructed(
        self,
        component: Component,
        target: type,
        values: dict[str, Any],
        inputs: list[Tensor],
        also: tuple[str, ...] = (),
    ) -> nn.Module:
        values = {**values, **sizes.inferred(target, values, inputs)}
        c.check_arguments(self.spec, component, target, component.args, provided=values, also=also)
        self._check_hidden_size(component, target)
        if values.get("out_features") == "auto":
            values["out_features"] = self._auto_size(component)
        made: nn.Module = c.construct(self.spec, component, target, values)
        return made

    def _check_hidden_size(self, component: Component, target: type) -> None:
        """TorchRL's recurrent modules give it the default None, which no layer accepts."""
        given = {"hidden_size", *sizes.WRAPS_LAYER} & set(component.args)
        if "hidden_size" in c.accepts(target).names and not given:
            raise ComponentError(
                f"{component.use} needs 'hidden_size'",
                place=c.component_place(self.spec, component),
            )

    def _without_module(self, component: Component) -> Component:
        """An actor's own ``module`` becomes the element before it, which is what it is."""
        args = dict(component.args)
        if "module" in args:
            inner = self._as_component(args.pop("module"), (*component.at, "module"))
            module = self._element(inner).to(self.device)
            self.built.append(module)
            self._run(inner, module)
        return component.model_copy(update={"args": args})

    def _probabilistic(self, component: Component, target: type) -> nn.Module:
        """ProbabilisticActor without a module of its own draws from what the list has written so
        far."""
        if not self.built:
            raise ComponentError(
                "ProbabilisticActor has nothing before it that writes the distribution's"
                " parameters",
                place=c.component_place(self.spec, component),
                hint="put the modules that write them before it, or give it a `module`",
            )
        self._check_actor(component)
        values = {**self._from_env(component, target), **self._arguments(component, [])}
        values.setdefault("in_keys", self._parameter_keys(values["distribution_class"]))
        values.setdefault("out_keys", [self._action_key()])
        reads = values["in_keys"]
        reads = reads.values() if isinstance(reads, dict) else reads
        self._check_reads(component, [as_key(key) for key in reads])
        values["module"] = TensorDictSequential(*self.built)
        self.built.clear()
        made: nn.Module = c.construct(self.spec, component, target, values)
        return made

    def _check_actor(self, component: Component) -> None:
        known = actor_arguments()
        for argument in component.args:
            if argument not in known:
                raise c.unknown_argument(self.spec, component, argument, known)
        if "distribution_class" not in component.args:
            raise ComponentError(
                "ProbabilisticActor needs 'distribution_class'",
                place=c.component_place(self.spec, component),
                accepted="TanhNormal, OneHotCategorical, Categorical, ...",
            )

    @staticmethod
    def _parameter_keys(distribution: Any) -> list[str]:
        names = [*inspect.signature(distribution).parameters]
        return ["logits"] if "logits" in names else [n for n in SCALED if n in names] or names[:1]

    # --- what the env and the earlier modules say --------------------------------------------

    def _from_env(self, component: Component, target: type) -> dict[str, Any]:
        """``spec`` and the action's key, for the classes that ask for them."""
        takes, given = c.accepts(target).names, component.args
        said = [name for name in ("spec", "action_space") if given.get(name) is not None]
        if "spec" not in takes or said:
            return {}
        key = self._action_key()
        found: dict[str, Any] = {"spec": unbatched_action_spec(self.env)[key].to(self.device)}
        if "action_key" in takes and "action_key" not in given:
            found["action_key"] = key
        if target.__name__.startswith("QValueModule") and as_key(key) != ("action",):
            value = c.one_key(given.get("action_value_key", "action_value"))
            found["out_keys"] = [key, value, "chosen_action_value"]
        return found

    def _action_key(self) -> Any:
        return self.env.action_keys[0]

    def _auto_size(self, component: Component) -> int:
        """``out_features: auto``: one value for a critic, else what the action's distribution
        takes."""
        if self.critic:
            return 1
        later = self.network.modules[self.index + 1 :]
        if any(one.use in ("LSTMModule", "GRUModule", "MLP", "Linear", "ConvNet") for one in later):
            raise c.bad_value(
                self.spec,
                (*component.at, "out_features"),
                "auto",
                "known here: it is the size of the action, so only the last layer can have it",
                ["a number"],
            )
        spec = unbatched_action_spec(self.env)[self._action_key()]
        halves = any(one.use == "NormalParamExtractor" for one in later)
        halves = halves or _has(component, "NormalParamExtractor")
        return sizes.action_size(spec) * (2 if halves and not sizes.is_discrete(spec) else 1)

    def _available(self) -> list[Key]:
        hidden = (INIT_KEY, "done", "terminated", "truncated")
        return [k for k in tensor_keys(self.td) if k[0] != "next" and k[-1] not in hidden]

    def _inputs(self, component: Component) -> list[Tensor]:
        """The tensors that a module reads, state and start flags left out."""
        args = component.args
        named = c.as_keys(args.get("in_keys")) or (
            [c.one_key(args["in_key"])] if "in_key" in args else ["observation"]
        )
        if not isinstance(named, list):
            return []
        keys = [as_key(key) for key in named]
        if "hidden_size" in args or "lstm" in args or "gru" in args:
            keys = keys[:1]
        if "in_keys" in args or "in_key" in args:
            self._check_reads(component, keys)
        found = [self.td.get(key, None) for key in keys]
        return [tensor for tensor in found if isinstance(tensor, Tensor)]

    def _check_reads(self, component: Component, keys: list[Key]) -> None:
        known = tensor_keys(self.td)
        for key in keys:
            if key in known or key[-1] == INIT_KEY or _follows(key, known):
                continue
            names = [dotted(one) for one in self._available()]
            argument = "in_keys" if "in_keys" in component.args else "in_key"
            raise ComponentError(
                f"{c.called(component)} reads {dotted(key)!r}, "
                "which neither the env nor an earlier module writes",
                place=self.spec.locate((*component.at, argument)),
                accepted=c.listed_names(names),
                hint=did_you_mean(dotted(key), names),
            )

    def _run(self, component: Component, module: nn.Module) -> None:
        if isinstance(module, TensorDictModuleBase):
            own = {key[1:] for key in declared(module, "out_keys") if key[0] == "next"}
            reads = [key for key in declared(module, "in_keys") if key not in own]
            self._check_reads(component, reads)
        self._check_action_values(component, module)
        try:
            with c.constructing(self.spec, component, type(module)):
                run_from_some_state(module, self.td)
        except ComponentError as error:
            error.hint = error.hint or self.other_dtype
            raise

    def _other_dtype(self) -> str:
        """Where the env's reset does not keep to its spec's dtype, as TensorDictPrimer does not
        before 0.14."""
        for specs in (self.env.full_observation_spec, self.env.full_state_spec):
            for key in specs.keys(True, True):
                given, said = self.td.get(key, None), specs[key].dtype
                if isinstance(given, Tensor) and given.dtype != said:
                    name = dotted(as_key(key))
                    return f"the env's reset gives {name!r} as {given.dtype}, its spec says {said}"
        return ""

    def _check_action_values(self, component: Component, module: nn.Module) -> None:
        """One value per action, or the policy would in time choose one that does not exist."""
        if component.use != "QValueModule" or component.args.get("action_space") is not None:
            return
        key = declared(module, "in_keys")[0]
        given = self.td.get(key).shape[-1]
        wanted = sizes.action_size(unbatched_action_spec(self.env)[self._action_key()])
        if given != wanted:
            raise ComponentError(
                f"QValueModule reads {given} values in {dotted(key)!r}, the env has {wanted}"
                " actions",
                place=c.component_place(self.spec, component),
                hint="give the layer before it `out_features: auto`",
            )


def _follows(key: Key, known: tuple[Key, ...]) -> bool:
    """Whether collected data has it under ``next``, for a recurrent pass to read."""
    return key[0] == "next" and (key[1:] in known or key[-1] == "reward")


def actor_arguments() -> list[str]:
    """What ProbabilisticActor takes: its signature says only ``*args, **kwargs``."""
    return [*c.accepts(ProbabilisticTensorDictModule).names, "module", "spec", "safe"]


def _has(component: Component, name: str) -> bool:
    return name in str(component.args)


def _takes_modules(modules: list[Any]) -> None:
    """The signature of ``{use: Sequential, modules: [...]}``."""
