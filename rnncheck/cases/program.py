"""A stored case as a program of its own, on torch, tensordict and TorchRL alone: what one attaches
to a bug report.

What the spec names with ``use`` is written out; the user's factories are imported. The training
batch is the stored one, with its numbers rounded.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.cases.model import CaseError, StoredCase
from rnncheck.cases.store import spec_text
from rnncheck.cases.tensors import Inputs
from rnncheck.checks.engine.verification import Verification
from rnncheck.pipeline.assembly import components as c
from rnncheck.pipeline.keys import Key, as_key, declared
from rnncheck.pipeline.model import Pipeline
from rnncheck.spec.load import spec_from_text
from rnncheck.spec.model import Component, NetworkSpec, Spec

WRITTEN = ("LS701",)  # the checks that have a program
_WIDTH = 99  # columns
_DIGITS = 2  # behind the point of a number: chosen, a leak does not hang on more
_JOINED = "\0"  # a space at which no line is broken
_REWARD = ("reward", "done", "terminated", "truncated")

_HEAD = '''"""{code} {name}, torchrl {version}: exits 1 while it is there.

{cause}
With --mended the next state gets the start flags of the root.
"""
'''
_JUDGED = """batch = TensorDict({{**root, "next": TensorDict(following, {shape})}}, {shape})
first = tensor({first})  # the steps of the first segment


def terms(change):
    data = batch.clone()
    for part in (data, data["next"]):
        {changed}
    if "--mended" in sys.argv:
        data["next", "is_init"] = data["is_init"].clone()
    parts = [one.flatten() for one in loss(data).values() if one.numel() == first.numel()]
    return torch.stack(parts)[:, ~first].flatten().tolist()


before, after = terms(0.0), terms(1.0)
print(f"losses of the other segments:   {{before}}")
print(f"with the first segment changed: {{after}}")
sys.exit(before != after)
"""


def program_of(case: StoredCase, inputs: Inputs, file: Path) -> str:
    """The text of the program. Raises CaseError where the case cannot be one."""
    if case.code not in WRITTEN:
        raise CaseError(f"{case.code} has no program yet", accepted=", ".join(WRITTEN))
    if not inputs.trained:
        raise CaseError("the case holds no training batch")
    spec = spec_from_text(spec_text(case), str(file))
    with Verification(spec) as verification:
        for _ in verification.build():
            pass
        if verification.pipeline is None:
            raise CaseError("its pipeline cannot be built any more")
        return _Program(case, spec, verification.pipeline, inputs.trained[0]).text()


class _Program:
    """Writes one program; ``names`` are its imports by module."""

    def __init__(
        self, case: StoredCase, spec: Spec, pipeline: Pipeline, batch: TensorDictBase
    ) -> None:
        self._case, self._spec, self._pipeline, self._batch = case, spec, pipeline, batch
        self._names: dict[str, set[str]] = {"tensordict": {"TensorDict"}}
        self._has_env = False

    def text(self) -> str:
        """All of it."""
        body = [*self._networks(), *self._loss(), *self._data()]
        shape = list(self._batch.shape)
        flat = f".flatten(0, {len(shape) - 1})[first] += change"
        changed = [f"part[{_code(key)}]{flat}" for key in self._observed()]
        judged = _JUDGED.format(
            shape=shape, first=self._first(), changed=f"\n{' ' * 8}".join(changed)
        )
        return "\n".join([self._head(), *self._imports(), "", *body, judged])

    def _first(self) -> list[bool]:
        """Which steps are those of the first segment, row by row."""
        starts = self._batch["is_init"].reshape(self._batch.shape).clone()
        starts[..., 0] = True
        found: list[bool] = starts.flatten().cumsum(0).eq(1).tolist()
        return found

    def _head(self) -> str:
        case = self._case
        parts = case.seen.reason.split("|")
        cause = parts[2] if len(parts) > 2 else case.seen.message
        version = case.environment.packages.get("torchrl", "")
        told = textwrap.fill(f"{cause[:1].upper()}{cause[1:]}.", _WIDTH)
        texts = {"code": case.code, "name": case.name, "version": version, "cause": told}
        return _HEAD.format(**{name: _quotable(text) for name, text in texts.items()})

    def _imports(self) -> Iterator[str]:
        yield from ("import sys", "", "import torch")
        self._names["torch"] = {"tensor"}
        for module, names in sorted(self._names.items()):
            yield f"from {module} import {', '.join(sorted(names))}"

    # --- what is built -----------------------------------------------------------------------

    def _networks(self) -> Iterator[str]:
        yield "torch.manual_seed(0)"
        yield from self._network("policy", self._spec.policy, self._pipeline.pristine_policy)
        if self._spec.critic is not None and self._pipeline.pristine_critic is not None:
            yield from self._network("critic", self._spec.critic, self._pipeline.pristine_critic)

    def _network(self, name: str, network: NetworkSpec, live: nn.Module) -> Iterator[str]:
        if network.factory is not None:
            yield from self._env()
            yield f"{name} = {self._called(network.factory, 'env')}"
            return
        modules = list(getattr(live, "module", [live]))
        self._names.setdefault("tensordict.nn", set()).add("TensorDictSequential")
        yield f"{name} = TensorDictSequential("
        for component, module in zip(network.modules, modules, strict=True):
            yield from _wrapped(f"{self._module(component, module)},", "    ")
        yield ")"

    def _module(self, component: Component, live: nn.Module) -> str:
        if component.factory is not None:
            return self._called(component, "env")
        args, use = dict(component.args), component.use or ""
        if use in ("LSTMModule", "GRUModule"):
            cell = getattr(live, use[:-6].lower())
            return self._made(use, c.NN_MODULE, {"input_size": cell.input_size, **args})
        if use == "QValueModule":
            space = getattr(live, "action_space", None)
            keyed = {"action_space": space, "action_value_key": "action_value"}
            return self._made(use, c.NN_MODULE, {**keyed, **args})
        if use == "MLP":
            sizes = [one for one in live.modules() if isinstance(one, nn.Linear)]
            keys = {name: args.pop(name) for name in ("in_keys", "out_keys")}
            known = {"in_features": sizes[0].in_features, **args}
            inner = self._made(use, c.NN_MODULE, {**known, "out_features": sizes[-1].out_features})
            self._names.setdefault("tensordict.nn", set()).add("TensorDictModule")
            return f"TensorDictModule({inner}, {_arguments(keys)})"
        raise CaseError(
            f"{use} cannot be written as a program",
            accepted="LSTMModule, GRUModule, MLP, QValueModule and factories of your own",
        )

    def _env(self) -> Iterator[str]:
        """The env that a factory of the user's asks for."""
        env = self._spec.env
        if self._has_env:
            return
        self._has_env = True
        if env.factory is not None:
            yield f"env = {self._called(env)}"
            return
        parts = [self._made(one.use or "", c.TRANSFORM, one.args) for one in env.transforms]
        inner = self._made(env.use or "", c.ENV, env.args)
        self._names.setdefault("torchrl.envs", set()).update(("Compose", "TransformedEnv"))
        yield from _wrapped(f"env = TransformedEnv({inner}, Compose({', '.join(parts)}))", "")

    def _loss(self) -> Iterator[str]:
        section = self._spec.loss
        if section is None or section.use is None:
            raise CaseError("only the losses of TorchRL have a program; yours is your own code")
        networks = ["policy"] + (["critic"] if self._spec.critic is not None else [])
        args = _arguments({**section.args, "reduction": "none"})
        self._add(section.use, c.LOSS)
        yield f"loss = {section.use}({', '.join(networks)}, {args})"
        if section.value_estimator:
            yield f"loss.make_value_estimator({_arguments(section.value_estimator)})"

    def _called(self, component: Component, *given: str) -> str:
        module, _, function = (component.factory or "").partition(":")
        self._names.setdefault(module, set()).add(function)
        return f"{function}({', '.join([*given, *filter(None, [_arguments(component.args)])])})"

    def _made(self, use: str, kind: c.ComponentKind, args: dict[str, Any]) -> str:
        self._add(use, kind)
        return f"{use}({_arguments(args)})"

    def _add(self, use: str, kind: c.ComponentKind) -> None:
        for path in reversed(kind.namespaces):
            if getattr(import_module(path), use, None) is c.public_class(use, kind):
                self._names.setdefault(path, set()).add(use)
                return
        raise CaseError(f"{use} is not found in {', '.join(kind.namespaces)}")

    # --- the batch ---------------------------------------------------------------------------

    def _observed(self) -> Iterator[str]:
        """What is observed: read from the batch at this step and at the next."""
        written = {key[-1] for key in declared(self._pipeline.pristine_policy, "out_keys")}
        read = self._read()
        for key, value in self._batch.items():
            again = self._batch.get(("next", key), None) if isinstance(key, str) else None
            floats = isinstance(value, Tensor) and value.is_floating_point() and again is not None
            if floats and (key,) in read and key not in (*_REWARD, *written):
                yield key

    def _data(self) -> Iterator[str]:
        read = self._read()
        for name, part in (("root", self._batch), ("following", self._batch["next"])):
            outer = () if name == "root" else ("next",)
            found = [(str(key), one) for key, one in part.items() if isinstance(one, Tensor)]
            kept = [(key, one) for key, one in sorted(found) if (*outer, key) in read]
            entries = [f'"{key}":{_JOINED}{_literal(value)},' for key, value in kept]
            yield f"{name} = {{"
            yield from _packed(entries)
            yield "}"

    def _read(self) -> set[Key]:
        """What the loss and its networks read, at this step and at the next."""
        networks = [self._pipeline.pristine_policy, self._pipeline.pristine_critic]
        inputs = {key for one in networks if one is not None for key in declared(one, "in_keys")}
        asked = {as_key(key) for key in getattr(self._pipeline.loss, "in_keys", ())}
        return asked | inputs | {("next", *key) for key in inputs} | {("is_init",)}


def _arguments(args: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_code(value)}" for name, value in args.items())


def _code(value: Any) -> str:
    """``value`` as Python, texts in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # an escaped pair is two characters
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_code, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_code(k)}: {_code(v)}' for k, v in value.items())}}}"
    return repr(value)


def _quotable(text: str) -> str:
    """``text`` as it may stand in a docstring, whoever stored it."""
    return text.replace("\\", "\\\\").replace('"', "'")


def _literal(value: Tensor) -> str:
    """The tensor as Python: zeros and falses as such."""
    shape, dtype = list(value.shape), str(value.dtype)
    sizes = ", ".join(map(str, shape)) if shape else "()"
    plain = "" if dtype in ("torch.float32", "torch.bool", "torch.int64") else f", dtype={dtype}"
    if not bool(value.any()):
        kind = "" if dtype == "torch.float32" else f", dtype={dtype}"
        return f"torch.zeros({sizes}{kind})".replace(" ", _JOINED)
    if bool(value.eq(1).all()) and value.is_floating_point():
        return f"torch.ones({sizes}{plain})".replace(" ", _JOINED)
    rounded = value.double().mul(10**_DIGITS).round() if value.is_floating_point() else None
    numbers = value if rounded is None else rounded.div(10**_DIGITS)
    flat = re.sub(r"\.0\b", ".", str(numbers.flatten().tolist()))
    if value.dim() < 2:
        return f"tensor({flat}{plain})"
    return f"tensor({flat}{plain}).view({sizes.replace(' ', _JOINED)})"


def _packed(entries: list[str]) -> Iterator[str]:
    """Entries of a dictionary, as many on a line as fit."""
    line = ""
    for entry in entries:
        if line and len(line) + len(entry) < _WIDTH - 4:
            line += f" {entry}"
        else:
            yield from _wrapped(line, "    ")
            line = entry
    yield from _wrapped(line, "    ")


def _wrapped(text: str, indent: str) -> list[str]:
    """``text`` in lines that fit, broken behind commas."""
    inner = indent + "    "
    lines = textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=inner,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_JOINED, " ") for line in lines]
