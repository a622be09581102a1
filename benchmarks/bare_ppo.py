"""The yardstick of bench_self for the training path: collected, sampled and trained on once by
TorchRL alone.

Same environment, networks, estimator, replay and loss as cartpole_ppo.yaml. Usage: bare_ppo.py
FRAMES_PER_BATCH BATCHES
"""

from __future__ import annotations

import sys

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
from torchrl.envs import Compose, GymEnv, InitTracker, StepCounter, TransformedEnv
from torchrl.modules import MLP, LSTMModule, ProbabilisticActor, ValueOperator, set_recurrent_mode
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE


def networks() -> tuple[ProbabilisticActor, TensorDictSequential, list[LSTMModule]]:
    """Actor, critic and their memories."""
    acting = LSTMModule(
        input_size=4,
        hidden_size=64,
        in_keys=["observation", "h", "c"],
        out_keys=["features", ("next", "h"), ("next", "c")],
    )
    head = MLP(in_features=64, out_features=2, num_cells=[])
    actor = ProbabilisticActor(
        TensorDictSequential(
            acting, TensorDictModule(head, in_keys=["features"], out_keys=["logits"])
        ),
        in_keys=["logits"],
        out_keys=["action"],
        distribution_class=Categorical,
        return_log_prob=True,
    )
    valuing = LSTMModule(
        input_size=4,
        hidden_size=64,
        in_keys=["observation", "vh", "vc"],
        out_keys=["seen", ("next", "vh"), ("next", "vc")],
    )
    value = ValueOperator(MLP(in_features=64, out_features=1, num_cells=[]), in_keys=["seen"])
    return actor, TensorDictSequential(valuing, value), [acting, valuing]


def main(frames_per_batch: int, batches: int) -> None:
    """Collects with advantages, samples, and makes one loss and backward pass; checks that it
    did."""
    torch.manual_seed(0)
    actor, critic, memories = networks()
    base = GymEnv("CartPole-v1", categorical_action_encoding=True)
    primers = [memory.make_tensordict_primer() for memory in memories]
    env = TransformedEnv(base, Compose(InitTracker(), StepCounter(max_steps=200), *primers))
    total = frames_per_batch * batches
    collector = Collector(env, actor, frames_per_batch=frames_per_batch, total_frames=total)
    estimate = GAE(gamma=0.99, lmbda=0.95, value_network=critic, shifted=True)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(4096),
        sampler=SliceSampler(slice_len=16, strict_length=False),
        batch_size=128,
    )
    for batch in collector:
        with set_recurrent_mode(True), torch.no_grad():
            buffer.extend(estimate(batch))
    collector.shutdown()
    loss = ClipPPOLoss(actor, critic)
    parts = loss(buffer.sample())
    sum(value for name, value in parts.items() if name.startswith("loss_")).backward()
    silent = [name for name, p in loss.named_parameters() if p.requires_grad and p.grad is None]
    if len(buffer) != total or silent:
        raise SystemExit(f"{len(buffer)} of {total} frames; without gradient: {silent}")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
