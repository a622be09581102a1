"""What the checks look at: measured once, shared by all, and each missing part with its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.rule import Skip
from rnncheck.errors import StageError
from rnncheck.pipeline.guard.timeout import Expired
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.recording.recording import Recording
from rnncheck.pipeline.subject.env_facts import Env, EnvFacts, close_env, look_at
from rnncheck.pipeline.subject.heads import Constructed, Heads, Piece, lay_out, take_heads
from rnncheck.pipeline.subject.introspect import CannotStep, carry_keys, make_subject
from rnncheck.pipeline.subject.modes import ModeQueries
from rnncheck.pipeline.subject.subject import Subject, all_reads, next_key, run_recurrent, unroll
from rnncheck.results.model import Stage

T = TypeVar("T")

QUICK_STEPS = 512  # recorded steps that are replayed one by one without --thorough


class Evidence:
    """Lazily measured facts about one pipeline; every method raises Skip with the reason when it cannot tell."""

    def __init__(self, pipeline: Pipeline, *, thorough: bool = False) -> None:
        self.pipeline = pipeline
        self.thorough = thorough
        self.rounded = 0.0  # the largest change that a check found to be rounding alone
        self.remarks: list[str] = []  # what the user should read although a check passed
        self._memo: dict[object, tuple[object, Exception | None]] = {}

    def once(self, name: object, make: Callable[[], T]) -> T:
        """The value of ``make``, measured once; a failure is remembered and raised again."""
        if name not in self._memo:
            try:
                self._memo[name] = (make(), None)
            except (Skip, StageError, CannotStep) as error:
                self._memo[name] = (None, error)
            except Expired:  # once is enough: the next check does not wait as long again
                self._memo[name] = (
                    None,
                    Skip(f"{self._named(name)} took too long (verify.timeout)"),
                )
                raise
        value, failure = self._memo[name]
        if failure is not None:
            raise failure
        return value  # type: ignore[return-value]

    @staticmethod
    def _named(name: object) -> str:
        return str(name if isinstance(name, str) else " ".join(map(str, name)))  # type: ignore[call-overload]

    def absent(self, stage: Stage) -> str:
        """Why there is nothing of this stage: the spec leaves it out, or a stage before it failed."""
        spec, failures = self.pipeline.spec, self.pipeline.failures
        written = getattr(spec, str(stage)) or (stage is Stage.REPLAY and spec.batch)
        if not written:
            return f"the spec has no {stage}"
        failed = next((one for one in failures if one is not stage), stage)
        return f"the {stage} did not run: the {failed} stage failed"

    @property
    def probe_env(self) -> Env:
        """One env of the acting kind, for resets and heads; closed by ``close``."""
        return self.once("probe env", self.pipeline.make_acting_env)

    def close(self) -> None:
        """Close the probe env."""
        env, _ = self._memo.pop("probe env", (None, None))
        if env is not None:
            close_env(env)

    @property
    def env(self) -> EnvFacts:
        """Two resets of the env that acts, and what its transforms declare."""
        return self.once("env", lambda: look_at(self.probe_env))

    @property
    def policy(self) -> Subject:
        """The policy as a subject. Skip when it cannot run a step."""
        return self.once("policy", self._policy)

    def _policy(self) -> Subject:
        try:
            return make_subject(
                Stage.POLICY,
                self.pipeline.pristine_policy,
                self.env,
                recorded=self._first_states(),
            )
        except CannotStep as error:
            raise Skip(f"the policy cannot run one step ({error})") from error

    def _first_states(self) -> dict[Key, Tensor]:
        """The states that the first recorded steps started from, ``[*batch, ...]``, where there is one per env."""
        batch = next(iter(self.pipeline.batches), None)
        if batch is None or batch.batch_dims == 0 or batch.shape[:-1] != self.env.first.shape:
            return {}
        keys = [k for k in carry_keys(self.pipeline.pristine_policy) if k in tensor_keys(batch)]
        return {key: batch.get(key).select(batch.batch_dims - 1, 0) for key in keys}

    @property
    def critic(self) -> Subject | None:
        """The critic as a subject, when the spec has one."""
        return self.once("critic", self._critic)

    def _critic(self) -> Subject | None:
        module = self.pipeline.pristine_critic
        if module is None:
            return None
        try:
            return make_subject(Stage.CRITIC, module, self.env, extra=self._policy_outputs())
        except CannotStep as error:
            raise Skip(f"the critic cannot run one step ({error})") from error

    def _policy_outputs(self) -> TensorDictBase:
        """What the policy writes to the root in one step, for a critic that reads it; ``[*batch]``."""
        subject, first = self.policy, self.env.first
        rows = self.env.rows
        inputs = subject.inputs_of(first).reshape(rows).unsqueeze(1)
        out = unroll(subject, inputs, torch.ones(rows, 1, dtype=torch.bool))[:, 0]
        return out.exclude("next").reshape(first.batch_size)

    @property
    def subjects(self) -> list[Subject]:
        """Policy and critic, those that carry state."""
        found = [self.policy, self.critic]
        carrying = [subject for subject in found if subject is not None and subject.carry]
        if not carrying:
            raise Skip("no module carries state (WR101)")
        return carrying

    @property
    def recording(self) -> Recording:
        """The collected data with its trajectories."""
        return self.once("recording", self._recording)

    def _recording(self) -> Recording:
        failure = self.pipeline.failures.get(Stage.COLLECT)
        if failure is not None and not self.pipeline.batches:
            raise Skip(f"nothing was collected ({failure.message})")
        if not self.pipeline.batches:
            raise Skip("the spec has no collect stage")
        recording = Recording(
            self.pipeline.batches,
            self.policy,
            self.env,
            self.pipeline.random_batches,
            self.pipeline.takes_turns,
        )
        if not recording.batches:
            raise Skip("the collector gave no tensordict with a time dimension")
        return recording

    def heads(self) -> Heads:
        """First steps of a few episodes, played by the policy."""
        return self.once("heads", self._heads)

    def _heads(self) -> Heads:
        steps = self.pipeline.spec.verify.steps * (4 if self.thorough else 1)
        try:
            return take_heads(self.policy, self.probe_env, steps)
        except Exception as error:  # the user's env or policy may raise anything
            raise Skip(f"the policy cannot play the env ({first_line(error)})") from error

    def pieces(self, subject: Subject) -> list[list[Piece]]:
        """Per env row, every head replayed alone."""
        return self.once(("pieces", subject.stage), lambda: self._pieces(subject))

    def _pieces(self, subject: Subject) -> list[list[Piece]]:
        heads = self.heads()
        if subject.stage is Stage.CRITIC:
            policy = self.pieces(self.policy)
            inputs = [[_critic_inputs(subject, piece) for piece in row] for row in policy]
        else:
            inputs = [[head[row : row + 1] for head in heads.inputs] for row in range(heads.rows)]
        double = self.runs_in_double(subject, inputs[0][0])
        return [
            [_replay_alone(subject, head, row, double) for head in heads_of_row]
            for row, heads_of_row in enumerate(inputs)
        ]

    def runs_in_double(self, subject: Subject, inputs: TensorDictBase) -> bool:
        """Whether a float64 copy of the module runs a few steps."""
        return self.once(("double", subject.stage), lambda: _runs_in_double(subject, inputs))

    def constructed(self, subject: Subject, rows: int | None = None) -> Constructed:
        """Heads end to end as the collector would lay them out; ``rows`` defaults to the env's."""
        pieces = self.pieces(subject)
        count = rows or (1 if subject.rank == 0 else max(2, len(pieces)))
        return self.once(("constructed", subject.stage, count), lambda: lay_out(pieces, count))

    def shaped(self, subject: Subject, batch: TensorDictBase) -> TensorDictBase:
        """A ``[rows, steps]`` batch in the rank that the collector gives: flat for a single env."""
        if subject.rank == 0 and batch.shape[0] == 1:
            return batch[0]
        return batch.reshape(*subject.lead(batch.shape[0]), batch.shape[-1])

    def recurrent(self, subject: Subject, made: Constructed) -> TensorDictBase:
        """What recurrent mode gives on a constructed batch, as ``[rows, steps]``. Skip when it raises."""
        return self.once(("recurrent", id(made)), lambda: self._recurrent(subject, made))

    def _recurrent(self, subject: Subject, made: Constructed) -> TensorDictBase:
        return self.run(subject, made.batch(subject))

    def run(
        self, subject: Subject, batch: TensorDictBase, dtype: torch.dtype | None = None
    ) -> TensorDictBase:
        """Recurrent mode on any ``[rows, steps]`` batch, as ``[rows, steps]``."""
        try:
            out = run_recurrent(subject, self.shaped(subject, batch), dtype=dtype)
        except Exception as error:
            raise Skip(
                f"recurrent mode raises on the {subject.stage} ({first_line(error)})"
            ) from error
        return as_rows(out, batch.shape)

    def steps_only(self, subject: Subject) -> bool:
        """The module never asks for the recurrent mode and treats time as one more batch dimension."""
        return self.once(("steps only", subject.stage), lambda: self._steps_only(subject))

    def _steps_only(self, subject: Subject) -> bool:
        made = self.constructed(subject)
        with ModeQueries() as queries:
            self.run(subject, made.batch(subject))
        if queries.count:
            return False
        flat, whole = made.batch(subject).reshape(-1), self.recurrent(subject, made)
        alone = [unroll_one(subject, flat[i : i + 1]) for i in range(min(8, flat.shape[0]))]
        first = whole.reshape(-1)[: len(alone)]
        together: TensorDictBase = torch.cat(alone)
        keys = set(tensor_keys(first)) & set(tensor_keys(together)) - self.noisy(subject)
        return all(_close(first.get(key), together.get(key)) for key in keys)

    def needs_recurrence(self, subject: Subject) -> None:
        """Skip when the module has no recurrent mode that could be judged."""
        if self.steps_only(subject):
            raise Skip(
                f"the {subject.stage} has no recurrent mode: it treats every step of a batch alone, "
                "with the state stored beside it"
            )

    def reads(self, module: object) -> set[Key]:
        """Every key that a module or a part of it declares to read."""
        return all_reads(module) if isinstance(module, nn.Module) else set()

    def noisy(self, subject: Subject, *, explore: bool = False) -> frozenset[Key]:
        """Outputs that draw random numbers: they differ between two seeds."""
        return self.once(("noisy", subject.stage, explore), lambda: self._noisy(subject, explore))

    def _noisy(self, subject: Subject, explore: bool) -> frozenset[Key]:
        made = self.constructed(subject)
        if explore:
            one, two = (_explored(subject, made, salt) for salt in (1, 2))
        else:
            one, two = (_seeded(subject, made, salt) for salt in (1, 2))
        return frozenset(
            key for key in tensor_keys(one) if not torch.equal(one.get(key), two.get(key))
        )

    def outputs(self, subject: Subject, td: TensorDictBase) -> list[Key]:
        """The outputs that a comparison may use: not the carry, not random."""
        carry = {next_key(key) for key in subject.carry}
        given = set(tensor_keys(self.constructed(subject).inputs)) - set(subject.writes)
        skip = carry | given | set(subject.flags) | set(subject.carry) | self.noisy(subject)
        return [key for key in tensor_keys(td) if key not in skip]


def unroll_one(subject: Subject, step: TensorDictBase) -> TensorDict:
    """One recorded step ``[1]`` alone, with its stored state and flag, in sequential mode."""
    inputs = subject.inputs_of(step).unsqueeze(1)
    flags = [step.get(key).reshape(1, -1).any(-1) for key in subject.flags]
    starts = flags[0] if flags else torch.zeros(1, dtype=torch.bool)
    state = {key: step.get(key) for key in subject.carry}
    return unroll(subject, inputs, starts.unsqueeze(1), state=state, keep=subject.carry)[:, 0]


def as_rows(td: TensorDictBase, shape: torch.Size) -> TensorDict:
    """Outputs of any layout as ``[rows, steps]``."""
    found = {key: td.get(key) for key in tensor_keys(td)}
    return TensorDict(found, batch_size=td.batch_size).reshape(shape)


def first_line(error: BaseException) -> str:
    """An exception in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _close(left: Tensor, right: Tensor) -> bool:
    if not left.is_floating_point():
        return bool((left == right).double().mean() > 0.9)
    return torch.allclose(left, right, rtol=1e-4, atol=1e-5, equal_nan=True)


def _explored(subject: Subject, made: Constructed, salt: int) -> TensorDictBase:
    return unroll(subject, made.inputs, made.starts, explore=True, seed=salt)


def _seeded(subject: Subject, made: Constructed, salt: int) -> TensorDictBase:
    return unroll(subject, made.inputs, made.starts, seed=salt)


def _runs_in_double(subject: Subject, inputs: TensorDictBase) -> bool:
    some = inputs[:1, :3]  # several steps: the state that comes back must fit as well
    starts = torch.arange(some.shape[1]).unsqueeze(0) == 0
    try:
        out = unroll(subject, some, starts, dtype=torch.float64, fresh=_row(subject, 0))
    except Exception:  # a module may create float32 tensors of its own
        return False
    kinds = {out.get(key).dtype for key in tensor_keys(out)}
    return torch.float64 in kinds


def _row(subject: Subject, row: int) -> dict[Key, Tensor]:
    return {key: value[row : row + 1] for key, value in subject.fresh.items()}


def _replay_alone(subject: Subject, head: TensorDictBase, row: int, double: bool) -> Piece:
    starts = torch.zeros(1, head.shape[1], dtype=torch.bool)
    starts[:, 0] = True
    fresh = _row(subject, row)
    truth = unroll(subject, head, starts, fresh=fresh)
    oracle = unroll(subject, head, starts, fresh=fresh, dtype=torch.float64) if double else None
    stored = {
        key: torch.cat([fresh[key].unsqueeze(1), truth.get(next_key(key))[:, :-1]], 1)
        for key in fresh
        if next_key(key) in tensor_keys(truth)
    }
    return Piece(head, stored, truth, oracle)


def _critic_inputs(critic: Subject, piece: Piece) -> TensorDictBase:
    """What the critic may read at the steps of one of the policy's heads."""
    td = piece.inputs.clone()
    td.update(piece.truth.exclude("next"))
    return critic.inputs_of(td)
