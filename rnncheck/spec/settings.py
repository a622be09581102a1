"""The settings of each command, as typed data."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from rnncheck.spec.fields import LARGEST_SHAPE, WEEK, Bool, Day, Int, Number, Strict


class AcceptSpec(Strict):
    """A known finding that no longer fails a run, or a guarantee that cannot be shown: which, why,
    and until when."""

    code: str = Field(
        default="", pattern=r"^([A-Z]{2,6}[0-9]{3})?$", description="the check's code, e.g. LS701"
    )
    guarantee: str = Field(
        default="", description="or the guarantee that cannot be shown, e.g. targets"
    )
    where: str = Field(
        default="",
        description=(
            "the finding's key, component or file it must name; empty: every finding of the code"
        ),
    )
    reason: str = Field(min_length=1, description="why it is accepted; printed with it")
    until: Day = Field(description="the last day (UTC) on which it is accepted, e.g. 2027-06-30")


class VerifySpec(Strict):
    """Settings of ``rnncheck verify``."""

    select: tuple[str, ...] = Field(default=(), description="prefixes of check codes to run")
    ignore: tuple[str, ...] = Field(default=(), description="prefixes of check codes to leave out")
    # Chosen: 32 hold several segments in a row; 4 are two of two steps, the fewest with an inside.
    # The upper limit refuses slips: the unroll in float64 calls the policy once for each step.
    steps: Int = Field(
        default=32, ge=4, le=4096, description="time steps of the batches that the checks build"
    )
    # Chosen: far above what a stage of the fixtures takes, and still an answer within a CI job.
    timeout: Number = Field(
        default=120.0, gt=0, le=WEEK, description="seconds that one stage of the pipeline may take"
    )
    # Chosen: one part in a hundred, far above float32's rounding; what an agent stands is its own.
    drift: Number = Field(
        default=0.01,
        gt=0,
        description="error against float64, relative to the output, that a trajectory may build up",
    )
    strict: Bool = Field(default=False, description="warnings fail too")
    backends: tuple[str, ...] = Field(
        default=(),
        description=(
            "variants of LSTMModule and GRUModule to prove equal, `all` or e.g. pad, "
            "scan-recompute, triton; without it pad and the module's own"
        ),
    )
    accept: tuple[AcceptSpec, ...] = Field(
        default=(), description="known findings that fail nothing until a date"
    )


class ShapeSpec(Strict):
    """One shape of a sweep; ``resets`` overrides the sweep's own list."""

    # The limits of 2**20 refuse slips of the keyboard: 2**40 steps fit no memory.
    batch: Int = Field(ge=1, le=2**20, description="rows")
    steps: Int = Field(default=64, ge=1, le=2**20, description="time steps of a row")
    resets: Number | None = Field(
        default=None, ge=0, le=1, description="probability that a step starts a trajectory"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.batch * self.steps > LARGEST_SHAPE:
            told = f"{self.batch} x {self.steps} steps are more than {LARGEST_SHAPE}"
            raise ValueError(f"batch x steps must be at most {LARGEST_SHAPE}: {told}")
        return self


class OverrideSpec(Strict):
    """A change of the recurrent modules that the spec names by ``use``."""

    hidden_size: Int | None = Field(
        default=None, ge=1, le=2**16, description="instead of the spec's"
    )
    num_layers: Int | None = Field(
        default=None, ge=1, le=2**10, description="instead of the spec's"
    )
    kind: Literal["LSTM", "GRU"] | None = Field(
        default=None, description="LSTMModule or GRUModule, whatever the spec names"
    )


Compiling = Literal[False, True, "eager", "default", "reduce-overhead", "fullgraph"]
CellFilter = dict[str, Any]  # field of a cell -> the value, or the list of values, that it may have


class BenchSpec(Strict):
    """Settings of ``rnncheck bench``: the cells are the product of the lists."""

    backend: tuple[Literal["pad", "scan", "triton", "auto"], ...] = Field(
        default=("pad", "scan"), description="recurrent_backend of LSTMModule and GRUModule"
    )
    recompute: tuple[Literal["none", "full"], ...] = Field(
        default=("none",), description="recurrent_recompute: what the backward pass computes again"
    )
    compute_dtype: tuple[Literal["float32", "bfloat16"], ...] = Field(
        default=("float32",), description="recurrent_compute_dtype, of Triton's kernels"
    )
    matmul_precision: tuple[Literal["auto", "ieee", "tf32", "tf32x3", "fast", "high-prec"], ...] = (
        Field(
            default=("auto",), description="recurrent_matmul_precision, of Triton's kernels on CUDA"
        )
    )
    dtype: tuple[Literal["float64", "float32", "bfloat16", "float16"], ...] = Field(
        default=("float32",), description="of parameters and inputs"
    )
    python_based: tuple[Bool, ...] = Field(
        default=(False,), description="TorchRL's cells in Python instead of torch's own kernels"
    )
    compile: tuple[Compiling, ...] = Field(
        default=(False,), description="policy.compile(), and its mode"
    )
    # Chosen: a small recurrent minibatch, without resets and with episodes of 33 steps (1 / 0.03).
    shapes: tuple[ShapeSpec, ...] = Field(
        default=(ShapeSpec(batch=32, steps=64),), description="rows and steps of a call"
    )
    resets: tuple[Annotated[Number, Field(ge=0, le=1)], ...] = Field(
        default=(0.0, 0.03), description="probabilities that a step starts a trajectory"
    )
    overrides: tuple[OverrideSpec, ...] = Field(
        default=(OverrideSpec(),), description="changes of the recurrent modules, one at a time"
    )
    phases: tuple[Literal["forward", "train", "act"], ...] = Field(
        default=("forward", "train", "act"),
        description="a recurrent pass; the same with gradients; one sequential step",
    )
    target: Literal["policy", "module"] = Field(
        default="policy", description="the user's own policy, or its bare recurrent module"
    )
    include: tuple[CellFilter, ...] = Field(
        default=(), description="where there are any, only cells that match one of these are run"
    )
    exclude: tuple[CellFilter, ...] = Field(
        default=(), description="cells that match one are left out"
    )
    reference: str = Field(default="pad", description="speed-ups are against this variant")
    # Chosen: below the 3 % of `max_slowdown`; docs/measurements.md has what machines reach.
    interval: Number = Field(
        default=0.02, gt=0, lt=1, description="half the 95 % interval of a median, relative to it"
    )
    goal: Literal["choice", "times"] = Field(
        default="choice",
        description=(
            "choice: a shape is done when it is clear which variant is fastest; times: when each"
            " interval is as narrow as asked"
        ),
    )
    # Chosen: a default sweep is to end in about five minutes.
    budget: Number = Field(
        default=240.0,
        gt=0,
        le=WEEK,
        description="seconds of the whole sweep: starting, compiling, judging and measuring",
    )
    # Chosen: several times what compiling one cell takes, so that only what hangs is cut off.
    timeout: Number = Field(
        default=120.0,
        gt=0,
        le=WEEK,
        description="seconds that a cell may take to start or to run once",
    )
    memory_limit: Int | None = Field(
        default=None, ge=1, description="MiB that a cell's worker process may take"
    )
    threads: Int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="of torch; without it torch's own number, and one where two sides are compared",
    )
    cold_cache: Bool = Field(default=False, description="CUDA: empty the cache before a sample")


class GateCellSpec(Strict):
    """A cell that a gate measures; what is not said comes from ``bench``."""

    phase: Literal["forward", "train", "act"] = Field(
        default="train", description="what a call does, as in bench.phases"
    )
    variant: str = Field(
        default="own", description="own: the policy as it is; or a variant, e.g. scan-compiled"
    )
    batch: Int | None = Field(default=None, ge=1, le=2**20, description="the first shape's")
    steps: Int | None = Field(default=None, ge=1, le=2**20, description="the first shape's")
    resets: Number | None = Field(default=None, ge=0, le=1, description="the last of bench.resets")


class TimeLimit(Strict):
    """The most that a call of the phase may take, in milliseconds; on this machine alone."""

    max: Number = Field(gt=0, description="milliseconds")
    variant: str = Field(
        default="own", description="own: the policy as it is; or a variant, e.g. scan-compiled"
    )
    batch: Int | None = Field(default=None, ge=1, le=2**20, description="the first shape's")
    steps: Int | None = Field(default=None, ge=1, le=2**20, description="the first shape's")
    resets: Number | None = Field(default=None, ge=0, le=1, description="the last of bench.resets")


class Limit(GateCellSpec):
    """The most that a number of a cell may be."""

    max: Number = Field(gt=0, description="the most that it may be")


class SpeedupLimit(GateCellSpec):
    """How many times faster a cell must be than another variant in the same rounds."""

    over: str = Field(default="pad", description="the other variant")
    min: Number = Field(gt=0, description="times faster, at least")


class MemoryLimits(Strict):
    """The least that a policy must remember; each is judged by the interval of what is measured."""

    half_life_min: Number | None = Field(default=None, gt=0, description="steps")
    reach_min: Number | None = Field(default=None, gt=0, description="steps")
    return_gain_min: Number | None = Field(
        default=None, description="by how much the return exceeds that with the state reset"
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"a memory budget names one of {', '.join(type(self).model_fields)}")
        return self


class BudgetSpec(Strict):
    """One budget: exactly one of these."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    train_ms: TimeLimit | None = Field(
        default=None, description="time of a pass with gradients, on one machine"
    )
    forward_ms: TimeLimit | None = Field(
        default=None, description="time of a recurrent pass, on one machine"
    )
    act_ms: TimeLimit | None = Field(
        default=None, description="time of a sequential step, on one machine"
    )
    speedup: SpeedupLimit | None = Field(
        default=None, description="over another variant in the same rounds; holds on any machine"
    )
    overhead: Limit | None = Field(
        default=None, description="times the bare recurrent module's time in the same phase"
    )
    memory_mib: Limit | None = Field(default=None, description="peak above what was held before")
    error: Limit | None = Field(default=None, description="against the float64 oracle, relative")
    memory: MemoryLimits | None = Field(default=None, description="what `rnncheck memory` measures")

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = self.model_fields_set
        if len(given) != 1 or getattr(self, next(iter(given))) is None:
            names = ", ".join(type(self).model_fields)
            found = ", ".join(sorted(given)) or "none of them"
            raise ValueError(f"a budget is exactly one of {names}; found {found}")
        return self


class GateSpec(Strict):
    """Settings of ``rnncheck gate``."""

    cells: tuple[GateCellSpec, ...] = Field(
        default=(GateCellSpec(),),
        description=(
            "measured and compared with the baseline or the other side, beside those of the budgets"
        ),
    )
    budgets: tuple[BudgetSpec, ...] = Field(
        default=(), description="what cells may take; a broken one is exit 5"
    )
    # Chosen: docs/measurements.md says how often a slowdown of that size is told.
    max_slowdown: Number = Field(
        default=0.03, ge=0, lt=1, description="how much slower than the other side is allowed"
    )
    # Chosen: a CI step of about a minute; longer ones tell smaller slowdowns.
    budget: Number = Field(
        default=60.0, gt=0, le=WEEK, description="seconds of measuring, over all cells of the gate"
    )
    patience: Number = Field(
        default=240.0,
        gt=0,
        le=WEEK,
        description="seconds that a comparison with another side may take",
    )


class MemorySpec(Strict):
    """Settings of ``rnncheck memory``."""

    # Chosen: with two, one can lend the other its state; sixteen of different lengths show a curve.
    recorded: Int = Field(
        default=16, ge=2, le=4096, description="episodes in which influence and states are measured"
    )
    # Chosen: the doublings 8, 16, ..., 128, after each of which it is looked whether all is clear.
    episodes: Int = Field(
        default=128, ge=2, le=65_536, description="the most episodes for the return of a treatment"
    )
    steps: Int = Field(default=200, ge=2, le=65_536, description="the most steps of an episode")
    lags: Int = Field(
        default=64, ge=1, le=4096, description="how many steps back influence is measured"
    )
    # Chosen: one part in twenty.
    share: Number = Field(
        default=0.05,
        gt=0,
        lt=1,
        description="of a start from zero's error, below which burn-in must bring it",
    )
