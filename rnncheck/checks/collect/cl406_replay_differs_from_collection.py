"""Recurrent mode on the collected data gives other outputs than were acted on.

Checks
    Each collected batch is given to the module in recurrent mode as it is: its own start flags,
    stored states and layout. The outputs are held against the recorded ones, with float64 as the
    judge of rounding. A state that is random while the policy explores must be the same under two
    seeds there: what was drawn is stored, and recurrent mode reads it. Where a latent is drawn anew
    whose distribution is trained (RSSM, VRNN), it is a warning.

Why it matters
    This is the step that training takes. If it does not reproduce what was acted on, ratios are not
    1, advantages are those of another policy.

Says nothing when
    recurrent mode raises, or no recorded output is a function of the observations. Batches of a
    random policy are left out.

Fix
    See which other check failed: memory while acting (CL401), flags (CL405), the modes themselves
    (EQ201, BD301).

Example
    with set_recurrent_mode(True):
        out = policy(batch.select(*policy.in_keys))   # out["logits"] == batch["logits"]
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.comparison import Mismatch, mismatches
from rnncheck.checks.evidence.constructed_batches import constructed, runs_in_double
from rnncheck.checks.evidence.evidence import QUICK_STEPS, Evidence, recorded_error
from rnncheck.checks.evidence.random_outputs import comparable_outputs, random_outputs
from rnncheck.checks.evidence.recurrent_pass import as_rows
from rnncheck.checks.evidence.unrun import unrun
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.numerics.perturb import perturbed
from rnncheck.pipeline.instruments.learned_draws import LearnedDraws
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.recording.recording import Rows
from rnncheck.pipeline.subject.passes import IN_DOUBLE, RunSettings, run_recurrent
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where

_PLAIN = RunSettings()
_LEAST = 2  # steps with an inside
MOST_BATCHES = 4  # without --thorough, unless they hold fewer than QUICK_STEPS


def run(evidence: Evidence) -> Judgement:
    """Every batch of the policy's own steps."""
    subject, compared = evidence.policy, 0
    worst: tuple[int, Mismatch] | None = None
    if all(rows.random for rows in evidence.recording.batches):
        raise CouldNotLook("a random policy took every recorded step")
    for number, rows in _looked_at(evidence):
        drawn = drawn_again(evidence, subject, rows)
        if drawn:
            latent = _draws_latents(evidence, subject, rows)
            found, weight = _drawn(number, *drawn, latent=latent), latent and Severity.WARNING
            return Judgement((found,), int(rows.valid.sum()), severity=weight or None)
        keys = recorded_outputs(evidence, subject, rows)
        unlike = in_one_pass(evidence, subject, rows, keys)
        compared += len(keys) * int(rows.valid.sum())
        if unlike and (worst is None or unlike.difference.relative > worst[1].difference.relative):
            worst = (number, unlike)
    if not compared:
        raise CouldNotLook("no recorded output is a function of the observations alone")
    findings = (_observed(*worst),) if worst else ()
    return Judgement(findings, compared, counted(compared, "recorded output", "are reproduced"))


def _looked_at(evidence: Evidence) -> Iterator[tuple[int, Rows]]:
    """Batches of the policy's own steps, with their numbers: the first few, more of them where they
    are short."""
    count = steps = 0
    for number, rows in enumerate(evidence.recording.batches):
        if rows.random:
            continue
        if not evidence.thorough and count >= MOST_BATCHES and steps >= QUICK_STEPS:
            return
        count, steps = count + 1, steps + int(rows.valid.sum())
        yield number, rows


def recorded_outputs(evidence: Evidence, subject: Subject, rows: Rows) -> list[Key]:
    """Recorded root outputs that are not random under exploration."""
    made = constructed(evidence, subject)
    keys = comparable_outputs(evidence, subject, made.truth)
    noisy = random_outputs(evidence, subject, explore=True)
    recorded = [key for key in keys if key in tensor_keys(rows.data)]
    plain = [key for key in recorded if key not in noisy]
    if plain or not drawn_states(evidence, subject):
        return plain
    same = _explored_twice(subject, rows, recorded)
    return [key for key, (one, two) in same.items() if not bool(bits_differ(one, two).any())]


def drawn_states(evidence: Evidence, subject: Subject) -> list[Key]:
    """New states that are random while the policy explores, and are not without (EQ206)."""
    explored = random_outputs(evidence, subject, explore=True)
    noisy = explored - random_outputs(evidence, subject)
    return [next_key(key) for key in subject.carry if next_key(key) in noisy]


def drawn_again(evidence: Evidence, subject: Subject, rows: Rows) -> tuple[Key, float] | None:
    """A new state that recurrent mode draws anew on the recorded steps, and by how much two draws
    differ."""
    keys = drawn_states(evidence, subject)
    for key, (one, two) in (_explored_twice(subject, rows, keys) if keys else {}).items():
        if bool(bits_differ(one, two).any()) and not _read_throughout(subject, rows, key[1:]):
            return key, float(gap(one, two).max())
    return None


def _draws_latents(evidence: Evidence, subject: Subject, rows: Rows) -> bool:
    """Whether recurrent mode draws from distributions that are trained, and not the action alone:
    latents, which RSSM and VRNN agents draw anew in training on purpose."""
    with LearnedDraws() as draws:
        settings = RunSettings(explore=True, grad=True)
        out = run_recurrent(subject, as_recorded(subject, rows), settings=settings)
    actions = [out.get(key) for key in evidence.env.actions if key in tensor_keys(out)]
    time = len(rows.shape) - 1
    return any(not any(_is_of(one, action, time) for action in actions) for one in draws.drawn)


def _is_of(drawn: Tensor, action: Tensor, time: int) -> bool:
    """Whether what was drawn is the action, of all steps or of one of them."""
    whole = [action, *action.unbind(time)]
    flat = on_cpu(drawn).flatten().double()
    return any(torch.equal(flat, on_cpu(one).flatten().double()) for one in whole)


def _read_throughout(subject: Subject, rows: Rows, key: Key) -> bool:
    """Whether recurrent mode reads the recorded state inside trajectories too, such as the previous
    action: then it has what was acted on, whatever it draws."""
    batch = as_recorded(subject, rows)
    old = batch.get(key, None)
    if old is None or rows.data.shape[1] < _LEAST:
        return False
    moved = batch.clone()
    inside = torch.ones(batch.batch_size, dtype=torch.bool)
    inside[..., 0] = False
    for flag in subject.flags:
        if batch.get(flag, None) is not None:
            inside &= ~batch.get(flag).reshape(batch.batch_size)
    moved.set(key, perturbed(old, inside, torch.Generator().manual_seed(7)))
    outs = [run_recurrent(subject, td) for td in (batch, moved)]
    return any(
        bool(bits_differ(outs[0].get(k), outs[1].get(k)).any()) for k in tensor_keys(outs[0])
    )


def _explored_twice(
    subject: Subject, rows: Rows, keys: list[Key]
) -> dict[Key, tuple[Tensor, Tensor]]:
    """What recurrent mode gives on a collected batch under two seeds, while it explores."""
    batch = as_recorded(subject, rows)
    try:
        one, two = (
            run_recurrent(subject, batch, settings=RunSettings(explore=True, seed=seed))
            for seed in (1, 2)
        )
    except Exception as error:
        raise unrun(subject, error, "the collected data") from error
    return {k: (one.get(k), two.get(k)) for k in keys if k in tensor_keys(one)}


def in_one_pass(
    evidence: Evidence, subject: Subject, rows: Rows, keys: list[Key]
) -> Mismatch | None:
    """The worst recorded output that recurrent mode does not reproduce."""
    batch = as_recorded(subject, rows)
    try:
        out = as_rows(_replayed(subject, batch), rows.data.shape)
        exact = None
        if runs_in_double(evidence, subject, subject.inputs_of(rows.data[:1])):
            exact = as_rows(_replayed(subject, batch, IN_DOUBLE), rows.data.shape)
    except Exception as error:
        raise unrun(subject, error, "the collected data") from error
    acted = rows.data.select(*keys)
    found = mismatches(acted, out, exact, keys, rows.valid, coarse=recorded_error(evidence))
    return found[0] if found else None


def _replayed(
    subject: Subject, batch: TensorDictBase, settings: RunSettings = _PLAIN
) -> TensorDictBase:
    """The batch in recurrent mode, in the slices that the script trains on."""
    parts = [batch] if subject.slices is None else batch.split(subject.slices, batch.ndim - 1)
    return torch.cat([run_recurrent(subject, one, settings=settings) for one in parts], -1)


def as_recorded(subject: Subject, rows: Rows) -> TensorDictBase:
    """What the module reads of a collected batch, in the collector's layout."""
    inputs = subject.inputs_of(rows.data)
    td = TensorDict({key: inputs.get(key) for key in tensor_keys(inputs)}, rows.data.shape)
    answers = [key for key in tensor_keys(rows.data) if key[0] == "next"]
    written = {next_key(key) for key in subject.carry}
    for key in (*subject.flags, *subject.carry, *(k for k in answers if k not in written)):
        value = rows.data.get(key, None)
        if value is not None:
            td.set(key, value)
    return td.reshape(rows.shape)


def _drawn(number: int, key: Key, size: float, *, latent: bool) -> Observation:
    stored = (
        "store what was drawn with the step and read it in recurrent mode, or keep random numbers"
        " out of the carried state"
    )
    return Observation(
        message=(
            f"{dotted(key)} is drawn at random, and recurrent mode draws it anew on the collected"
            " data: no replay has the state that was acted on"
        ),
        key=dotted(key),
        quantity=f"max abs difference of {dotted(key)} between two replays, under two seeds",
        measured=size,
        on=f"batch {number} as collected",
        bound_formula="the same to the bit",
        cause="noise or a latent is drawn on the way into the state, and is not stored",
        fix=(
            "nothing, where training draws its latents anew on purpose (RSSM, VRNN); where ratios"
            f" or values are to be those of acting, {stored}"
            if latent
            else stored
        ),
        source=Stage.POLICY,
    )


def _observed(number: int, found: Mismatch) -> Observation:
    d = found.difference
    return Observation(
        message=(
            f"recurrent mode on the collected data gives another {dotted(found.key)} than was"
            " acted on"
        ),
        key=dotted(found.key),
        quantity=f"max abs difference of {dotted(found.key)}, recurrent against recorded",
        measured=d.worst,
        on=f"batch {number} as collected",
        bound=found.bound,
        bound_formula=found.formula,
        where=Where((number, d.row), d.step, d.feature, first_step=d.first_step),
        cause=(
            "acting and the recurrent pass disagree: see the other findings for which of them is"
            " wrong"
        ),
        fix=(
            "make the data reproducible: state carried while acting, every start marked, the same"
            " cell in both modes"
        ),
        details={"elements beyond the bound": f"{d.differing} of {d.elements}"},
    )


RULE = Rule(
    code="CL406",
    name="replay-differs-from-collection",
    holds="a recurrent pass gives what was acted on",
    severity=Severity.ERROR,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
    replays=True,
)
