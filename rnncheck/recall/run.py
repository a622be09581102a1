"""The whole study as a stream of events: build env and policy, play, ask one question after the
other; each answer is told, and kept, as soon as it is there."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TypeVar

from torch import nn

from rnncheck import __version__
from rnncheck.errors import OutputError, UserError, first_line
from rnncheck.pipeline.assembly.builder import Builder
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.subject.env_facts import Env, EnvFacts, close_env, look_at
from rnncheck.pipeline.subject.introspect import make_subject
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.printable import counted
from rnncheck.recall.horizon import influence, influence_matrix
from rnncheck.recall.journal import Answers
from rnncheck.recall.matters import returns_under, treatments_for
from rnncheck.recall.measured import CannotTell, Measured, measured_critic, pool_of
from rnncheck.recall.observed.whole import observed_by
from rnncheck.recall.outputs import agents_of
from rnncheck.recall.recommend import advice_of, findings_of, trained_on
from rnncheck.recall.replay_loss import replay_curves
from rnncheck.recall.session import PlayedEpisode, play_episode
from rnncheck.recall.state import state_facts
from rnncheck.results.environment import current_environment
from rnncheck.results.events import (
    Event,
    MemoryMeasured,
    MemoryProgress,
    Notice,
    RunStarted,
    StageFinished,
    StageStarted,
)
from rnncheck.results.memory import (
    CRITIC,
    POLICY,
    InfluenceCurve,
    MemoryResult,
    Observed,
    Question,
    ReplayCurve,
    ReturnsUnder,
    StateFacts,
)
from rnncheck.results.model import Outcome, SpecRef, Stage, StageResult, Tool
from rnncheck.spec.model import Spec

_Told = TypeVar("_Told", InfluenceCurve, StateFacts, ReplayCurve)
_Asked = Generator[Event, None, tuple[str, ...]]  # ends with why of what could not be told
_STAGES = (Stage.ENV, Stage.POLICY, Stage.CRITIC)
# Seconds that a step of env and policy takes: chosen, CartPole's with a small LSTM on one core.
_STEP = 0.002


@dataclass
class MemoryStudy:
    """What is asked of one spec. ``older`` is the same spec with the weights that stored the
    states."""

    spec: Spec
    older: Spec | None = None
    answers: Answers | None = None
    strict: bool = False
    result: MemoryResult = field(default_factory=MemoryResult)

    def events(self) -> Generator[Event, None, None]:
        """Everything that happens. Raises UserError where the spec cannot be built. Closing it
        closes the env."""
        yield self._started()
        if self.answers is not None:
            self.result = replace(self.answers.found, untold=())
        with ExitStack() as scope:
            builder = scope.enter_context(Builder(self.spec))
            pipeline = yield from _building(builder)
            if pipeline is None:
                return
            try:
                env = pipeline.make_acting_env()
                scope.callback(close_env, env)
                older = None if self.older is None else _built_policy(self.older, scope)
                players = _Players.of(pipeline, env, older)
                episodes = yield from self._recorded(players)
            except UserError:
                raise
            except CannotTell as error:
                yield _policy_ended(Outcome.NOT_LOOKED, str(error))
                return
            except Exception as error:  # the user's env or policy may raise anything
                yield _policy_ended(Outcome.ERROR, first_line(error))
                return
            yield from self._asked(players, episodes)

    def _started(self) -> RunStarted:
        spec = self.spec
        return RunStarted(
            tool=Tool("rnncheck", __version__),
            command="memory",
            spec=SpecRef(spec.path, spec.name, spec.hash),
            environment=current_environment(spec.device),
            seed=spec.seed,
            started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            checks=(),
            strict=self.strict,
        )

    def _recorded(self, players: _Players) -> Generator[Event, None, list[PlayedEpisode]]:
        """Episodes with the policy's own state."""
        if not players.subject.carry:
            raise CannotTell("the policy carries no state (`rnncheck verify`: WR101)")
        wanted, found = self.spec.memory.recorded, list[PlayedEpisode]()
        while len(found) < wanted:
            yield MemoryProgress(f"playing: {len(found)} of {wanted} episodes")
            found += play_episode(
                players.subject, players.env, self.spec.seed + len(found), self.spec.memory.steps
            )
        lengths = tuple(one.length for one in found)
        self.result = replace(self.result, lengths=lengths, observed=self._observed(players, found))
        return found

    def _observed(self, players: _Players, episodes: Sequence[PlayedEpisode]) -> Observed:
        try:
            return observed_by(players.subject, episodes, self.spec.memory.lags)
        except Exception as error:  # the user's observations may be anything
            return Observed(None, first_line(error))

    def _asked(self, players: _Players, episodes: Sequence[PlayedEpisode]) -> Iterator[Event]:
        left = [one for one in Question if one not in self.result.answered]
        for question in left:
            yield MemoryProgress(f"asking: {_WORDS[question]}")
            ask: Callable[..., _Asked] = getattr(self, f"_ask_{question}")
            try:
                untold = yield from ask(players, episodes)
            except UserError:
                raise
            except Exception as error:  # the user's env or policy may raise anything
                untold = (_why(error),)
            for why in untold:
                self._untold(question, why)
            if not untold:  # what was told in part is open
                answered = (*self.result.answered, question)
                self.result = replace(self.result, answered=answered)
            yield from self._told()

    def _told(self) -> Iterator[Event]:
        """What is known by now, with what follows from it; on the disk, where that takes it."""
        trained = trained_on(self.spec)
        self.result = replace(
            self.result,
            findings=findings_of(self.result, trained),
            advice=advice_of(self.result, trained),
        )
        try:
            if self.answers is not None:
                self.answers.keep(self.result)
        except OutputError as error:
            self.answers = None
            yield Notice(f"{error.place}: {error.message}; `--resume` would ask again")
        yield MemoryMeasured(self.result)

    def _untold(self, question: Question, why: str) -> None:
        self.result = replace(self.result, untold=(*self.result.untold, f"{question}: {why}"))

    # --- the questions: each says why of what it could not tell -----------------------------------

    def _ask_horizon(self, players: _Players, episodes: Sequence[PlayedEpisode]) -> _Asked:
        lags, seed = self.spec.memory.lags, self.spec.seed
        curves, untold = players.each(episodes, lambda one: influence(one, lags, seed))
        self.result = replace(self.result, curves=curves)
        matrix = influence_matrix(players.policy(episodes), seed)
        self.result = replace(self.result, matrix=matrix)
        yield from ()
        return untold

    def _ask_state(self, players: _Players, episodes: Sequence[PlayedEpisode]) -> _Asked:
        trained = trained_on(self.spec).slice_len
        states, untold = players.each(episodes, lambda one: state_facts(one, trained))
        self.result = replace(self.result, states=states)
        yield from ()
        return untold

    def _ask_replay(self, players: _Players, episodes: Sequence[PlayedEpisode]) -> _Asked:
        asked, seed = self.spec.memory, self.spec.seed

        def ask(one: Measured) -> Iterator[ReplayCurve]:
            older = players.older if one.whose == POLICY else None
            return replay_curves(one, older, asked.lags, asked.share, seed)

        replay, untold = players.each(episodes, ask)
        self.result = replace(self.result, replay=replay)
        yield from ()
        return untold

    def _ask_returns(self, players: _Players, episodes: Sequence[PlayedEpisode]) -> _Asked:
        asked = self.spec.memory
        blocks = returns_under(
            players.subject,
            players.env,
            episodes,
            seed=self.spec.seed,
            most=asked.episodes,
            steps=asked.steps,
            before={one.treatment: one.returns for one in self.result.returns},
        )
        for found in blocks:
            self.result = replace(self.result, returns=found)
            yield MemoryProgress(f"asking: {_WORDS[Question.RETURNS]} {_so_far(found)}")
            yield from self._told()
        return ()


def _building(builder: Builder) -> Generator[Event, None, Pipeline | None]:
    """Env, policy and critic; None where one of them failed."""
    for stage in _STAGES:
        yield StageStarted(stage)
        told = builder.run(stage)
        yield StageFinished(told)
        if told.outcome in (Outcome.ERROR, Outcome.NOT_LOOKED):
            return None
    yield from map(Notice, dict.fromkeys(builder.notices))
    return builder.pipeline


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, CannotTell) else first_line(error)


def _policy_ended(outcome: Outcome, why: str) -> StageFinished:
    return StageFinished(StageResult(Stage.POLICY, outcome, why))


_WORDS = {
    Question.HORIZON: "how far back?",
    Question.STATE: "what is the state?",
    Question.REPLAY: "what does replay lose?",
    Question.RETURNS: "does it matter?",
}


def _so_far(found: Sequence[ReturnsUnder]) -> str:
    return f"({counted(len(found[0].returns), 'episode')} of each)"


@dataclass
class _Players:
    """Who plays what, and who listens."""

    subject: Subject
    env: Env
    facts: EnvFacts
    older: Subject | None = None
    critic: nn.Module | None = None
    beside: Measured | None = None  # the critic, once it was run over the episodes

    def policy(self, episodes: Sequence[PlayedEpisode]) -> Measured:
        """The policy over its episodes. Raises CannotTell."""
        return Measured(self.subject, pool_of(episodes), agents_of(self.facts), self.facts.actions)

    def critic_beside(self, episodes: Sequence[PlayedEpisode]) -> Measured | None:
        """The critic over the same, run once; None without one, or where it has no state."""
        if self.critic is not None:
            self.beside = measured_critic(self.critic, self.policy(episodes), self.facts)
            self.critic = None
        return self.beside

    def each(
        self, episodes: Sequence[PlayedEpisode], ask: Callable[[Measured], Iterator[_Told]]
    ) -> tuple[tuple[_Told, ...], tuple[str, ...]]:
        """What ``ask`` tells of the policy, and of the critic where it has a state; and why, where
        one of them raises on the way."""
        found, untold = list[_Told](), list[str]()
        try:
            found.extend(ask(self.policy(episodes)))
        except Exception as error:  # the user's policy may raise anything
            untold.append(_why(error))
        try:
            critic = self.critic_beside(episodes)
            found.extend(replace(one, whose=CRITIC) for one in (ask(critic) if critic else ()))
        except Exception as error:  # the user's critic too
            untold.append(f"the critic: {_why(error)}")
        return tuple(found), tuple(untold)

    @classmethod
    def of(cls, pipeline: Pipeline, env: Env, older: Pipeline | None) -> _Players:
        """Raises CannotStep."""
        facts = look_at(env)
        make: Callable[[Pipeline], Subject] = lambda one: make_subject(  # noqa: E731
            Stage.POLICY, one.pristine_policy, facts
        )
        before = None if older is None else make(older)
        return cls(make(pipeline), env, facts, before, pipeline.pristine_critic)


def _built_policy(spec: Spec, scope: ExitStack) -> Pipeline:
    """The same pipeline with other weights."""
    builder = scope.enter_context(Builder(spec))
    for stage in _STAGES:
        told = builder.run(stage)
        if told.outcome in (Outcome.ERROR, Outcome.NOT_LOOKED):
            raise CannotTell(f"with the older weights the {stage} stage failed: {told.detail}")
    if builder.pipeline is None:
        raise CannotTell("with the older weights there is no pipeline")
    return builder.pipeline


@dataclass(frozen=True)
class StudyPlan:
    """What a study will do at most: steps of env and policy for each question."""

    lines: tuple[str, ...]
    seconds: float


def plan_of(spec: Spec, left: Sequence[Question]) -> StudyPlan:
    """The cost before anything is run: an episode may take all ``steps``."""
    asked = spec.memory
    treatments = len(treatments_for(asked.steps, others=True))
    replays = 4 * (asked.lags + 1)
    played = asked.recorded * asked.steps
    costs = {
        Question.HORIZON: replays,
        Question.STATE: 0,
        Question.REPLAY: replays + 2 * asked.steps,
        Question.RETURNS: treatments * asked.episodes * asked.steps,
    }
    lines = [
        f"record {counted(asked.recorded, 'episode')} of at most {counted(asked.steps, 'step')}:"
        f" {counted(played, 'step')}"
    ]
    for question in left:
        calls = counted(costs[question], "call of the policy")
        told = f"at most {calls}" if costs[question] else "no further calls"
        lines.append(f"{question}: {_WORDS[question]} {told}")
    total = played + sum(costs[one] for one in left)
    return StudyPlan(tuple(lines), total * _STEP)
