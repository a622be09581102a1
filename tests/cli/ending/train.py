"""A training script of the same parts."""

from __future__ import annotations

import torch
from sudden import make_advantage, make_critic, make_env, make_loss, make_policy
from torchrl.collectors import Collector


def main() -> None:
    torch.manual_seed(0)
    policy, critic = make_policy(), make_critic()
    advantage, loss = make_advantage(critic), make_loss(policy, critic)
    optimiser = torch.optim.Adam(loss.parameters(), 1e-3)
    collector = Collector(make_env(), policy, frames_per_batch=48, total_frames=480)
    for data in collector:
        losses = loss(advantage(data))
        optimiser.zero_grad()
        (losses["loss_policy"] + losses["loss_critic"]).backward()
        optimiser.step()
    collector.shutdown()


if __name__ == "__main__":
    main()
