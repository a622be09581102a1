"""``rnncheck run``: what a script binds or writes anew ahead of its training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.estimates_script import HEAD
from tests.watching.next_values_script import changed
from tests.watching.scripts import failed, planted, run

# What the name is bound to first is thrown away by the next line.
THROWN_AWAY = (
    HEAD
    + """
optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 3e-4)
rb = TensorDictReplayBuffer(storage=LazyTensorStorage(8), batch_size=4)

for data in Collector(env, actor, frames_per_batch=64, total_frames=512):
    rb.extend(data)
    for _ in range(2):
        rows = rb.sample().unbind(1)
        batch = torch.stack(rows, 0).detach()
        batch = torch.stack(rows, 1)
        with set_recurrent_mode(True):
            td = batch.select(*KEPT).clone()
            dist = actor.get_dist(td)
        value = critic(td)["state_value"]
        target = batch["next", "reward"]
        told = dist.log_prob(batch["action"])
        gain = (target - value).detach().squeeze(-1)
        loss = (target - value).square().mean() - (told * gain).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
"""
)
STEP_BY_STEP = ("set_recurrent_mode(True)", "set_recurrent_mode(False)")

# An entry that no network reads is another in training than it was collected.
UNREAD = (
    ("InitTracker, TransformedEnv\n", "InitTracker, ObservationNorm, TransformedEnv\n"),
    (
        "Compose(InitTracker())",
        'Compose(InitTracker(), ObservationNorm(0.0, 2.0, ["observation"], ["info"]))',
    ),
    (
        "        buffer.extend(data",
        '        data.set("info", data["next", "info"])\n        buffer.extend(data',
    ),
)
SHUFFLED = (
    "buffer.sample().reshape",
    "buffer.sample()[torch.randperm(SLICE * SLICES)].reshape",
)


def ran(rnncheck: Any, path: Path, code: str) -> tuple[int, list[str]]:
    ended, told, _ = run(rnncheck, "--select", code, path)
    return ended, failed(told)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="over the steps"),
        pytest.param((STEP_BY_STEP,), (ExitCode.FAILED, ["LS703"]), id="step by step"),
    ],
)
def test_a_batch_that_is_thrown_away_is_not_the_losses(
    rnncheck: Any,
    tmp_path: Path,
    changes: tuple[tuple[str, str], ...],
    found: tuple[ExitCode, list[str]],
) -> None:
    path = tmp_path / "train.py"
    path.write_text(changed(THROWN_AWAY, *changes))
    assert ran(rnncheck, path, "LS703") == found


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="slices"),
        pytest.param((SHUFFLED,), (ExitCode.FAILED, ["RP502"]), id="shuffled"),
    ],
)
def test_steps_are_traced_by_what_a_network_reads(
    rnncheck: Any,
    tmp_path: Path,
    changes: tuple[tuple[str, str], ...],
    found: tuple[ExitCode, list[str]],
) -> None:
    path = planted(tmp_path, "r2d2_slices.py", *UNREAD, *changes)
    assert ran(rnncheck, path, "RP501,RP502") == found
