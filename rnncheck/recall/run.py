"""The whole study as a stream of events: build env and policy, play, ask one question after the
other; each answer is told, and kept, as soon as it is there."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from rnncheck import __version__
from rnncheck.errors import OutputError, UserError, first_line
from rnncheck.pipeline.assembly.builder import Builder
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.subject.env_facts import Env, close_env, look_at
from rnncheck.pipeline.subject.introspect import make_subject
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.printable import counted
from rnncheck.recall.horizon import (
    CannotTell,
    influence,
    influence_matrix,
    pool_of,
)
from rnncheck.recall.journal import Answers
from rnncheck.recall.matters import returns_under, treatments_for
from rnncheck.recall.observed import observed_by
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
from rnncheck.results.memory import MemoryResult, Observed, Question, ReturnsUnder
from rnncheck.results.model import Outcome, SpecRef, Stage, StageResult, Tool
from rnncheck.spec.model import Spec

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
            try:
                ask = getattr(self, f"_ask_{question}")
                yield from ask(players, episodes)
            except UserError:
                raise
            except Exception as error:  # the user's env or policy may raise anything
                told = str(error) if isinstance(error, CannotTell) else first_line(error)
                untold = (*self.result.untold, f"{question}: {told}")
                self.result = replace(self.result, untold=untold)
            else:
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

    # --- the questions -------------------------------------------------------------------------

    def _ask_horizon(self, players: _Players, episodes: Sequence[PlayedEpisode]) -> Iterator[Event]:
        asked, pool = self.spec.memory, pool_of(episodes)
        curves = influence(players.subject, pool, players.agents, asked.lags, self.spec.seed)
        matrix = influence_matrix(players.subject, pool, players.agents, self.spec.seed)
        self.result = replace(self.result, curves=tuple(curves), matrix=matrix)
        yield from ()

    def _ask_state(self, players: _Players, episodes: Sequence[PlayedEpisode]) -> Iterator[Event]:
        trained = trained_on(self.spec).slice_len
        states = tuple(state_facts(pool_of(episodes), trained))
        self.result = replace(self.result, states=states)
        yield from ()

    def _ask_replay(self, players: _Players, episodes: Sequence[PlayedEpisode]) -> Iterator[Event]:
        asked, pool = self.spec.memory, pool_of(episodes)
        curves = replay_curves(
            players.subject,
            players.older,
            pool,
            players.agents,
            asked.lags,
            asked.share,
            self.spec.seed,
        )
        self.result = replace(self.result, replay=tuple(curves))
        yield from ()

    def _ask_returns(self, players: _Players, episodes: Sequence[PlayedEpisode]) -> Iterator[Event]:
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


@dataclass(frozen=True)
class _Players:
    """Who plays what."""

    subject: Subject
    env: Env
    agents: dict[str, int]
    older: Subject | None = None

    @classmethod
    def of(cls, pipeline: Pipeline, env: Env, older: Pipeline | None) -> _Players:
        """Raises CannotStep."""
        facts = look_at(env)
        make: Callable[[Pipeline], Subject] = lambda one: make_subject(  # noqa: E731
            Stage.POLICY, one.pristine_policy, facts
        )
        agents = agents_of(facts.first, facts.rank)
        return cls(make(pipeline), env, agents, None if older is None else make(older))


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
        told = calls if costs[question] else "no further steps"
        lines.append(f"{question}: {_WORDS[question]} at most {told}")
    total = played + sum(costs[one] for one in left)
    return StudyPlan(tuple(lines), total * _STEP)
