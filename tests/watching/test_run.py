"""``rnncheck run``: scripts as they are, and with a fault planted into them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, failed, planted, run

PPO, DQN = "ppo_cartpole.py", "dqn_cartpole.py"
PRIMER = "    env.append_transform(make_lstm().make_tensordict_primer())\n"
FLAGS = '        sample["next", "is_init"] = sample["is_init"]'
ROWS = "loss_module(data[rows])"
SHUFFLED = "loss_module(data.reshape(-1)[torch.randperm(data.numel())[:128]])"
LOOP = "step_loop.py"
GOES_ON = "td = env.reset() if ended else step_mdp(td)"
FORGETS = (
    GOES_ON
    + """
            td["recurrent_state_h"], td["recurrent_state_c"] = torch.zeros(2, 1, 16)"""
)
KEEPS = """now, td = td, env.reset() if ended else step_mdp(td)
            for key in ("recurrent_state_h", "recurrent_state_c"):
                td[key] = now["next", key]"""
FAULTS = [
    pytest.param(PPO, (PRIMER, ""), "WR103", id="ppo-without-a-primer"),
    pytest.param(PPO, (ROWS, SHUFFLED), "RP502", id="ppo-steps-shuffled"),
    pytest.param(PPO, ("            InitTracker(),\n", ""), "WR102", id="ppo-without-init-tracker"),
    pytest.param(DQN, (FLAGS, "        #"), "LS701", id="dqn-targets-leak"),
    pytest.param(DQN, ("KeepsNext(*net)", "net"), "VL604", id="dqn-next-state-overwritten"),
    pytest.param(
        "own_actor_critic.py", (" * (~done[..., step])", ""), "LS701", id="own-return-over-end"
    ),
    pytest.param(
        "own_actor_critic.py",
        ("set_recurrent_mode(True)", "set_recurrent_mode(False)"),
        "GR801",
        id="own-loss-step-by-step",
    ),
    pytest.param(
        "padded_trajs.py",
        ("(chosen * weight)[mask].mean()", "(chosen * (weight + 1)).mean()"),
        "RP505",
        id="padding-counted",
    ),
    pytest.param(
        "r2d2_slices.py",
        ("with set_recurrent_mode(True):\n                rows", "if True:\n                rows"),
        "RP508",
        id="burn-in-step-by-step",
    ),
    pytest.param(
        "q_rollouts.py",
        ('            following["is_init"] = batch["is_init"]\n', ""),
        "LS701",
        id="rollout-targets-leak",
    ),
    pytest.param(
        "own_switch.py",
        ("self.step(x[..., t, :], state, is_init[..., t, :])", "self.cell(x[..., t, :], state)"),
        "BD301",
        id="own-switch-without-resets",
    ),
    pytest.param(DQN, ("SliceSampler(slice_len=8, ", "Steps("), "RP502", id="dqn-single-steps"),
    pytest.param(LOOP, (GOES_ON, FORGETS), "CL401", id="loop-drops-the-state"),
    pytest.param(LOOP, (GOES_ON, KEEPS), "CL403", id="loop-resets-without-a-fresh-state"),
    pytest.param(
        LOOP,
        ("torch.stack(steps)", "torch.stack(steps[::-1])"),
        "RP502",
        id="loop-stacked-reversed",
    ),
    pytest.param(
        "core_outside.py",
        (
            '("recurrent"):\n                core(rows)',
            '("sequential"):\n                core(rows)',
        ),
        "LS703",
        id="core-step-by-step",
    ),
    pytest.param("core_outside.py", ("InitTracker(), ", ""), "WR102", id="core-without-a-tracker"),
    pytest.param(
        "token_likelihood.py", (' * data["mask"])', ")"), "RP505", id="tokens-padding-counted"
    ),
    pytest.param(
        "token_likelihood.py",
        ("InitTracker(), primer", "InitTracker()"),
        "WR103",
        id="tokens-without-a-primer",
    ),
    pytest.param(
        "token_likelihood.py",
        ("score, model, prior)\n        optim", "score, acting, prior)\n        optim"),
        "GR801",
        id="tokens-acting-module-trained",
    ),
    pytest.param(
        "token_likelihood.py",
        ('data.exclude("logits"', 'data[:, torch.randperm(data.shape[1])].exclude("logits"'),
        "RP502",
        id="tokens-shuffled",
    ),
]
ITSELF = """            step, td = env.step_and_maybe_reset(actor(td))
            steps.append(step.clone())
"""
STEPS = """
from torchrl.data import RandomSampler


def Steps(**_):
    return RandomSampler()


torch.manual_seed(0)
"""


def source(folder: Path, name: str, change: tuple[str, str]) -> Path:
    changes = [change, ("\ntorch.manual_seed(0)\n", STEPS)] if "Steps(" in change[1] else [change]
    return planted(folder, name, *changes)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in SCRIPTS.glob("*.py")))
def test_a_healthy_script_is_verified(rnncheck: Any, name: str) -> None:
    code, found, _ = run(rnncheck, SCRIPTS / name)
    assert (code, failed(found)) == (ExitCode.VERIFIED, [])
    assert {one["standing"] for one in found["guarantees"]} == {"shown"}


def stepped_by(folder: Path, lines: str) -> Path:
    """The loop with other lines that step and reset the env."""
    text = (SCRIPTS / LOOP).read_text()
    begin = text.index("            td = env.step(actor(td))")
    end = text.index(GOES_ON) + len(GOES_ON) + 1
    return planted(folder, LOOP, (text[begin:end], lines))


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [False, True], ids=["goes-on", "reset-without-a-done"])
def test_a_loop_that_lets_the_env_reset_itself_is_verified(
    rnncheck: Any, tmp_path: Path, fresh: bool
) -> None:
    path = stepped_by(tmp_path, ITSELF)
    if fresh:
        text = path.read_text()
        path.write_text(text.replace("    steps = []\n", "    steps, td = [], env.reset()\n"))
    code, found, _ = run(rnncheck, path)
    assert (code, failed(found)) == (ExitCode.VERIFIED, [])
    assert {one["standing"] for one in found["guarantees"]} == {"shown"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "change", "code"), FAULTS)
def test_a_planted_fault_is_named(
    rnncheck: Any, tmp_path: Path, name: str, change: tuple[str, str], code: str
) -> None:
    path = source(tmp_path, name, change)
    ended, found, _ = run(rnncheck, "--select", code, path)
    assert (ended, failed(found)) == (ExitCode.FAILED, [code])


def test_a_finding_names_the_line_of_the_script(rnncheck: Any, tmp_path: Path) -> None:
    path = source(tmp_path, PPO, (ROWS, SHUFFLED))
    ended, found, _ = run(rnncheck, "--select", "RP502", path, "--frames-per-batch", "128")
    assert ended == ExitCode.FAILED
    (check,) = found["checks"]
    line = path.read_text().splitlines().index("                losses = " + SHUFFLED) + 1
    source_of = check["findings"][0]["source"]
    assert (source_of["path"], source_of["line"]) == (str(path), line)
    (train,) = [one for one in found["stages"] if one["stage"] == "train"]
    assert (train["outcome"], train["detail"]) == ("passed", "ended after 3 optimiser steps")
    assert "the script was ended after 3 optimiser steps (`--updates`)" in found["notices"]


def test_the_lines_around_a_loss_that_networks_ran_ahead_of_are_the_loss(rnncheck: Any) -> None:
    """Its own batch, flattened features, has joins without marks and no memory."""
    code, found, _ = run(
        rnncheck, "--select", "RP501", "--select", "GR803", SCRIPTS / "core_outside.py"
    )
    assert (code, failed(found)) == (ExitCode.VERIFIED, [])
    assert not any("not judged" in notice for notice in found["notices"])


def test_watching_changes_no_number(tmp_path: Path) -> None:
    """The script's own prints, every digit of its losses, go where they went."""
    args = [str(SCRIPTS / PPO), "--total-frames", "384", "--frames-per-batch", "128"]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}

    def told(*command: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, *command], env=env, cwd=tmp_path, capture_output=True, text=True
        )
        return [line for line in done.stdout.splitlines() if line.startswith("batch ")]

    alone = told(*args)
    watched = told("-m", "rnncheck", "run", "--keep-going", "--select", "WR103", *args)
    assert len(alone) == 3
    assert watched == alone


def test_a_script_that_raises_is_judged_as_far_as_it_came(rnncheck: Any, tmp_path: Path) -> None:
    """The collector itself raises without InitTracker; policy and env were seen by then."""
    path = source(tmp_path, PPO, ("            InitTracker(),\n", ""))
    ended, found, _ = run(rnncheck, "--select", "WR", path)
    assert (ended, failed(found)[:1]) == (ExitCode.FAILED, ["WR102"])
    (train,) = [one for one in found["stages"] if one["stage"] == "train"]
    assert train["outcome"] == "error"
    assert "is_init" in train["detail"]
    absent = {one["detail"] for one in found["stages"] if one["outcome"] == "not-applicable"}
    assert absent == {"not run: the script raised"}


NOTHING = """
import torch
from tensordict import TensorDict
from torchrl.modules import GRUModule

memory = GRUModule(input_size=3, hidden_size=2, in_key="seen", out_key="features")
optim = torch.optim.SGD(memory.parameters(), 0.1)
for _ in range(4):
    td = memory(TensorDict(seen=torch.ones(3), is_init=torch.ones(1, dtype=torch.bool)))
    td["features"].sum().backward()
    optim.step()
"""
NOT_MENDED = """
def helper():
    raise ValueError("no such file")


helper()
"""


def test_a_script_in_which_nobody_acts_says_once_what_was_seen(
    rnncheck: Any, tmp_path: Path
) -> None:
    path = tmp_path / "nothing.py"
    path.write_text(NOTHING)
    ended, found, done = run(rnncheck, "--report", f"console={tmp_path / 'told.txt'}", path)
    assert (ended, found["verdict"]) == (ExitCode.NOT_SHOWN, "nothing-verified")
    (notice,) = found["notices"]
    assert notice.startswith("no collector, no env.rollout with a policy and no env.step")
    keys = "seen, recurrent_state, is_init -> features, next.recurrent_state"
    seen = f"4 calls of GRUModule (step: {keys})"
    assert notice.endswith(f"{seen}, 0 env steps, 4 calls of backward, 4 optimiser steps were")
    said = " ".join((tmp_path / "told.txt").read_text().split())
    assert said.count("nobody was seen to act") == 3  # checks, guarantees not shown, not asked
    assert "all 64 checks: nobody was seen to act" in said
    assert (
        f"next: let a collector, env.rollout or a loop over env.step act, then rnncheck run {path}"
        in said
    )
    assert "the spec" not in said + done.stderr


UNROLLED = """
import torch
from tensordict.nn import TensorDictModule as Mod, TensorDictSequential as Seq
from torch.distributions import Categorical
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor

torch.manual_seed(0)
memory = GRUModule(input_size=4, hidden_size=8, in_key="observation", out_key="features")
net = Seq(memory, Mod(torch.nn.Linear(8, 2), in_keys=["features"], out_keys=["logits"]))
actor = ProbabilisticActor(
    net, in_keys=["logits"], distribution_class=Categorical, return_log_prob=True
)
envs = SerialEnv(2, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True))
env = TransformedEnv(envs, Compose(InitTracker(), memory.make_tensordict_primer()))
optim = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(8):
    td, chosen = env.reset(), []
    for _ in range(32):
        step, td = env.step_and_maybe_reset(actor(td))
        chosen.append(step["action_log_prob"] * step["next", "reward"].squeeze(-1))
    optim.zero_grad()
    (-torch.stack(chosen).mean()).backward()
    optim.step()
"""


def test_a_loss_of_what_acting_gave_is_not_shown(rnncheck: Any, tmp_path: Path) -> None:
    path = tmp_path / "unrolled.py"
    path.write_text(UNROLLED)
    ended, found, _ = run(rnncheck, "--select", "CL40", "--select", "LS", path)
    assert (ended, failed(found)) == (ExitCode.NOT_SHOWN, [])
    (learning,) = [one for one in found["guarantees"] if one["name"] == "learning"]
    assert learning["standing"] == "not-shown"
    assert "no batch that its loss is made of was seen" in learning["because"]
    assert "the script was ended after 3 optimiser steps (`--updates`)" in found["notices"]


def test_a_script_that_raises_at_once_shows_its_line(rnncheck: Any, tmp_path: Path) -> None:
    path = tmp_path / "raises.py"
    path.write_text(NOT_MENDED)
    ended, found, _ = run(rnncheck, "--report", f"console={tmp_path / 'told.txt'}", path)
    assert (ended, found["verdict"]) == (ExitCode.INTERNAL, "error")
    assert {check["reason"] for check in found["checks"]} == {"not run: the script raised"}
    assert {one["because"] for one in found["guarantees"]} == {"not run: the script raised"}
    said = (tmp_path / "told.txt").read_text()
    assert 'raise ValueError("no such file")' in said
    assert "at         " in said
    assert "the spec" not in said


def test_a_module_runs_with_its_own_name_and_arguments(rnncheck: Any, tmp_path: Path) -> None:
    package = tmp_path / "training"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import sys\nfrom . import rest\nprint(__name__, __package__, sys.argv[1:])\nsys.exit(3)\n"
    )
    (package / "rest.py").write_text("")
    done = rnncheck("run", "-m", "training", "-m", "3", cwd=tmp_path)
    assert "__main__ training ['-m', '3']" in done.stdout
    assert done.returncode == ExitCode.INTERNAL
    assert "exit code 3" in done.stderr
