"""Runs as the pipeline could leave them, for every report."""

from __future__ import annotations

import math
from dataclasses import replace

from rnncheck.results.causes import judge_causes
from rnncheck.results.guarantees import judge_guarantees
from rnncheck.results.model import (
    Basis,
    Cause,
    CheckResult,
    Environment,
    Finding,
    Follower,
    Outcome,
    RuleInfo,
    Run,
    Severity,
    Source,
    SpecRef,
    Stage,
    StageResult,
    Tool,
    Where,
)
from rnncheck.results.verdict import judge

SPEC = "configs/rnncheck.yaml"
HOSTILE = "[red]x[/red] <b>|`%0A::error::,\x1b[31m\x00\u202e\n\t👩\u200d💻 日本語 \ufe0f"

SPEC_LINE = Source(
    SPEC,
    line=7,
    column=3,
    name="env.transforms",
    frame=(
        (5, "env:"),
        (6, "  use: GymEnv"),
        (7, "  transforms: [InitTracker]"),
        (8, "policy:"),
        (9, "  modules:"),
    ),
)
PYTHON_LINE = Source(
    "pipelines/own_cell.py",
    line=41,
    kind="python",
    name="make_policy",
    frame=(
        (39, ""),
        (40, ""),
        (41, "def make_policy(env, hidden_size=64, layers=2):"),
        (42, "\treturn TensorDictSequential(OwnCell(hidden_size), Head())"),
        (43, ""),
    ),
)

NO_PRIMER = Finding(
    "WR103",
    Stage.ENV,
    'a reset of the env has no "recurrent_state_h": collection runs without memory',
    key="recurrent_state_h",
    cause="LSTMModule reads a state that nothing in the env writes",
    fix="append lstm.make_tensordict_primer() to the env's transforms, or leave `primers: auto`",
    source=SPEC_LINE,
)
CROSSES = Finding(
    "BD301",
    Stage.POLICY,
    "a change in segment 0 changes segment 1",
    key="next.recurrent_state_h",
    quantity="max abs difference of features",
    measured=0.018342,
    on="3 segments of 2 rows, 64 steps, float32",
    bound=0.0,
    bound_formula="bitwise equal",
    passing_bound=0.018342,
    where=Where(batch=(0, 1), step=21, feature=(5,), segment=1, first_step=17),
    cause="the cell reads its state without looking at is_init",
    fix="zero the state where is_init is true, before the cell runs",
    source=PYTHON_LINE,
)
DISAGREES = Finding(
    "EQ201",
    Stage.POLICY,
    "recurrent mode is further from the float64 oracle than the sequential unroll is",
    key="features",
    quantity="max abs error",
    measured=1.00001e-06,
    on="4 rows, 32 steps, float32",
    bound=1e-06,
    bound_formula="4 x error of the unroll + 2e-07",
    passing_bound=1.00001e-06,
    where=Where(step=31, feature=(0,)),
    details={"error of the unroll": "2e-07"},
    source=PYTHON_LINE,
)


def check(
    code: str,
    name: str,
    outcome: Outcome,
    *findings: Finding,
    stage: Stage = Stage.ENV,
    reason: str = "",
    severity: Severity = Severity.ERROR,
) -> CheckResult:
    return CheckResult(code, name, severity, stage, outcome, reason, 0.012, findings)


PASSED = (
    check("WR101", "no-recurrent-state", Outcome.PASSED, reason="LSTMModule carries h and c"),
    check("WR102", "missing-init-tracker", Outcome.PASSED, reason="is_init in 1 reset"),
    check(
        "EQ202",
        "end-state-wrong",
        Outcome.PASSED,
        stage=Stage.POLICY,
        reason="2 keys, 4 rows, 32 steps: 1.2e-07 <= 4.8e-07",
    ),
)
ABSENT = (
    check(
        "CL407", "worker-differs", Outcome.NOT_APPLICABLE, stage=Stage.COLLECT, reason="one process"
    ),
    check(
        "CL404",
        "carry-broken-between-batches",
        Outcome.NOT_APPLICABLE,
        stage=Stage.COLLECT,
        reason="one batch",
    ),
    check(
        "CL408",
        "random-steps-poison-state",
        Outcome.NOT_APPLICABLE,
        stage=Stage.COLLECT,
        reason="one batch",
    ),
)
UNSEEN = (  # a warning that could not look costs no guarantee
    check(
        "GR805",
        "short-horizon",
        Outcome.NOT_LOOKED,
        stage=Stage.LOSS,
        reason="one segment only",
        severity=Severity.WARNING,
    ),
)
UNSHOWN_CHECK = check(
    "BD307", "partial-reset", Outcome.NOT_LOOKED, stage=Stage.POLICY, reason="one segment only"
)
STAGES = (
    StageResult(Stage.ENV, Outcome.PASSED, "GymEnv CartPole-v1, 1 worker", 0.31),
    StageResult(Stage.POLICY, Outcome.PASSED, "4 modules, 12,345 parameters", 0.05),
    StageResult(Stage.COLLECT, Outcome.PASSED, "2 batches of 256 frames", 0.8),
    StageResult(Stage.REPLAY, Outcome.NOT_APPLICABLE),
    StageResult(Stage.LOSS, Outcome.NOT_APPLICABLE),
)


def make(
    *checks: CheckResult,
    interrupted: bool = False,
    strict: bool = False,
    stages: tuple[StageResult, ...] = STAGES,
    notices: tuple[str, ...] = (),
    name: str = "cartpole-drqn",
    path: str = SPEC,
    rules: tuple[RuleInfo, ...] = (),
) -> Run:
    judged = judge_guarantees(checks, stages, strict=strict)
    guarantees = () if interrupted or not checks else judged
    verdict, code = judge(checks, strict=strict, interrupted=interrupted, guarantees=guarantees)
    return Run(
        tool=Tool("rnncheck", "0.1.0"),
        command="rnncheck verify configs/rnncheck.yaml",
        spec=SpecRef(path, name, "sha256:0f1e2d"),
        environment=Environment(
            "3.11.9", "Linux-x86_64", {"torch": "2.13.0", "torchrl": "0.14.1"}, "cpu", 2, "A CPU"
        ),
        seed=0,
        started="2026-01-02T03:04:05+00:00",
        seconds=4.21,
        exit_code=code,
        verdict=verdict,
        stages=stages,
        checks=checks,
        guarantees=guarantees,
        causes=judge_causes(checks, strict=strict),
        notices=notices,
        strict=strict,
        rules=rules,
    )


# Of one check alone: a result that an older version stored has none, and reports manage with it.
PRIMER_RULE = RuleInfo(
    "WR103",
    "missing-state-primer",
    Severity.ERROR,
    Stage.ENV,
    "wiring",
    "A carry key is absent from the env's reset: collection runs without memory.",
    "A collector hands on what the env's specs know.\n\nWithout a primer the state is dropped.",
    "Append the primers of the policy's modules to the env.",
)
HEALTHY = make(*PASSED, *ABSENT, *UNSEEN)
UNSHOWN = make(*PASSED, UNSHOWN_CHECK, *ABSENT)
BROKEN = make(
    *PASSED,
    check("WR103", "missing-state-primer", Outcome.FAILED, NO_PRIMER),
    check("BD301", "state-crosses-reset", Outcome.FAILED, CROSSES, stage=Stage.POLICY),
    check(
        "EQ201",
        "modes-disagree",
        Outcome.FAILED,
        DISAGREES,
        Finding("EQ201", Stage.POLICY, "the shapes differ: [4, 32, 64] and [4, 64]"),
        stage=Stage.POLICY,
    ),
    check(
        "WR105",
        "random-initial-state",
        Outcome.FAILED,
        Finding("WR105", Stage.ENV, "two resets give two states", source=SPEC_LINE),
        severity=Severity.WARNING,
    ),
    *ABSENT,
    *UNSEEN,
    rules=(PRIMER_RULE,),
)
WARNED = make(
    *PASSED,
    check(
        "WR105",
        "random-initial-state",
        Outcome.FAILED,
        Finding("WR105", Stage.ENV, "two resets give two states", source=SPEC_LINE),
        severity=Severity.WARNING,
    ),
)
STRICT = make(*WARNED.checks, strict=True)
INTERRUPTED = make(
    *BROKEN.checks[:4],
    interrupted=True,
    notices=("interrupted during EQ201 modes-disagree; not run: BD301, CL401",),
)
CRASHED = make(
    *PASSED,
    check(
        "EQ203",
        "oracle-disagrees",
        Outcome.ERROR,
        stage=Stage.POLICY,
        reason=(
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied\nin"
            " rnncheck/checks/oracle.py:12"
        ),
    ),
    stages=(
        *STAGES[:2],
        StageResult(
            Stage.COLLECT,
            Outcome.ERROR,
            "ValueError: env is closed (own_env.py:12)",
            0.1,
            Source("own_env.py", 12, 0, "python", "collect", ((12, "    raise ValueError"),)),
        ),
    ),
)
NOTHING = make(
    check(
        "WR101",
        "no-recurrent-state",
        Outcome.FAILED,
        Finding("WR101", Stage.POLICY, "no module of the policy carries state", source=SPEC_LINE),
    ),
    *ABSENT,
)
EMPTY = make()
HOLDS = RuleInfo(
    "WR102",
    "missing-init-tracker",
    Severity.ERROR,
    Stage.ENV,
    "wiring",
    "The policy reads `is_init`, the env never writes it.",
    holds="the env writes every start flag that is read",
)
# One fault that three checks see: of one it was tried that it follows, of one it is assumed.
SPREAD = replace(
    make(
        *PASSED,
        check(
            "WR103",
            "missing-state-primer",
            Outcome.FAILED,
            replace(NO_PRIMER, fix="append the primers"),
        ),
        check(
            "CL401",
            "acted-without-memory",
            Outcome.FAILED,
            Finding("CL401", Stage.COLLECT, "acted without memory", fix="steps shuffled"),
            stage=Stage.COLLECT,
        ),
        check(
            "LS702",
            "ratio-not-one",
            Outcome.FAILED,
            Finding("LS702", Stage.LOSS, "the ratio is 1.2", cause="steps shuffled"),
            stage=Stage.LOSS,
        ),
    ),
    causes=(
        Cause(
            "WR103",
            (Follower("CL401", Basis.TESTED), Follower("LS702", Basis.ASSUMED)),
            "with the primers appended",
        ),
    ),
)
HOSTILE_RUN = make(
    check(
        "EQ201",
        HOSTILE,
        Outcome.FAILED,
        Finding(
            "EQ201",
            Stage.POLICY,
            HOSTILE,
            key=HOSTILE,
            quantity=HOSTILE,
            measured=math.nan,
            bound=math.inf,
            passing_bound=math.nan,
            cause=HOSTILE,
            fix=HOSTILE * 3,
            source=Source(
                HOSTILE, 3, 1, "python", HOSTILE, ((2, "\tx = '[bold]'"), (3, HOSTILE * 4))
            ),
            details={HOSTILE: HOSTILE},
        ),
    ),
    check("CL401", "crashed", Outcome.ERROR, stage=Stage.COLLECT, reason=HOSTILE),
    check("CL402", "absent", Outcome.NOT_APPLICABLE, stage=Stage.COLLECT, reason=HOSTILE),
    check("XX999", "unheard-of", Outcome.NOT_LOOKED, reason=HOSTILE),
    notices=(HOSTILE,),
    name=HOSTILE,
    path=HOSTILE,
)

RUNS = {
    "healthy": HEALTHY,
    "unshown": UNSHOWN,
    "broken": BROKEN,
    "warned": WARNED,
    "strict": STRICT,
    "interrupted": INTERRUPTED,
    "crashed": CRASHED,
    "nothing": NOTHING,
    "empty": EMPTY,
    "spread": SPREAD,
    "hostile": HOSTILE_RUN,
}
