"""``rnncheck run``: what a script adds to the loss of a module of TorchRL's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

MADE = '        loss = loss_fn(sample)["loss"]\n'
FORETELLS = (
    "updater = SoftUpdate(",
    "foresee = torch.nn.Linear(24, 4)\nupdater = SoftUpdate(",
)
OBSERVED = 'sample["next", "observation"]'
ADDED = f"""\
        with set_recurrent_mode(True):
            told = foresee(lstm(sample.select("observation", "is_init"))["embed"])
        loss = loss_fn(sample)["loss"] + 0.1 * (told - {OBSERVED}).square().mean()
"""
IMPORTS = (
    "import MLP, EGreedyModule, LSTMModule, QValueModule",
    "import MLP, EGreedyModule, LSTMModule, QValueModule, set_recurrent_mode",
)
PENALTY = (
    MADE,
    MADE + "        loss = loss + 1e-4 * sum(p.square().sum() for p in net.parameters())\n",
)
# The targets run over the seams of the slices.
UNMARKED = ('        sample["next", "is_init"] = sample["is_init"]', "        # no marks")
# What is foretold is the next step of the batch: behind the last step of a slice another one's.
NEIGHBOUR = (f"(told - {OBSERVED})", '(told[:-1] - sample["observation"][1:])')


# Each step of the prediction from the state that is stored beside it, or that and no gradient.
BY_STEP = (
    """\
        with set_recurrent_mode(True):
            told = foresee(lstm(sample.select("observation", "is_init"))["embed"])
""",
    """\
        told = foresee(lstm(sample.copy())["embed"])
""",
)
ALONE_BUT_CUT = (
    BY_STEP[1].strip(),
    'told = foresee(lstm(sample.copy())["embed"].detach())',
)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param((), [], id="a healthy one", marks=pytest.mark.slow),
        pytest.param((NEIGHBOUR,), ["LS701"], id="a neighbour in the batch"),
        pytest.param((BY_STEP,), ["LS703"], id="each step alone", marks=pytest.mark.slow),
    ],
)
def test_a_prediction_beside_it_is_judged(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], named: list[str]
) -> None:
    path = planted(tmp_path, "dqn_cartpole.py", IMPORTS, FORETELLS, (MADE, ADDED), *changes)
    code, told, _ = run(rnncheck, "--select", "LS701,LS703", path)
    assert (code, failed(told)) == (ExitCode.FAILED if named else ExitCode.VERIFIED, named)
    assert not [one for one in told["notices"] if "not judged" in one]


@pytest.mark.slow
def test_a_prediction_of_what_the_memory_gave_alone(rnncheck: Any, tmp_path: Path) -> None:
    """It trains no memory: each step may be taken by itself."""
    changes = (IMPORTS, FORETELLS, (MADE, ADDED), BY_STEP, ALONE_BUT_CUT)
    path = planted(tmp_path, "dqn_cartpole.py", *changes)
    code, told, _ = run(rnncheck, "--select", "LS703", path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_a_penalty_on_weights_leaves_the_module_the_loss(rnncheck: Any, tmp_path: Path) -> None:
    path = planted(tmp_path, "dqn_cartpole.py", PENALTY, UNMARKED)
    code, told, _ = run(rnncheck, "--select", "LS701", path)
    assert (code, failed(told)) == (ExitCode.FAILED, ["LS701"])
    loss = next(one for one in told["stages"] if one["stage"] == "loss")
    assert loss["detail"].startswith("DQNLoss")


APART = """\
        loss_fn(sample)["loss"].backward()
        loss = (foresee(sample["observation"]) - sample["next", "observation"]).square().mean()
"""
ALONE = (FORETELLS[0], FORETELLS[1].replace("24, 4", "4, 4"))


@pytest.mark.slow
def test_a_loss_of_its_own_leaves_the_module_the_loss(rnncheck: Any, tmp_path: Path) -> None:
    """Another network trains beside it, by a `backward` that the module's loss is no part of."""
    path = planted(tmp_path, "dqn_cartpole.py", ALONE, (MADE, APART), UNMARKED)
    code, told, _ = run(rnncheck, "--select", "LS701", path)
    assert (code, failed(told)) == (ExitCode.FAILED, ["LS701"])
    loss = next(one for one in told["stages"] if one["stage"] == "loss")
    assert loss["detail"].startswith("DQNLoss")


STEPS = """\
        sample = buffer.sample()
        sample["next", "is_init"] = sample["is_init"]
        losses = loss_module(sample)
        loss = losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"]
        optim.zero_grad()
        loss.backward()
        optim.step()
"""
BY_TURNS = """\
        for turn in range(4):
            sample = buffer.sample()
            sample["next", "is_init"] = sample["is_init"]
            losses = loss_module(sample)
            loss = losses["loss_qvalue"]
            if turn % 2 == 0:
                with set_recurrent_mode(True):
                    drawn = actor.get_dist(sample.copy())
                loss = loss + losses["loss_actor"] + 1e-3 * drawn.loc.square().mean()
            optim.zero_grad()
            loss.backward()
            optim.step()
"""
MODE = (
    "\nfrom torchrl.objectives",
    "\nfrom torchrl.modules import set_recurrent_mode\nfrom torchrl.objectives",
)


@pytest.mark.slow
def test_an_actor_that_waits_for_every_second_update(rnncheck: Any, tmp_path: Path) -> None:
    """The lines are seen at an update without it first."""
    path = planted(tmp_path, "sac_rollouts.py", MODE, (STEPS, BY_TURNS))
    code, told, _ = run(rnncheck, "--select", "GR801,GR803,LS701", path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    loss = next(one for one in told["stages"] if one["stage"] == "loss")
    assert loss["detail"].startswith("training_step")
