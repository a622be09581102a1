"""What the checks look at: measured once, shared by all, and each missing part with its reason."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.memo import Memo, T
from rnncheck.checks.evidence.running_statistics import counted_by
from rnncheck.checks.rule import CouldNotLook, Deferred, NotApplicable, Unanswered
from rnncheck.numerics.kernels import reason_of
from rnncheck.numerics.tolerance import TF32_SLACK
from rnncheck.pipeline.guard.user_frames import describe_trouble
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.placing import device_of, place_of, tf32_allowed
from rnncheck.pipeline.recording.recording import Recording
from rnncheck.pipeline.subject.env_facts import Env, EnvFacts, close_env, look_at
from rnncheck.pipeline.subject.heads import Heads, take_heads
from rnncheck.pipeline.subject.introspect import CannotStep, carry_keys, make_subject
from rnncheck.pipeline.subject.passes import unroll_subject
from rnncheck.pipeline.subject.statistics import owners, statistics_held
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.results.model import Stage

QUICK_STEPS = 512  # recorded steps that are replayed one by one without --thorough


# What does not change with the loss and the critic, under the names that it is measured by.
_OF_ALL = frozenset(
    {
        *("probe env", "env", "policy", "recording", "heads", "steps", "truth", "joints"),
        "statistics that reach",
        *("replayed", "acted mismatch", "unreset", "backends"),
    }
)


class Evidence(Memo):
    """Lazily measured facts about one pipeline; every method raises Unanswered with the reason when
    it cannot tell.

    Where a script has several losses, ``others`` are about the same with another one, and share
    what does not change with it.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        finds: Callable[[str], bool],
        *,
        thorough: bool = False,
        first: Evidence | None = None,
    ) -> None:
        """``finds`` says whether the check with a code finds something here: one of rnncheck's, or
        one that this run asks. ``first`` is about the first loss, where this is about another."""
        super().__init__()
        self.finds = finds
        self.pipeline = pipeline
        self.thorough = thorough
        self.rounded = 0.0  # the largest change that a check found to be rounding alone
        # what the user should read although a check passed
        self.remarks: list[str] = [] if first is None else first.remarks
        self._first = first
        self._scope: ExitStack = ExitStack() if first is None else first._scope
        # running statistics that policy and critic count as they run: held still from then on
        self.counted: set[str] = set() if first is None else first.counted
        self._all: list[Evidence] = [self] if first is None else first._all
        for other in pipeline.others:
            self._all.append(Evidence(other, finds, thorough=thorough, first=self))

    @property
    def others(self) -> list[Evidence]:
        """The evidence of the script's other losses."""
        return [one for one in self._all if one is not self]

    def once(self, name: str, make: Callable[[], T], *about: object) -> T:
        """As a memo does; what is the same for every loss is asked of the first."""
        shared = name in _OF_ALL or any(one is Stage.POLICY for one in about)
        if self._first is not None and shared:
            return self._first.once(name, make, *about)
        return super().once(name, make, *about)

    def written(self, *stages: Stage) -> bool:
        """Whether the spec has any of these stages."""
        spec = self.pipeline.spec
        batch = Stage.REPLAY in stages and spec.batch is not None
        return batch or any(getattr(spec, str(stage)) is not None for stage in stages)

    def absent(self, stage: Stage) -> Unanswered:
        """Why there is nothing of this stage.

        It is not in the spec, it cannot run on this machine, or a stage before it failed.
        """
        failures = self.pipeline.failures
        if not self.written(stage):
            what = "spec" if self.pipeline.spec._made is None else "script"
            return NotApplicable(f"the {what} has no {stage} stage")
        if stage in self.pipeline.lacking:
            return CouldNotLook(self.pipeline.lacking[stage])
        failed = next((one for one in failures if one is not stage), stage)
        return CouldNotLook(f"the {stage} did not run: the {failed} stage failed")

    @property
    def probe_env(self) -> Env:
        """One env of the acting kind, for resets and heads; closed by ``close``."""
        return self.once("probe env", self.pipeline.make_acting_env)

    def close(self) -> None:
        """Close the probe env, and let modules count again."""
        self._scope.close()
        env = self.forget("probe env")
        if env is not None:
            close_env(env)

    @property
    def env(self) -> EnvFacts:
        """Two resets of the env that acts, and what its transforms declare. Unanswered where it
        raises in none of the user's code: it was built, but not for the device that it is on."""
        return self.once("env", self._env)

    def _env(self) -> EnvFacts:
        try:
            return look_at(self.probe_env)
        except Unanswered:
            raise
        except Exception as error:
            if describe_trouble(error).place is not None:
                raise
            raise CouldNotLook(f"the env cannot be reset ({reason_of(error)})") from error

    @property
    def policy(self) -> Subject:
        """The policy as a subject. Unanswered when it cannot run a step."""
        return self.once("policy", self._policy)

    @property
    def policy_carry(self) -> tuple[Key, ...]:
        """The policy's carry keys: as declared, which needs no step of it, or as a step shows."""
        return carry_keys(self.pipeline.pristine_policy) or self.policy.carry

    def _policy(self) -> Subject:
        try:
            subject = make_subject(
                Stage.POLICY,
                self.pipeline.pristine_policy,
                self.env,
                recorded=self._first_states(),
            )
        except CannotStep as error:
            raise Deferred(
                f"the policy cannot run one step ({error})", "WR110", "WR102", "WR103", "WR104"
            ) from error
        return self._held_still(subject, self.env.first)

    def _held_still(self, subject: Subject, first: TensorDictBase) -> Subject:
        """What it counts as it runs stays what it is from here on."""
        names = counted_by(subject, first, self.env.rows)
        if names:
            self.counted |= names
            self._scope.enter_context(statistics_held(owners(subject.module, names)))
        return subject

    def _first_states(self) -> dict[Key, Tensor]:
        """The states that the first recorded steps started from, ``[*batch, ...]``, where there is
        one per env."""
        batch = next(iter(self.pipeline.batches), None)
        if batch is None or batch.batch_dims == 0 or batch.shape[:-1] != self.env.first.shape:
            return {}
        keys = [k for k in carry_keys(self.pipeline.pristine_policy) if k in tensor_keys(batch)]
        return {key: batch.get(key).select(batch.batch_dims - 1, 0) for key in keys}

    @property
    def critic(self) -> Subject | None:
        """The critic as a subject, when the spec has one."""
        return self.once("critic", self._critic)

    @property
    def stepped_critic(self) -> Subject | None:
        """The same; None as well where it cannot run one step, which EQ201, BD301 and PR901 tell
        of: it may be written for sequences alone, and the loss be judged with it."""
        try:
            return self.critic
        except CouldNotLook:
            return None

    def needs_critic(self) -> None:
        """Raises CouldNotLook where there is a critic, and it cannot run one step."""
        self.once("a critic that can step", lambda: self.critic)

    def _critic(self) -> Subject | None:
        module = self.pipeline.pristine_critic
        if module is None:
            return None
        try:
            outputs = self._policy_outputs()
            subject = make_subject(Stage.CRITIC, module, self.env, extra=outputs)
        except CannotStep as error:
            raise CouldNotLook(f"the critic cannot run one step ({error})") from error
        return self._held_still(subject, self.env.first.clone().update(outputs))

    def _policy_outputs(self) -> TensorDictBase:
        """What the policy writes to the root in one step, for a critic that reads it;
        ``[*batch]``."""
        subject, first = self.policy, self.env.first
        rows = self.env.rows
        inputs = subject.inputs_of(first).reshape(rows).unsqueeze(1)
        out = unroll_subject(subject, inputs, torch.ones(rows, 1, dtype=torch.bool))[:, 0]
        return out.exclude("next").reshape(first.batch_size)

    @property
    def subjects(self) -> list[Subject]:
        """Policy and critic, those that carry state."""
        found = [self.policy, self.stepped_critic]
        carrying = [subject for subject in found if subject is not None and subject.carry]
        if not carrying:
            raise Deferred("no module carries state", "WR101", "WR107", "EQ206")
        return carrying

    @property
    def recording(self) -> Recording:
        """The collected data with its trajectories."""
        return self.once("recording", self._recording)

    def _recording(self) -> Recording:
        failure = self.pipeline.failures.get(Stage.COLLECT)
        if failure is not None and not self.pipeline.batches:
            raise CouldNotLook(f"nothing was collected ({failure.message})")
        if not self.pipeline.batches:
            raise self.absent(Stage.COLLECT)
        recording = Recording(
            self.pipeline.batches,
            self.policy,
            self.env,
            self.pipeline.random_batches,
            self.pipeline.takes_turns,
            self.pipeline.anew,
        )
        if not recording.batches:
            raise CouldNotLook("the collector gave no tensordict with a time dimension")
        return recording

    def heads(self) -> Heads:
        """First steps of a few episodes, played by the policy."""
        return self.once("heads", self._heads)

    def _heads(self) -> Heads:
        steps = self.pipeline.spec.verify.steps * (4 if self.thorough else 1)
        try:
            return take_heads(self.policy, self.probe_env, steps, self.policy.longest)
        except Exception as error:  # the user's env or policy may raise anything
            raise CouldNotLook(f"the policy cannot play the env ({reason_of(error)})") from error


def recorded_error(evidence: Evidence) -> float:
    """The relative error of what was collected, beside float32's own: tf32's where torch allows it
    on the CUDA device that acted."""
    where = [device_of(evidence.pipeline.pristine_policy)]  # what it gave may be stored elsewhere
    where += map(place_of, evidence.pipeline.batches)
    on_cuda = any(place is not None and place.type == "cuda" for place in where)
    allowed = tf32_allowed() if on_cuda else None
    return TF32_SLACK if allowed is not None and any(allowed) else 0.0
