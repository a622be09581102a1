"""Healthy specs: what is built, what it carries, what is collected."""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

import pytest
import torch
from tensordict import TensorDictBase
from torchrl.envs import ParallelEnv, SerialEnv
from torchrl.modules import LSTMModule, ProbabilisticActor

from rnncheck.results.model import Outcome, Stage

PENDULUM = """
schema: 1
name: pendulum
env:
  use: GymEnv
  env_name: Pendulum-v1
  transforms:
    - InitTracker
    - {use: ObservationNorm, in_keys: [observation], init_stats: {num_iter: 20}}
policy:
  modules:
    - use: LSTMModule
      hidden_size: 8
      in_keys: [observation, rs_h, rs_c]
      out_keys: [out, [next, rs_h], [next, rs_c]]
    - {use: MLP, in_keys: [out], out_keys: [params], num_cells: [8], out_features: auto}
    - NormalParamExtractor
    - use: ProbabilisticActor
      distribution_class: TanhNormal
      distribution_kwargs: {low: -2.0, high: 2.0}
      return_log_prob: true
      default_interaction_type: random
critic:
  modules:
    - {use: GRUModule, hidden_size: 8, in_keys: [observation, v_h], out_keys: [v, [next, v_h]]}
    - {use: ValueOperator, module: {use: MLP, out_features: auto, num_cells: [8]}, in_keys: [v]}
collect: {use: Collector, frames_per_batch: 30, batches: 3}
"""
GRU = """
schema: 1
name: gru
env: {use: GymEnv, env_name: CartPole-v1}
policy:
  modules:
    - use: GRUModule
      hidden_size: 8
      in_key: observation
      out_key: a
      num_layers: 2
      python_based: true
    - use: Sequential
      modules: [{use: Linear, out_features: 8}, Tanh, {use: Linear, out_features: auto}]
      in_keys: [a]
      out_keys: [logits]
    - {use: ProbabilisticActor, distribution_class: OneHotCategorical}
collect: {use: Collector, frames_per_batch: 30}
"""
PIXELS = """
schema: 1
name: pixels
env:
  use: GymEnv
  env_name: CartPole-v1
  from_pixels: true
  transforms:
    - ToTensorImage
    - GrayScale
    - {use: Resize, w: 24, h: 20}
    - InitTracker
    - {use: ObservationNorm, standard_normal: true, in_keys: [pixels], init_stats: {num_iter: 20}}
policy:
  modules:
    - use: ConvNet
      in_keys: [pixels]
      out_keys: [embed]
      num_cells: [4, 4]
      squeeze_output: true
      aggregator_class: AdaptiveAvgPool2d
      aggregator_kwargs: {output_size: [1, 1]}
    - {use: LSTMModule, hidden_size: 8, in_key: embed, out_key: embed}
    - {use: MLP, num_cells: [8], out_features: auto, in_keys: [embed], out_keys: [action_value]}
    - QValueModule
    - {use: EGreedyModule, eps_init: 0.2}
collect: {use: Collector, frames_per_batch: 20}
"""


def names(entries: Any) -> list[str]:
    """The names at the root of a tensordict or spec, neither of which supports ``in``."""
    return list(entries.keys())


def assert_carried(batch: TensorDictBase, key: str) -> None:
    """The state at t+1 is the next state of t, and the start's where an episode starts."""
    starts = batch["is_init"][..., 1:, 0]
    before, after = batch["next", key][..., :-1, :, :], batch[key][..., 1:, :, :]
    assert starts.any()
    assert torch.equal(after[~starts], before[~starts])
    assert before[~starts].abs().sum() > 0


def test_module_list_gets_its_sizes(bench, dqn_text):
    pipeline = bench.build(dqn_text)
    lstm = next(m for m in pipeline.policy.modules() if isinstance(m, LSTMModule))
    assert lstm.lstm.input_size == 8
    assert pipeline.batches[0]["action_value"].shape == (40, 2)
    assert [batch.shape for batch in pipeline.batches] == [(40,), (40,)]
    assert_carried(pipeline.batches[0], "recurrent_state_h")


def test_missing_state_transforms_are_added_to_a_named_env(bench, dqn_text):
    pipeline = bench.build(dqn_text, "transforms: [InitTracker]", "transforms: []")
    reset = pipeline.make_env().reset()
    assert reset["is_init"].all()
    assert reset["recurrent_state_h"].shape == (1, 6)
    assert "recurrent_state_c" in names(pipeline.env.reset())


def test_manual_primers_leave_the_env_and_tell(bench, dqn_text):
    text = dqn_text.replace("  transforms", "  primers: manual\n  transforms")
    pipeline = bench.build(text)
    assert "recurrent_state_h" not in names(pipeline.env.reset())
    assert any("TensorDictPrimer" in notice for notice in pipeline.notices)


def test_auto_registered_transforms_show_in_the_acting_env(bench, dqn_text):
    text = dqn_text.replace("  transforms", "  primers: manual\n  transforms")
    pipeline = bench.build(text, "batch: 40", "batch: 40, auto_register_policy_transforms: true")
    assert "recurrent_state_h" in names(pipeline.batches[0])
    assert "recurrent_state_h" in names(pipeline.acting_env.observation_spec)
    assert pipeline.notices == []


def test_a_factory_env_is_not_touched(bench, own_text):
    swap = ("own:make_env", "own:make_untracked_env", "own:make_policy", "own:make_lstm_policy")
    builder = bench.run(own_text, *swap)
    assert "is_init" not in names(builder.pipeline.env.reset())
    assert "is_init" in builder.failures[Stage.COLLECT].message
    assert builder.results[Stage.COLLECT].outcome is Outcome.ERROR


def test_continuous_actor_and_recurrent_critic(bench):
    pipeline = bench.build(PENDULUM)
    assert isinstance(pipeline.policy, ProbabilisticActor)
    batch = pipeline.batches[0]
    assert len(pipeline.batches) == 3
    assert batch["loc"].shape == (30, 1)
    assert "action_log_prob" in names(batch)
    assert batch["action"].abs().max() <= 2
    value = pipeline.critic(pipeline.env.reset())["state_value"]
    assert value.shape == (1,)


def test_statistics_are_taken_once(bench):
    pipeline = bench.build(PENDULUM)
    first, second = pipeline.make_env().reset(), pipeline.make_env().reset()
    assert torch.equal(first["observation"], second["observation"])


def test_layers_python_based_and_discrete_actor(bench):
    pipeline = bench.build(GRU)
    batch = pipeline.batches[0]
    assert batch["recurrent_state"].shape == (30, 2, 8)
    assert batch["action"].sum(-1).eq(1).all()


def test_pixels(bench):
    pipeline = bench.build(PIXELS)
    assert pipeline.batches[0]["pixels"].shape == (20, 1, 24, 20)
    with torch.no_grad():
        again = pipeline.policy(pipeline.batches[0].clone())
    assert again["action_value"].shape == (20, 2)


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("vectorize", ["serial", "parallel"])
def test_workers_keep_their_own_state(bench, dqn_text, vectorize):
    text = dqn_text.replace("  transforms", f"  workers: 2\n  vectorize: {vectorize}\n  transforms")
    pipeline = bench.build(text, "frames_per_batch: 40", "frames_per_batch: 160")
    batch = pipeline.batches[0]
    assert isinstance(pipeline.env.base_env, SerialEnv if vectorize == "serial" else ParallelEnv)
    assert batch.shape == (2, 80)
    assert_carried(batch, "recurrent_state_h")
    assert not torch.equal(batch["observation"][0], batch["observation"][1])


def test_pristine_copies_share_nothing(bench, own_text):
    pipeline = bench.build(own_text, "own:make_policy", "own:make_lazy_policy")
    live, kept = pipeline.policy, pipeline.pristine_policy
    assert all(p is not q for p, q in zip(live.parameters(), kept.parameters(), strict=True))
    assert all(torch.equal(p, q) for p, q in zip(live.parameters(), kept.parameters(), strict=True))


@pytest.mark.parametrize(
    ("collect", "shapes"),
    [
        ("{factory: 'own:make_collector', total_frames: 40}", [40]),
        ("{factory: 'own:make_collector', total_frames: 400}", [40, 40]),
        ("{factory: 'own:generate', batches: 3}", [20, 20, 20]),
        ("{factory: 'own:one_batch'}", [20]),
        ("{factory: 'own:positional', batches: 4}", [20, 20, 20, 20]),
        ("{use: Collector, frames_per_batch: 40, total_frames: 40}", [40]),
        ("{use: SyncDataCollector, frames_per_batch: 40, batches: 1}", [40]),
    ],
)
def test_collectors(bench, own_text, collect, shapes):
    pipeline = bench.build(own_text, "{use: Collector, frames_per_batch: 40}", collect)
    assert [len(batch) for batch in pipeline.batches] == shapes


def test_without_collect_there_is_no_such_stage(bench, own_text):
    builder = bench.run(own_text, "collect: {use: Collector, frames_per_batch: 40}\n", "")
    assert builder.results[Stage.COLLECT].outcome is Outcome.NOT_APPLICABLE
    assert builder.pipeline.batches == []


def test_the_same_seed_gives_the_same_data(bench, dqn_text):
    first, second = bench.build(dqn_text), bench.build(dqn_text)
    assert (first.batches[1] == second.batches[1]).all()


@pytest.mark.parametrize("name", ["lambda_env", "partial_env", "EnvClass"])
def test_every_callable_is_a_factory(bench, own_text, name):
    pipeline = bench.build(own_text, "own:make_env", f"own:{name}")
    assert pipeline.source(Stage.ENV).kind == "python"


def test_sources_name_the_line_to_change(bench, own_text, dqn_text):
    own = bench.build(own_text).source(Stage.POLICY)
    assert (own.kind, own.path, own.name) == ("python", "own.py", "make_policy")
    assert (own.line, "def make_policy(env, size=8):") in own.frame
    named = bench.build(dqn_text).source(Stage.ENV)
    assert (named.kind, named.name) == ("spec", "env.transforms")  # where a missing one goes
    assert any(number == named.line and "transforms" in text for number, text in named.frame)


def test_equally_named_modules_do_not_mix(bench, own_text, tmp_path):
    first = bench.open(own_text)
    first.run(Stage.ENV)
    first.close()
    assert "own" not in sys.modules
    text = (tmp_path / "own.py").read_text()
    (tmp_path / "own.py").write_text(text.replace("def make_env(", "MARK = 1\n\n\ndef make_env("))
    bench.build(own_text)
    assert sys.modules["own"].MARK == 1


def test_closing_leaves_no_trace(bench, own_text, tmp_path):
    path = list(sys.path)
    builder = bench.run(own_text)
    builder.close()
    builder.close()
    assert sys.path == path
    assert multiprocessing.active_children() == []


def test_no_action_space_is_the_same_as_none_said(bench, dqn_text):
    pipeline = bench.build(dqn_text, "- QValueModule", "- {use: QValueModule, action_space: null}")
    assert pipeline.batches[0]["action"].shape == (40,)
