"""The yardstick of bench_self: the CartPole DQN pipeline collected once by TorchRL alone, without
rnncheck.

Same environment, policy and frames as fixtures/specs/cartpole_dqn.yaml. Usage: bare_cartpole.py
FRAMES_PER_BATCH BATCHES
"""

from __future__ import annotations

import sys

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, TransformedEnv
from torchrl.modules import MLP, LSTMModule, QValueModule


def main(frames_per_batch: int, batches: int) -> None:
    """Builds, collects, and checks that what was asked for came."""
    torch.manual_seed(0)
    lstm = LSTMModule(input_size=32, hidden_size=64, in_key="embed", out_key="features")
    embed = MLP(in_features=4, out_features=32, num_cells=[32])
    head = MLP(in_features=64, out_features=2, num_cells=[])
    base = GymEnv("CartPole-v1", categorical_action_encoding=True)
    primer = lstm.make_tensordict_primer()
    env = TransformedEnv(base, Compose(InitTracker(), StepCounter(max_steps=200), primer))
    policy = TensorDictSequential(
        TensorDictModule(embed, in_keys=["observation"], out_keys=["embed"]),
        lstm,
        TensorDictModule(head, in_keys=["features"], out_keys=["action_value"]),
        QValueModule(spec=env.action_spec),
    )
    total = frames_per_batch * batches
    collector = Collector(env, policy, frames_per_batch=frames_per_batch, total_frames=total)
    collected = sum(batch.numel() for batch in collector)
    collector.shutdown()
    if collected != total:
        raise SystemExit(f"collected {collected} frames instead of {total}")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
