"""Twenty faults, one at a time in a healthy PPO and a healthy R2D2, as a user makes them: an entry
of the spec or an argument of a factory. ``python -m tests.checks.engine.twenty`` prints the table.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.causes import causes_of
from rnncheck.results.collect import RunCollector
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Basis, Cause, Outcome, Run
from rnncheck.spec.load import load_spec

CAUSES = Path(__file__).parents[3] / "fixtures" / "causes"
_CLOCK = "{use: StepCounter, max_steps: 14}"
_PRIMER = (
    "{use: TensorDictPrimer, recurrent_state: {use: Unbounded, shape: [1, 16]}, expand_specs: true}"
)
_SLICES = "use: SliceSampler, slice_len: 8, strict_length: false"
_OWN_CRITIC = 'critic={factory: "ppo:make_critic", own: true, state: value_state}'


def _transforms(*entries: str) -> str:
    return f"env.transforms=[{', '.join(entries)}]"


def _sampler(entry: str) -> str:
    return f"replay.sampler={{{entry}}}"


@dataclass(frozen=True)
class Row:
    """A fault, the check that must be named first, what its fix must say, and what does that: each
    of ``fixes`` alone makes the run green."""

    name: str
    pipeline: str
    fault: tuple[str, ...]
    code: str
    says: str
    fixes: tuple[tuple[str, ...], ...]
    repaired: bool = True

    @property
    def id(self) -> str:
        """What names the row."""
        return f"{self.pipeline}-{self.name}"


PPO = (
    Row(
        "missing-tracker", "ppo", (_transforms(_CLOCK, _PRIMER),), "WR102",
        "append InitTracker() to the env's transforms",
        ((_transforms(_CLOCK, _PRIMER, "InitTracker"),),),
    ),
    Row(
        "missing-primer", "ppo", (_transforms("InitTracker", _CLOCK),), "WR103",
        "append the policy's primers",
        (
            (_transforms("InitTracker", _CLOCK, _PRIMER),),
            ("collect.auto_register_policy_transforms=true",),
        ),
    ),
    Row(
        "late-flag", "ppo", (_transforms('{factory: "ppo:LateTracker"}', _CLOCK, _PRIMER),),
        "WR109", "append InitTracker() to the env and leave its entry alone",
        ((_transforms("InitTracker", _CLOCK, _PRIMER),),),
    ),
    Row(
        "sequential-estimator", "ppo", (_OWN_CRITIC, "advantage.recurrent_mode=false"), "VL604",
        "under set_recurrent_mode(True)", (("advantage.recurrent_mode=true",),),
    ),
    Row(
        "shuffled-steps", "ppo", (_sampler("use: SamplerWithoutReplacement"),), "RP502",
        "draw slices (SliceSampler)", ((_sampler(_SLICES + ", traj_key: [collector, traj_ids]"),),),
    ),
    Row(
        "wrong-trajectory-key", "ppo", (_sampler(_SLICES + ", end_key: [next, truncated]"),),
        "RP506", 'end_key=("next", "done") or traj_key=("collector", "traj_ids")',
        (
            (_sampler(_SLICES + ", end_key: [next, done]"),),
            (_sampler(_SLICES + ", traj_key: [collector, traj_ids]"),),
        ),
        repaired=False,
    ),
    Row(
        "log-probabilities-without-memory", "ppo",
        ('batch={factory: "ppo:old_probabilities", remember: false}',), "LS702",
        "keep the log-probabilities that were collected, or compute them anew",
        (("batch.remember=true",),),
    ),
    Row(
        "estimates-over-starts", "ppo", ('advantage={factory: "ppo:make_advantage", flags: next}',),
        "VL601", 'batch["next", "is_init"] = batch["is_init"].clone()',
        (("advantage.flags=root",),), repaired=False,
    ),
    Row(
        "bootstraps-over-ends", "ppo",
        ('advantage={factory: "ppo:make_advantage", ends: truncated}',), "VL603",
        "(~terminated).float() * next_value", (("advantage.ends=terminated",),), repaired=False,
    ),
    Row(
        "shared-state-key", "ppo", ('critic={factory: "ppo:make_critic", own: true}',), "WR106",
        "give each recurrent module state keys of its own", (("critic.state=value_state",),),
    ),
    Row(
        "acts-in-recurrent-mode", "ppo",
        ('collect={factory: "ppo:make_rollouts", recurrent: true}',), "CL410",
        "collect outside of set_recurrent_mode(True)", (("collect.recurrent=false",),),
        repaired=False,
    ),
)  # fmt: skip
R2D2 = (
    Row(
        "missing-tracker", "r2d2", ("env.tracker=false",), "WR102",
        "append InitTracker() to the env's transforms", (("env.tracker=true",),),
    ),
    Row(
        "missing-primer", "r2d2", ("env.primer=false",), "WR103", "append the policy's primers",
        (("env.primer=true",), ("collect.auto_register_policy_transforms=true",)),
    ),
    Row(
        "forgotten-mode", "r2d2", ("loss.mode=false",), "LS703",
        "run the policy under set_recurrent_mode(True) inside the loss", (("loss.mode=true",),),
    ),
    Row(
        "shuffled-steps", "r2d2", ("replay.slices=false",), "RP502", "draw slices (SliceSampler)",
        (("replay.slices=true",),),
    ),
    Row(
        "unmarked-slices", "r2d2", ("replay.marks=false",), "RP501", "use TensorDictReplayBuffer",
        (("replay.marks=true",),),
    ),
    Row(
        "memoryless-target", "r2d2", ("loss.memory=false",), "VL604",
        "let the pass start from the states that were collected, ('next', state)",
        (("loss.memory=true",),),
    ),
    Row(
        "wrong-burn-in", "r2d2", ("batch.recurrent=false",), "RP508",
        "with set_recurrent_mode(True)", (("batch.recurrent=true",),), repaired=False,
    ),
    Row(
        "padding-counted", "r2d2", ("loss.masked=false",), "RP505",
        'weigh per-step losses with batch["collector", "mask"]', (("loss.masked=true",),),
        repaired=False,
    ),
    Row(
        "states-lost-in-replay", "r2d2", ("replay.states=false",), "RP503",
        "keep recurrent_state_h", (("replay.states=true",),),
    ),
    Row(
        "bootstraps-over-ends", "r2d2", ("loss.over=true",), "VL603",
        "(~terminated).float() * next_value", (("loss.over=false",),), repaired=False,
    ),
)  # fmt: skip
ROWS = (*PPO, *R2D2)
# Two faults that have nothing to do with each other, what is asked, and their causes in order.
PAIRS = (
    (
        "r2d2", ("loss.mode=false", "loss.over=true"), ("LS703", "GR801", "VL603"),
        ("VL603", "LS703"),
    ),
    ("ppo", (*PPO[6].fault, *PPO[8].fault), ("LS702", "VL603"), ("VL603", "LS702")),
    (
        "r2d2", ("loss.mode=false", "loss.masked=false"), ("LS703", "GR801", "RP505"),
        ("RP505", "LS703"),
    ),
)  # fmt: skip


def verified(pipeline: str, changes: tuple[str, ...], *codes: str, repair: bool = True) -> Run:
    """The run of ``rnncheck verify`` with these ``--set``."""
    spec, collector = load_spec(CAUSES / f"{pipeline}.yaml", list(changes)), RunCollector()
    for event in verify_events(spec, select_rules(spec, codes), repair=repair):
        collector(event)
    return collector.finish(interrupted=False, seconds=0.0)


def is_green(run: Run) -> bool:
    """Everything holds: no warning either."""
    wrong = (Outcome.FAILED, Outcome.ERROR, Outcome.NOT_LOOKED)
    return run.exit_code is ExitCode.VERIFIED and not any(c.outcome in wrong for c in run.checks)


def printed_fix(run: Run, cause: Cause) -> str:
    """What the cause's first finding says to do."""
    (check,) = [check for check in run.checks if check.code == cause.code]
    return check.findings[0].fix


def line_of(row: Row, run: Run, green: bool) -> str:
    """The row's line in the table of docs/concepts/causes.md."""
    first, *others = causes_of(run)
    by = {b: [f.code for f in first.followers if f.basis is b] for b in Basis}
    named = ", ".join([first.code, *(f"and {one.code}" for one in others)])
    told = (", ".join(by[b]) or "-" for b in (Basis.TESTED, Basis.ASSUMED))
    yes = ("yes" if one else "no" for one in (first.proved, green))
    return f"| {' | '.join([row.id, named, *told, *yes])} |"


def main() -> None:
    """Print a line for each fault whose id holds the first argument, or for all of them."""
    print("| fault | first finding | tested | assumed | fix proved | green after the fix |")
    print("|---|---|---|---|---|---|")
    for row in [row for row in ROWS if not sys.argv[1:] or sys.argv[1] in row.id]:
        run = verified(row.pipeline, row.fault)
        fixed = [verified(row.pipeline, row.fault + fix, repair=False) for fix in row.fixes]
        print(line_of(row, run, all(map(is_green, fixed))), flush=True)


if __name__ == "__main__":
    main()
