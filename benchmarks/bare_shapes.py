"""The yardstick of bench_self for the pipelines of shapes.py: each collected and trained on once by
TorchRL alone, without rnncheck.

Usage: bare_shapes.py NAME FRAMES_PER_BATCH BATCHES
"""

from __future__ import annotations

import sys

import torch
from shapes import SHAPES
from torchrl.collectors import Collector


def main(name: str, frames_per_batch: int, batches: int) -> None:
    """Collects, and makes one loss and backward pass; checks that it did."""
    torch.manual_seed(0)
    shape = SHAPES[name]
    env = shape.env()
    policy = shape.policy(env)
    total = frames_per_batch * batches
    collector = Collector(env, policy, frames_per_batch=frames_per_batch, total_frames=total)
    collected = [batch.clone() for batch in collector]
    collector.shutdown()
    loss = shape.loss(policy)
    parts = loss(shape.batch(collected[-1]))
    sum(value for key, value in parts.items() if key.startswith("loss")).backward()
    silent = [key for key, p in loss.named_parameters() if p.requires_grad and p.grad is None]
    if sum(batch.numel() for batch in collected) != total or silent:
        raise SystemExit(f"collected {len(collected)} batches; without gradient: {silent}")


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:]))
