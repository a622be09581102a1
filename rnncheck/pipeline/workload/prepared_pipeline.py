"""The user's pipeline, prepared for a sweep: built once in a process, all cells made from it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn

from rnncheck.errors import Lacking
from rnncheck.pipeline.assembly.builder import Builder
from rnncheck.pipeline.backends.facts import rnn_facts_of, torch_dtype
from rnncheck.pipeline.backends.matrix import Ability, backend_verdict
from rnncheck.pipeline.backends.swap import (
    CannotSwap,
    policy_as,
    policy_copy,
    recurrent_modules,
    variant_inside,
)
from rnncheck.pipeline.copying.copies import CannotCopy
from rnncheck.pipeline.keys import Key, declared
from rnncheck.pipeline.placing import placed
from rnncheck.pipeline.subject.env_facts import look_at
from rnncheck.pipeline.subject.heads import take_heads
from rnncheck.pipeline.subject.introspect import CannotStep, make_subject
from rnncheck.pipeline.subject.passes import cast
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.pipeline.workload import CannotRun
from rnncheck.pipeline.workload import accuracy as judging
from rnncheck.pipeline.workload.calls import (
    PreparedCell,
    act_call,
    compiled,
    forward_call,
    loss_call,
    plain_train_call,
)
from rnncheck.pipeline.workload.data import drawn_starts, lay_inputs, resized_sample, whole_batch
from rnncheck.pipeline.workload.overriding import override_texts
from rnncheck.results.cells import Accuracy, Cell, Phase
from rnncheck.results.model import Stage
from rnncheck.results.variant import Own, Variant
from rnncheck.spec.load import load_spec
from rnncheck.spec.model import Spec

# Steps of the user's own env that batches are laid out of. Chosen: time hardly depends on the
# values, and an env that is slow to step is stepped only so often.
POOL = 64
_NETWORKS = (Stage.ENV, Stage.POLICY, Stage.CRITIC)


class PreparedPipeline:
    """Use as a context. ``prepare`` turns a cell into a call; overrides get a pipeline of their
    own."""

    def __init__(self, spec: Spec, overrides: tuple[str, ...] = ()) -> None:
        self.spec = spec
        self._overrides = overrides
        self._scope = ExitStack()
        self._lacking = ""  # why no cell of this pipeline can run on this machine
        self._others: dict[str, PreparedPipeline] = {}
        self._oracles: dict[tuple[Any, ...], judging.Numbers] = {}
        self._batches: dict[tuple[int, int, float], tuple[TensorDictBase, TensorDict]] = {}

    def __enter__(self) -> PreparedPipeline:
        torch.manual_seed(self.spec.seed)
        self._builder = self._scope.enter_context(Builder(self.spec))
        try:
            for stage in _NETWORKS:
                self._builder.run(stage)
        except Lacking as error:
            self._lacking = error.reason
        self._raise_failures()
        return self

    def __exit__(self, *details: object) -> None:
        self._scope.close()

    @property
    def threads(self) -> int:
        """What torch computes with."""
        return torch.get_num_threads()

    def prepare(self, cell: Cell) -> PreparedCell:
        """The cell's call. Raises CannotRun with the reason, or whatever the user's code raises."""
        if cell.overrides:
            return self._overridden(cell)
        if self._lacking:
            raise CannotRun(self._lacking)
        if isinstance(cell.variant, Own):
            return _Preparation(self, cell, variant_inside(self.policy), own=True).made()
        self._check(cell.variant)
        return _Preparation(self, cell, cell.variant).made()

    def _overridden(self, cell: Cell) -> PreparedCell:
        from dataclasses import replace

        name = repr(sorted(cell.overrides.items()))
        if name not in self._others:
            texts = override_texts(self.spec, cell.overrides)
            spec = load_spec(Path(self.spec.path), [*self._overrides, *texts])
            self._others[name] = self._scope.enter_context(PreparedPipeline(spec))
        return self._others[name].prepare(replace(cell, overrides={}))

    def _check(self, variant: Variant) -> None:
        """Every recurrent module of policy and critic must be able to run as the variant."""
        modules = recurrent_modules(self.policy)
        if not modules:
            raise CannotRun(
                "the policy has no LSTMModule or GRUModule whose backend could be chosen"
            )
        for path, module in modules.items():
            found = backend_verdict(rnn_facts_of(module), variant, str(self.device))
            if found.ability is Ability.INTERPRETED:
                raise CannotRun("Triton's kernels need CUDA: the interpreter's speed says nothing")
            if not found.runs:
                raise CannotRun(f"{path or 'the module'}: {found.reason}")

    def _raise_failures(self) -> None:
        for failure in self._builder.failures.values():
            raise CannotRun(f"the {failure.stage} stage failed: {failure.message}")
        if self._builder.pipeline is not None:
            for stage, reason in self._builder.pipeline.lacking.items():
                raise CannotRun(f"the {stage} stage cannot run: {reason}")

    # --- parts -----------------------------------------------------------------------------------

    @property
    def pipeline(self) -> Any:
        return self._builder.pipeline

    @property
    def policy(self) -> nn.Module:
        module: nn.Module = self.pipeline.pristine_policy
        return module

    @property
    def device(self) -> torch.device:
        return next((p.device for p in self.policy.parameters()), torch.device("cpu"))

    def subject(self) -> Subject:
        """The policy with its carry and fresh states."""
        if not hasattr(self, "_subject"):
            env = self._env()
            try:
                self._subject = make_subject(Stage.POLICY, self.policy, look_at(env))
            except CannotStep as error:
                raise CannotRun(f"the policy cannot run one step ({error})") from error
            except CannotCopy as error:
                raise CannotRun(str(error)) from error
        return self._subject

    def _env(self) -> Any:
        if not hasattr(self, "_acting"):
            self._acting = self.pipeline.make_acting_env()
            self._scope.callback(self._acting.close, raise_if_closed=False)
        return self._acting

    def inputs(self, rows: int, steps: int, resets: float) -> tuple[TensorDictBase, TensorDict]:
        """Inputs and whole batch ``[rows, steps]`` of the user's own observations."""
        if not hasattr(self, "_pool"):
            heads = take_heads(self.subject(), self._env(), POOL)
            self._pool = torch.cat([head.reshape(-1) for head in heads.inputs])
        shape = (rows, steps, resets)
        if shape not in self._batches:
            laid = lay_inputs(self._pool, rows, steps)
            starts = drawn_starts(rows, steps, resets, self.spec.seed)
            self._batches[shape] = laid, whole_batch(self.subject(), laid, starts)
        return self._batches[shape]

    def loss_of(self, policy: nn.Module, critic: nn.Module | None) -> Any:
        """The spec's loss over other networks, with the same random start each time."""
        torch.manual_seed(self.spec.seed)
        return self._builder.loss_for(policy, critic)

    def sample(self) -> TensorDictBase:
        """A training sample as the spec makes it. Raises CannotRun where a stage on the way
        fails."""
        if not self.pipeline.samples:
            for stage in self._builder.stages[len(_NETWORKS) :]:
                self._builder.run(stage)
            self._raise_failures()
        sample: TensorDictBase = self.pipeline.samples[0]
        return sample

    def oracle(
        self, cell: Cell, dtype: torch.dtype, make: Callable[[], judging.Numbers]
    ) -> judging.Numbers:
        """The step-by-step numbers of a shape, computed once."""
        name = (cell.target, cell.phase is Phase.TRAIN, cell.batch, cell.steps, cell.resets, dtype)
        if name not in self._oracles:
            self._oracles[name] = make()
        return self._oracles[name]


@dataclass
class _Preparation:
    """One cell's way to a call."""

    prepared: PreparedPipeline
    cell: Cell
    variant: Variant
    own: bool = False  # nothing is exchanged

    def made(self) -> PreparedCell:
        try:
            call = self._call()
        except CannotSwap as error:
            raise CannotRun(str(error)) from error
        return PreparedCell(
            call,
            self._accuracy,
            compiled=self.variant.compile != "eager",
            device=self.prepared.device,
            cold=self.prepared.spec.bench.cold_cache,
        )

    @property
    def dtype(self) -> torch.dtype:
        return torch_dtype(self.variant.dtype)

    def _call(self) -> Callable[[], object]:
        if self.cell.phase is Phase.TRAIN and self.prepared.spec.loss is not None and self._whole:
            return self._loss_call()
        run = self.module = self._ready(self._original())
        batch = self._readable(self._there())
        if self.cell.phase is Phase.FORWARD:
            return forward_call(run, batch)
        if self.cell.phase is Phase.ACT:
            return act_call(run, batch[:, 0].contiguous())
        return plain_train_call(run, batch, list(self.module.parameters()))

    def _ready(self, module: nn.Module) -> nn.Module:
        """A copy that runs as the cell asks."""
        if self.own:
            return policy_copy(module)
        return compiled(policy_as(module, self.variant), self.variant)

    @property
    def _whole(self) -> bool:
        return self.cell.target == "policy"

    def _original(self) -> nn.Module:
        """The policy, or its first recurrent module."""
        if self._whole:
            return self.prepared.policy
        modules = recurrent_modules(self.prepared.policy)
        if not modules:
            raise CannotRun("the policy has no LSTMModule or GRUModule to be measured alone")
        return next(iter(modules.values()))

    def _loss_call(self) -> Callable[[], object]:
        sample, critic = self.prepared.sample(), self.prepared.pipeline.pristine_critic
        self.module = self._ready(self.prepared.policy)
        mine = None if critic is None else self._ready(critic)
        loss = self.prepared.loss_of(self.module, mine)
        if isinstance(loss, nn.Module):
            loss = loss.to(self.dtype)
        flags = self.prepared.subject().flag_values(self._starts())
        resized = resized_sample(sample, self.cell.batch, self.cell.steps, flags)
        trainable = [p for m in (loss, self.module, mine) for p in _parameters(m)]
        return loss_call(loss, cast(resized, self.dtype), list(dict.fromkeys(trainable)))

    def _starts(self) -> torch.Tensor:
        cell = self.cell
        return drawn_starts(cell.batch, cell.steps, cell.resets, self.prepared.spec.seed)

    def _batch(self) -> TensorDictBase:
        """On the CPU, in the cell's dtype."""
        cell = self.cell
        if not self._whole:
            return cast(self._module_batch(), self.dtype)
        _, batch = self.prepared.inputs(cell.batch, cell.steps, cell.resets)
        return cast(batch, self.dtype)

    def _there(self) -> TensorDictBase:
        """The same where the module lies."""
        return placed(self._batch(), self.prepared.device)

    def _module_batch(self) -> TensorDictBase:
        """What the bare module reads, for which nothing is played: random features beside start
        flags and fresh states."""
        starts, module = self._starts(), self._original()
        batch = whole_batch(self.prepared.subject(), TensorDict(batch_size=starts.shape), starts)
        generator = torch.Generator().manual_seed(self.prepared.spec.seed)
        features = torch.randn(*starts.shape, rnn_facts_of(module).input_size, generator=generator)
        return batch.set(declared(module, "in_keys")[0], features)

    def _readable(self, batch: TensorDictBase) -> TensorDictBase:
        """Without what the module will write: a compiled call sees the same keys every time."""
        written: set[Key] = set(declared(self.module, "out_keys"))
        kept = batch.exclude(*(written - set(declared(self.module, "in_keys"))))
        return kept

    # --- accuracy --------------------------------------------------------------------------------

    def _accuracy(self) -> Accuracy | None:
        """This variant's outputs (and, for train, gradients) of the policy at this shape against
        float64."""
        if not self._whole:
            return self._judged(self._original_subject())
        return self._judged(self.prepared.subject())

    def _original_subject(self) -> Subject:
        """The bare module as a subject: its own carry, the fresh states of the policy."""
        whole, module = self.prepared.subject(), self._original()
        reads = set(declared(module, "in_keys"))
        carry = tuple(key for key in whole.carry if key in reads)
        fresh = {key: whole.fresh[key] for key in carry}
        return Subject(Stage.POLICY, module, carry, whole.flags, fresh, 0, ())

    def _judged(self, subject: Subject) -> Accuracy | None:
        grad = self.cell.phase is Phase.TRAIN
        batch = self._batch()
        inputs, starts = subject.inputs_of(batch), self._starts()
        make = partial(judging.stepwise, subject, inputs, starts, grad=grad)
        exact = self.prepared.oracle(self.cell, torch.float64, lambda: make(torch.float64))
        reference = self.prepared.oracle(self.cell, self.dtype, lambda: make(self.dtype))
        if self.cell.phase is Phase.ACT:
            found = judging.one_step(self.module, self._there()[:, 0], self.dtype)
        else:
            there, names = self._there(), exact.outputs
            found = judging.at_once(self.module, there, self.dtype, grad=grad, names=names)
        return judging.judged_accuracy(found, reference, exact, self.variant)


def _parameters(module: Any) -> list[nn.Parameter]:
    return list(module.parameters()) if isinstance(module, nn.Module) else []
