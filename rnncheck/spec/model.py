"""The spec as typed data. Loading fills it; nothing here imports torch or the user's code."""

from __future__ import annotations

import pathlib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from rnncheck.errors import Place
from rnncheck.spec.fields import Bool, Int, Strict
from rnncheck.spec.settings import BenchSpec, GateSpec, MemorySpec, VerifySpec

KeyPath = tuple[str | int, ...]
ACCELERATORS = ("cuda", "hpu", "mps", "mtia", "npu", "xpu")  # as torch.device names them
_MODULE = r"^[^\W\d]\w*(\.[^\W\d]\w*)*$"


class Component(BaseModel):
    """One thing that the spec names: a TorchRL class (``use``) or the user's function
    (``factory``).

    ``args`` are all other keys. ``at`` is the component's path in the spec, for its line and
    column.
    """

    model_config = ConfigDict(frozen=True)

    use: str | None = None
    factory: str | None = None
    args: dict[str, Any] = Field(default_factory=dict)
    at: KeyPath = ()

    _live: Any = PrivateAttr(default=None)  # what Python handed over; `factory` is then its name


class EnvSpec(Component):
    """The environment: a component, how many copies run side by side, and its transforms."""

    # The upper limit refuses slips; what so many processes need is estimated before they start.
    workers: Int = Field(default=1, ge=1, le=1024, description="how many copies run side by side")
    vectorize: Literal["serial", "parallel"] = Field(
        default="serial", description="SerialEnv or ParallelEnv, where workers > 1"
    )
    transforms: tuple[Component, ...] = Field(
        default=(), description="appended to the env in this order"
    )
    primers: Literal["auto", "manual", "always"] = Field(
        default="auto",
        description=(
            "auto: the policy's state primers are added behind the transforms; always: also to"
            " what a factory makes"
        ),
    )


class NetworkSpec(Strict):
    """A policy or critic: modules run in order, or one factory; ``weights`` is a state_dict
    file."""

    modules: tuple[Component, ...] = Field(default=(), description="run in this order")
    factory: Component | None = Field(
        default=None, description="package.module:function of your own, instead of modules"
    )
    weights: str | None = Field(
        default=None, min_length=1, description="a state_dict file, read with weights_only"
    )
    at: KeyPath = ()


class ReplaySpec(Component):
    """The replay buffer: the parts of ``use`` (TensorDictReplayBuffer), or a factory."""

    storage: Component | None = Field(default=None, description="the buffer's storage")
    sampler: Component | None = Field(default=None, description="the buffer's sampler")
    writer: Component | None = Field(default=None, description="the buffer's writer")
    batch_size: Int | None = Field(default=None, ge=1, description="items of a sampled batch")
    transforms: tuple[Component, ...] = Field(
        default=(), description="appended to the buffer in this order"
    )
    flatten: Literal["auto", "rows", "none"] = Field(
        default="auto",
        description=(
            "rows: extend(data.reshape(-1)); none: extend(data); "
            "auto: rows where the storage has one dimension and room for the steps of a batch"
        ),
    )


class AdvantageSpec(Component):
    """A value estimator, where it runs and in which recurrent mode."""

    on: Literal["collect", "sample"] = Field(
        default="collect", description="on each collected batch, or behind the replay"
    )
    recurrent_mode: Bool = Field(
        default=True, description="run it under set_recurrent_mode(True), where it is named by use"
    )
    keys: dict[str, Any] = Field(default_factory=dict, description="arguments of its set_keys")


class LossSpec(Component):
    """A loss module, its target updater and the arguments of its ``make_value_estimator``; or a
    function of the user's that is the loss itself."""

    # `factory` then holds the same name: it is found, imported and shown as a factory is.
    function: str | None = Field(
        default=None, description="package.module:function of your own that is called on batches"
    )
    target_update: Component | None = Field(
        default=None, description="the target updater, such as SoftUpdate"
    )
    value_estimator: dict[str, Any] = Field(
        default_factory=dict, description="arguments of its make_value_estimator"
    )
    keys: dict[str, Any] = Field(default_factory=dict, description="arguments of its set_keys")


class PassSpec(Component):
    """The pass over training sequences, where it is another function than the policy itself."""

    # `factory` then holds the same name: it is found, imported and shown as a factory is.
    function: str | None = Field(
        default=None, description="package.module:function of your own that is called on batches"
    )
    out_keys: tuple[str | tuple[str, ...], ...] = Field(
        default=(), description="names of what it returns, where that is a tensor or a tuple"
    )
    time_first: Bool = Field(default=False, description="it is given [T, B] instead of [B, T]")


class Spec(Strict):
    """A whole spec file, validated.

    ``locate`` gives the line and column of any path in it.
    """

    schema_: Literal[1] = Field(alias="schema", description="version of the spec's format")
    name: str = Field(min_length=1, max_length=200, description="shown in reports")
    # A seed that every library takes: a signed 32-bit integer.
    seed: Int = Field(default=0, ge=0, lt=2**31, description="of every random number of a run")
    device: str = Field(
        default="cpu",
        pattern=rf"^(cpu|auto|({'|'.join(ACCELERATORS)})(:[0-9]{{1,3}})?)$",
        description="cpu, cuda, cuda:N or auto; mps, xpu and torch's other accelerators likewise",
    )
    env: EnvSpec = Field(description="the environment and its transforms")
    policy: NetworkSpec = Field(description="what acts, and what a loss trains")
    critic: NetworkSpec | None = Field(default=None, description="what estimates values")
    training_pass: PassSpec | None = Field(
        default=None, description="what a loop calls on its sequences, where that is not the policy"
    )
    collect: Component | None = Field(default=None, description="the collector")
    replay: ReplaySpec | None = Field(default=None, description="the replay buffer")
    batch: Component | None = Field(
        default=None, description="your function between the data and the loss"
    )
    advantage: AdvantageSpec | None = Field(default=None, description="the value estimator")
    loss: LossSpec | None = Field(default=None, description="the loss module")
    checks: tuple[Annotated[str, Field(pattern=_MODULE)], ...] = Field(
        default=(), description="modules or packages of your own whose checks are added"
    )
    verify: VerifySpec = Field(default=VerifySpec(), description="settings of `rnncheck verify`")
    bench: BenchSpec = Field(default=BenchSpec(), description="settings of `rnncheck bench`")
    memory: MemorySpec = Field(default=MemorySpec(), description="settings of `rnncheck memory`")
    gate: GateSpec = Field(default=GateSpec(), description="settings of `rnncheck gate`")

    _path: str = PrivateAttr(default="")  # as the user gave it
    _folder: pathlib.Path | None = PrivateAttr(default=None)  # when it was loaded: code may chdir
    _hash: str = PrivateAttr(default="")  # sha256 of the effective spec
    _places: dict[KeyPath, Place] = PrivateAttr(default_factory=dict)
    _copies: Any = PrivateAttr(default=None)  # of the objects that Python handed over
    _made: Any = PrivateAttr(default=None)  # the training batches that a script was seen to make

    @property
    def path(self) -> str:
        """The file, as the user named it."""
        return self._path

    @property
    def folder(self) -> pathlib.Path:
        """The folder whose modules the factories come from."""
        if self._folder is not None:
            return self._folder
        return pathlib.Path(self._path).resolve().parent if self._path else pathlib.Path.cwd()

    @property
    def hash(self) -> str:
        """sha256 over the effective spec, after overrides."""
        return self._hash

    def locate(self, at: KeyPath) -> Place:
        """The place of ``at`` in the file, or of its nearest ancestor that has one."""
        for length in range(len(at), -1, -1):
            if at[:length] in self._places:
                return self._places[at[:length]]
        return Place(self._path)
