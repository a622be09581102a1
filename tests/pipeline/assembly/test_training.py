"""Replay, batch, advantage and loss: built from a spec, run once, numbered steps behind them."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import ReplayBuffer, TensorDictReplayBuffer
from torchrl.objectives import DQNLoss, SoftUpdate
from torchrl.objectives.value import GAE

from rnncheck.errors import ComponentError, StageError
from rnncheck.pipeline.instruments.call_loss import form_loss
from rnncheck.pipeline.keys import STEP_KEY
from rnncheck.pipeline.model import Pipeline
from rnncheck.results.model import Outcome, Stage

HERE = Path(__file__).parent
REPLAY = """
replay:
  storage: {use: LazyTensorStorage, max_size: 400}
  sampler: {use: SliceSampler, slice_len: 8, strict_length: false}
  batch_size: 32
"""
LOSS = "loss: {use: DQNLoss, delay_value: true}\n"
PPO = """
schema: 1
name: ppo
env: {use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}
policy:
  - {use: LSTMModule, in_key: observation, out_key: features, hidden_size: 6}
  - {use: MLP, in_keys: [features], out_keys: [logits], num_cells: [], out_features: auto}
  - {use: ProbabilisticActor, distribution_class: OneHotCategorical, return_log_prob: true}
critic:
  - use: GRUModule
    in_keys: [observation, vh]
    out_keys: [vf, [next, vh]]
    hidden_size: 6
  - {use: MLP, in_keys: [vf], out_keys: [state_value], num_cells: [], out_features: auto}
collect: {use: Collector, frames_per_batch: 60}
advantage: {use: GAE, gamma: 0.99, lmbda: 0.95, shifted: true}
loss: {use: ClipPPOLoss}
"""
Q_CRITIC = """
  - {use: GRUModule, in_keys: [observation, vh], out_keys: [vf, [next, vh]], hidden_size: 6}
  - use: MLP
    in_keys: [vf, action]
    out_keys: [state_action_value]
    num_cells: [8]
    out_features: 1
"""
CONTINUOUS = """
schema: 1
name: continuous
env: {use: GymEnv, env_name: Pendulum-v1, transforms: [InitTracker]}
policy:
  - {use: LSTMModule, in_key: observation, out_key: features, hidden_size: 6}
  - {use: MLP, in_keys: [features], out_keys: [p], num_cells: [], out_features: auto}
  - {use: NormalParamExtractor, in_keys: [p], out_keys: [loc, scale]}
  - {use: ProbabilisticActor, distribution_class: TanhNormal, return_log_prob: true}
critic:CRITIC
collect: {use: Collector, frames_per_batch: 60}
REPLAY
loss: {use: LOSS, deactivate_vmap: true}
""".replace("CRITIC", Q_CRITIC).replace("REPLAY", REPLAY)
VALUE_NETWORK = """value_network: [
  {use: GRUModule, in_keys: [observation, vh], out_keys: [vf, [next, vh]], hidden_size: 6},
  {use: MLP, in_keys: [vf], out_keys: [state_value], num_cells: [], out_features: 1}]"""


@pytest.fixture(autouse=True)
def user_module(bench, tmp_path: Path) -> None:
    shutil.copy(HERE / "training.py", tmp_path)


def numbers(td: TensorDictBase) -> torch.Tensor:
    return td.get(STEP_KEY).reshape(-1)


def assert_traced(pipeline: Pipeline) -> None:
    """Each sampled step's number leads to the collected step that it is."""
    collected = torch.cat([batch.reshape(-1)["observation"] for batch in pipeline.batches])
    for sample in pipeline.samples:
        assert torch.equal(
            sample["observation"].reshape(-1, *collected.shape[1:]),
            collected[numbers(sample) - 1],
        )


@pytest.fixture
def flat(dqn_text: str) -> str:
    return dqn_text + REPLAY + LOSS


# --- replay ----------------------------------------------------------------------------------


def test_flat_slices_reach_the_loss(bench, flat):
    pipeline = bench.build(flat)
    assert type(pipeline.replay) is TensorDictReplayBuffer
    assert len(pipeline.samples) == 3
    assert isinstance(pipeline.loss, DQNLoss)
    assert STEP_KEY not in list(pipeline.batches[0].keys(True))
    assert_traced(pipeline)


def test_samples_are_repeatable(bench, flat):
    first, again = (numbers(bench.build(flat).samples[0]) for _ in range(2))
    assert torch.equal(first, again)


def test_plain_buffer_gives_its_data_alone(bench, flat):
    pipeline = bench.build(flat, "replay:", "replay:\n  use: ReplayBuffer")
    assert type(pipeline.replay) is ReplayBuffer
    assert isinstance(pipeline.samples[0], TensorDictBase)
    assert_traced(pipeline)


@pytest.mark.parametrize(
    "swap",
    [
        ("LazyTensorStorage, max_size: 400", "ListStorage, max_size: 400"),
        ("batch_size: 32", "batch_size: 32\n  writer: TensorDictRoundRobinWriter"),
    ],
)
def test_single_steps_are_sampled_in_disorder(bench, flat, swap):
    sampler = "sampler: {use: SliceSampler, slice_len: 8, strict_length: false}"
    pipeline = bench.build(flat, sampler, "sampler: RandomSampler", *swap)
    assert (numbers(pipeline.samples[0]).diff() != 1).any()
    assert_traced(pipeline)


@pytest.mark.parametrize("name", ["SliceSamplerWithoutReplacement", "StreamingSliceSampler"])
def test_samplers_go_by_their_names(bench, flat, name):
    pipeline = bench.build(flat, "use: SliceSampler", f"use: {name}")
    assert type(pipeline.replay.sampler).__name__ == name


def test_memmap_storage_leaves_nothing_and_prefetch_no_thread(bench, flat, tmp_path):
    before = threading.active_count()
    text = flat.replace("LazyTensorStorage", "LazyMemmapStorage, scratch_dir: kept")
    builder = bench.run(text, "batch_size: 32", "batch_size: 32\n  prefetch: 2")
    scratch = builder._training.scratch
    assert scratch is not None and any(scratch.rglob("*.memmap"))
    assert not (tmp_path / "kept").exists()
    builder.close()
    assert not scratch.exists()
    assert threading.active_count() <= before


def test_rows_stay_rows_in_a_storage_of_two_dimensions(bench, flat):
    swaps = ("env_name: CartPole-v1", "env_name: CartPole-v1\n  workers: 2")
    pipeline = bench.build(flat, "max_size: 400", "max_size: 400, ndim: 2", *swaps)
    assert pipeline.replay.storage.ndim == 2
    assert_traced(pipeline)


def test_whole_rows_as_items(bench, flat):
    text = flat.replace("slice_len: 8, strict_length: false", "slice_len: 8")
    swaps = ("env_name: CartPole-v1", "env_name: CartPole-v1\n  workers: 2")
    sampler = ("{use: SliceSampler, slice_len: 8}", "RandomSampler")
    pipeline = bench.build(text, *swaps, *sampler, "size: 32", "size: 3\n  flatten: none")
    assert pipeline.samples[0].shape == (3, 20)
    assert_traced(pipeline)


def test_replay_transforms_are_appended(bench, flat):
    text = flat.replace("{use: SliceSampler, slice_len: 8, strict_length: false}", "RandomSampler")
    burn_in = "size: 3\n  flatten: none\n  transforms: [{use: BurnInTransform, burn_in: 5}]"
    rows = ("env_name: CartPole-v1", "env_name: CartPole-v1\n  workers: 2")
    pipeline = bench.build(text, "size: 32", burn_in, *rows)
    assert pipeline.samples[0].shape == (3, 15)
    assert_traced(pipeline)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("use: SliceSampler", "use: SliceSamlper", "did you mean 'SliceSampler'"),
        ("use: LazyTensorStorage", "use: LazyTensorStorag", "did you mean 'LazyTensorStorage'"),
        ("use: LazyTensorStorage", "use: SliceSampler", "is not a storage"),
        ("slice_len: 8", "slice_length: 8", "did you mean 'slice_len'"),
        ("batch_size: 32", "batch_sizes: 32", "batch_size"),
        ("  batch_size: 32", "  flatten: none", "no batch_size"),
        ("replay:", "replay:\n  factory: training:make_replay", "makes the whole buffer"),
        ("use: DQNLoss", "use: DQNLos", "did you mean 'DQNLoss'"),
        ("delay_value: true", "delay_valu: true", "did you mean 'delay_value'"),
        ("use: DQNLoss", "use: SACLoss", "SACLoss needs qvalue_network"),
    ],
)
def test_faults_of_the_spec(bench, flat, old, new, message):
    text = flat.replace(", delay_value: true", "") if "SACLoss" in new else flat
    with pytest.raises(Exception, match="(?s)" + message) as caught:
        bench.run(text, old, new)
    assert caught.value.place.line > 1


def test_a_prioritized_sampler_runs_or_says_why_not(bench, flat):
    swap = ("use: SliceSampler,", "use: PrioritizedSliceSampler, alpha: 0.7, beta: 0.9,")
    builder = bench.run(flat, *swap)
    if Stage.REPLAY in builder.failures:
        assert "compiled extension" in str(builder.failures[Stage.REPLAY])
    else:
        assert_traced(builder.pipeline)


# --- collectors that write into the buffer -----------------------------------------------------


@pytest.mark.parametrize("more", ["", ", background: true"])
def test_collector_writes_into_the_buffer(bench, flat, more):
    swap = ("frames_per_batch: 40", "frames_per_batch: 40, replay_buffer: true" + more)
    pipeline = bench.build(flat, *swap)
    assert [batch.shape for batch in pipeline.batches] == [(80,)]
    assert_traced(pipeline)


def test_full_buffer_is_read_back_oldest_first(bench, flat):
    swap = ("frames_per_batch: 40", "frames_per_batch: 40, batches: 3, replay_buffer: true")
    pipeline = bench.build(flat, *swap, "max_size: 400", "max_size: 100")
    (batch,) = pipeline.batches
    ids = batch["collector", "traj_ids"]
    assert (ids.diff() >= 0).all()
    assert_traced(pipeline)


def test_rows_written_by_the_collector(bench, flat):
    swap = ("frames_per_batch: 40", "frames_per_batch: 40, replay_buffer: true")
    pipeline = bench.build(
        flat,
        *swap,
        "max_size: 400",
        "max_size: 400, ndim: 2",
        "CartPole-v1",
        "CartPole-v1\n  workers: 2",
    )
    assert [batch.shape for batch in pipeline.batches] == [(2, 40)]
    assert_traced(pipeline)


@pytest.mark.parametrize("factory", ["make_collector", "generate"])
def test_a_factory_collector_gets_the_buffer(bench, flat, factory):
    swap = ("{use: Collector, frames_per_batch: 40}", f'{{factory: "training:{factory}"}}')
    pipeline = bench.build(flat, *swap)
    assert sum(batch.numel() for batch in pipeline.batches) == 100
    assert len(pipeline.replay) == 100


def test_a_buffer_is_asked_for_and_not_there(bench, dqn_text):
    swap = ("frames_per_batch: 40", "frames_per_batch: 40, replay_buffer: true")
    with pytest.raises(ComponentError, match="has no `replay`"):
        bench.run(dqn_text, *swap)


def test_background_needs_the_buffer(bench, flat):
    with pytest.raises(ComponentError, match="replay_buffer: true"):
        bench.run(flat, "frames_per_batch: 40", "frames_per_batch: 40, background: true")


# --- batch -------------------------------------------------------------------------------------


def test_batch_factory_gets_the_sample(bench, flat):
    text = flat.replace("strict_length: false", "strict_length: true")
    pipeline = bench.build(text + 'batch: {factory: "training:make_batch", rows: 2}\n')
    assert [sample.shape[0] for sample in pipeline.samples] == [2, 2, 2]
    assert_traced(pipeline)


def test_batch_factory_without_replay_gets_each_batch(bench, dqn_text):
    pipeline = bench.build(dqn_text + 'batch: {factory: "training:make_batch"}\n' + LOSS)
    assert [sample.shape for sample in pipeline.samples] == [(4, 10), (4, 10)]
    assert_traced(pipeline)


def test_batch_factory_without_return(bench, flat):
    with pytest.raises(ComponentError, match="returned None"):
        bench.run(flat + 'batch: {factory: "training:no_batch"}\n')


def test_batch_factory_that_raises_is_an_outcome(bench, flat):
    builder = bench.run(flat + 'batch: {factory: "training:make_batch", rows: 1000}\n')
    assert builder.failures[Stage.REPLAY].place.path == "training.py"
    assert builder.results[Stage.LOSS].detail == "the replay stage failed"


# --- advantage ---------------------------------------------------------------------------------


def test_gae_runs_on_the_collected_batches(bench):
    builder = bench.run(PPO)
    pipeline = builder.pipeline
    assert builder.stages[4:] == (Stage.ADVANTAGE, Stage.REPLAY, Stage.LOSS)
    assert isinstance(pipeline.estimator, GAE)
    assert [len(batch) for batch in pipeline.estimated] == [60, 60]
    assert "advantage" in list(pipeline.estimated[0].keys())
    assert "advantage" not in list(pipeline.batches[0].keys())
    assert_traced(pipeline)


def test_gae_behind_the_replay(bench):
    builder = bench.run(PPO + REPLAY, "shifted: true", "shifted: true, on: sample")
    assert builder.stages[4:] == (Stage.REPLAY, Stage.ADVANTAGE, Stage.LOSS)
    assert not builder.failures
    assert builder.pipeline.estimated == []
    assert all("advantage" in list(sample.keys()) for sample in builder.pipeline.samples)


@pytest.mark.parametrize("use", ["TD0", "TD0Estimator", "TD1Estimator", "VTrace"])
def test_estimators_go_by_their_names(bench, use):
    pipeline = bench.build(PPO, "use: GAE, gamma: 0.99, lmbda: 0.95", f"use: {use}, gamma: 0.9")
    assert type(pipeline.estimator).__name__.startswith(use)


def test_vtrace_on_the_scan_backend_runs_in_one_pass(bench):
    vtrace = ("use: GAE, gamma: 0.99, lmbda: 0.95", "use: VTrace, gamma: 0.9")
    scan = ("hidden_size: 6\n", "hidden_size: 6\n    recurrent_backend: scan\n")
    pipeline = bench.build(PPO, *vtrace, *scan)
    assert pipeline.estimated[0]["advantage"].isfinite().all()
    failure = bench.run(PPO, *vtrace, *scan, ", shifted: true", "").failures[Stage.ADVANTAGE]
    assert "autograd.Function" in failure.message  # a GRU of the scan backend under vmap


def test_an_estimator_that_raises_leaves_the_rest_its_data(bench):
    builder = bench.run(PPO + REPLAY, ", shifted: true", "")
    assert "vmap" in str(builder.failures[Stage.ADVANTAGE])
    assert builder.pipeline.estimator is not None
    assert builder.results[Stage.REPLAY].outcome is Outcome.PASSED
    assert builder.results[Stage.LOSS].detail == "the advantage stage failed"


def test_a_factorys_estimator_runs_in_the_ambient_mode(bench, dqn_text):
    text = dqn_text + 'advantage: {factory: "training:make_advantage", scale: 3.0}\n'
    pipeline = bench.build(text + 'loss: {factory: "training:make_loss"}\n')
    assert pipeline.samples[0]["advantage"].unique().tolist() == [3.0]
    assert not pipeline.samples[0]["mode"].any()


def test_gae_without_a_critic(bench, dqn_text):
    with pytest.raises(ComponentError, match="the spec has no critic"):
        bench.run(dqn_text + "advantage: {use: GAE, gamma: 0.9, lmbda: 0.9}\n")


def test_a_collector_that_fills_the_buffer_leaves_the_samples_to_the_estimator(bench):
    text = PPO.replace("frames_per_batch: 60", "frames_per_batch: 60, replay_buffer: true") + REPLAY
    builder = bench.run(text)
    assert not builder.failures
    assert builder.stages[4] is Stage.REPLAY
    with pytest.raises(ComponentError, match="before any estimator"):
        bench.open(text, "shifted: true", "on: collect")


# --- loss --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SACLoss", "CQLLoss", "CrossQLoss"])
def test_losses_of_continuous_actions(bench, name):
    pipeline = bench.build(CONTINUOUS, "use: LOSS", f"use: {name}")
    assert type(pipeline.loss).__name__ == name


def test_a_loss_with_a_network_of_its_own(bench):
    swap = ("use: LOSS,", f"use: IQLLoss, {VALUE_NETWORK},")
    pipeline = bench.build(CONTINUOUS, *swap)
    assert pipeline.loss.value_network is not None


@pytest.mark.parametrize("name", ["TD3Loss", "DDPGLoss"])
def test_losses_of_deterministic_policies(bench, name):
    head = CONTINUOUS[CONTINUOUS.index("  - {use: MLP, in_keys: [features]") :]
    head = head[: head.index("critic:")]
    plain = (
        "  - {use: MLP, in_keys: [features], out_keys: [action], num_cells: [], out_features:"
        " auto}\n"
    )
    swaps = (head, plain, "use: LOSS", f"use: {name}")
    text = CONTINUOUS if name == "TD3Loss" else CONTINUOUS.replace(", deactivate_vmap: true", "")
    assert type(bench.build(text, *swaps).loss).__name__ == name


@pytest.mark.parametrize("name", ["A2CLoss", "KLPENPPOLoss", "PPOLoss", "ReinforceLoss"])
def test_losses_of_policy_gradients(bench, name):
    assert type(bench.build(PPO, "ClipPPOLoss", name).loss).__name__ == name


def test_discrete_sac_gets_the_number_of_actions(bench):
    head = "{use: MLP, in_keys: [vf], out_keys: [state_value], num_cells: [], out_features: auto}"
    q_head = "{use: MLP, in_keys: [vf], out_keys: [action_value], num_cells: [], out_features: 2}"
    gae = "advantage: {use: GAE, gamma: 0.99, lmbda: 0.95, shifted: true}\n"
    loss = ("use: ClipPPOLoss", "use: DiscreteSACLoss, deactivate_vmap: true")
    pipeline = bench.build(PPO, head, q_head, gae, "", *loss)
    assert type(pipeline.loss).__name__ == "DiscreteSACLoss"


def test_distributional_dqn(bench, flat):
    policy = flat[flat.index("policy:") : flat.index("collect:")]
    own = 'policy: {factory: "training:make_distributional"}\n'
    loss = ("DQNLoss, delay_value: true", "DistributionalDQNLoss, gamma: 0.9")
    one_hot = ("  categorical_action_encoding: true\n", "")
    pipeline = bench.build(flat, policy, own, *loss, *one_hot)
    assert type(pipeline.loss).__name__ == "DistributionalDQNLoss"
    assert float(pipeline.loss.gamma) == pytest.approx(
        0.9
    )  # this class takes it in its constructor


def test_value_estimator_and_target_update(bench, flat):
    more = (
        "delay_value: true, value_estimator: {type: TD1, gamma: 0.5}, target_update: {use:"
        " SoftUpdate, eps: 0.9}"
    )
    pipeline = bench.build(flat, "delay_value: true", more)
    assert type(pipeline.loss.value_estimator).__name__ == "TD1Estimator"
    assert isinstance(pipeline.updater, SoftUpdate)


def test_a_discount_in_the_constructor_is_sent_where_it_belongs(bench, flat):
    given = flat.replace("delay_value: true", "delay_value: true, gamma: 0.9")
    with pytest.raises(ComponentError) as caught:
        bench.run(given)
    line = given.splitlines()[caught.value.place.line - 1]
    assert line[caught.value.place.column - 1 :].startswith("gamma")
    assert "takes no gamma" in str(caught.value)
    assert "`value_estimator: {gamma: 0.9}`" in str(caught.value)
    fixed = bench.build(flat, "delay_value: true", "value_estimator: {gamma: 0.9}")
    assert float(fixed.loss.value_estimator.gamma) == pytest.approx(0.9)


def test_every_training_batch_is_tried(bench, dqn_text):
    text = dqn_text.replace("frames_per_batch: 40}", "frames_per_batch: 40, batches: 2}")
    builder = bench.run(text + 'loss: {factory: "training:fickle_loss"}\n')
    assert "training batch 1; the ones before it run" in str(builder.failures[Stage.LOSS])


def test_unknown_estimator_type(bench, flat):
    with pytest.raises(ComponentError, match="did you mean 'td1'"):
        bench.run(flat, "delay_value: true", "value_estimator: {type: tdd1}")


def test_loss_factories(bench, dqn_text):
    text = (
        dqn_text
        + 'advantage: {factory: "training:make_advantage"}\nloss: {factory: "training:make_loss"}\n'
    )
    pipeline = bench.build(text)
    total, parts = form_loss(pipeline.loss, pipeline.samples[0])
    assert float(total) == 2.0
    assert list(parts) == ["loss_a", "loss_b"]
    builder = bench.run(text, "training:make_loss", "training:nameless_loss")
    assert "objective" in str(builder.failures[Stage.LOSS])
    builder = bench.run(text, "training:make_loss", "training:failing_loss")
    assert "no loss here" in str(builder.failures[Stage.LOSS])
    assert builder.failures[Stage.LOSS].place.path == "training.py"
    assert builder.pipeline.loss is not None


def test_form_loss_takes_what_users_return():
    td = TensorDict({"x": torch.ones(2)}, [2])
    assert float(form_loss(lambda data: data["x"].sum(), td)[0]) == 2.0
    assert float(form_loss(lambda data: (data["x"].sum(), {}), td)[0]) == 2.0
    assert float(form_loss(lambda data: {"loss": data["x"], "other": 3}, td)[0]) == 1.0
    with pytest.raises(StageError, match="None"):
        form_loss(lambda data: None, td)


def test_nothing_is_collected(bench, flat):
    builder = bench.run(flat, "collect: {use: Collector, frames_per_batch: 40}\n", "")
    assert builder.results[Stage.REPLAY].detail == "nothing is collected"
    assert builder.results[Stage.ADVANTAGE].detail == "not in the spec"
