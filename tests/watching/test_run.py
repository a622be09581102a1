"""``rnncheck run``: scripts as they are, and with a fault planted into them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rnncheck.checks.catalogue import entries
from rnncheck.results.exit_codes import ExitCode
from tests import warm
from tests.small import START
from tests.watching.faults import (
    A2C,
    CORE,
    FAULTS,
    GOES_ON,
    HANDED_ON,
    IN_ANY_ORDER,
    LOOP,
    NOT_HANDED_ON,
    PPO,
    ROWS,
    TEAM,
    Planted,
)
from tests.watching.scripts import SCRIPTS, failed, planted, run, target

ITSELF = """            step, td = env.step_and_maybe_reset(actor(td))
            steps.append(step.clone())
"""
# As ``python SCRIPT ARGS...`` does.
ALONE = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
NAMES = sorted(path.name for path in SCRIPTS.glob("*.py"))
# TorchRL's SAC loss leaves its pass in the batch; a script that samples anew each time is well.
WARNED = {"sac_rollouts.py": ["LS705"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, A2C])
def test_a_healthy_script_is_verified(rnncheck: Any, name: str) -> None:
    code, found, _ = run(rnncheck, *target(SCRIPTS / name))
    assert (code, failed(found)) == (ExitCode.VERIFIED, WARNED.get(name, []))
    assert {one["standing"] for one in found["guarantees"]} == {"shown"}


@pytest.mark.slow
def test_envs_that_show_the_same_at_the_same_time_are_told_apart(
    rnncheck: Any, tmp_path: Path
) -> None:
    path = planted(tmp_path, TEAM, ("    env.set_seed(6)\n", ""))
    code, found, _ = run(rnncheck, path)
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
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_planted_fault_is_named(rnncheck: Any, tmp_path: Path, fault: Planted) -> None:
    path = planted(tmp_path, fault.script, *fault.changes)
    ended, found, _ = run(rnncheck, "--select", fault.code, *target(path), cwd=tmp_path)
    assert failed(found) == [fault.code]
    warns = found["checks"][0]["severity"] == "warning"
    assert ended == (ExitCode.VERIFIED if warns else ExitCode.FAILED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        ('nn.Linear(HIDDEN, 1), ["features"]', 'nn.Linear(4, 1), ["observation"]'),
        ("Compose(InitTracker(), ", "Compose(InitTracker(), StepCounter(max_steps=4), "),
    ],
    ids=["critic-without-memory", "rows-end-with-episodes"],
)
def test_a_last_value_needs_no_state_where_none_is_used(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str]
) -> None:
    counter = ("InitTracker, SerialEnv", "InitTracker, SerialEnv, StepCounter")
    path = planted(tmp_path, CORE, (HANDED_ON, NOT_HANDED_ON), counter, change)
    _, found, _ = run(rnncheck, "--select", "VL604", path)
    assert [one["outcome"] for one in found["checks"]] == ["passed"]


def test_every_script_has_three_faults_and_a_row_in_the_document() -> None:
    """docs/run.md shows the table that the faults are."""
    rows = ["| script | planted fault | named by |", "|---|---|---|"]
    rows += [f"| `{one.script}` | {one.words} | {one.code} |" for one in FAULTS]
    text = (SCRIPTS.parents[1] / "docs" / "run.md").read_text()
    assert "\n".join(rows) in text
    for name in (*NAMES, A2C):
        assert len([one for one in FAULTS if one.script == name]) >= 3, name


def test_a_finding_names_the_line_of_the_script(rnncheck: Any, tmp_path: Path) -> None:
    path = planted(tmp_path, PPO, (ROWS, IN_ANY_ORDER))
    ended, found, _ = run(rnncheck, "--select", "RP502", path, "--frames-per-batch", "128")
    assert ended == ExitCode.FAILED
    (check,) = found["checks"]
    line = path.read_text().splitlines().index("                losses = " + IN_ANY_ORDER) + 1
    source_of = check["findings"][0]["source"]
    assert (source_of["path"], source_of["line"]) == (str(path), line)
    (train,) = [one for one in found["stages"] if one["stage"] == "train"]
    # Those of the first batch: it goes on to the second one, for the env may be played in between.
    assert (train["outcome"], train["detail"]) == ("passed", "ended after 5 optimiser steps")
    assert "the script was ended after 5 optimiser steps (`--updates`)" in found["notices"]


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

    def told(program: str, *more: str) -> list[str]:
        done = warm.run(program, *more, *args, cwd=tmp_path, env=env)
        return [line for line in done.stdout.splitlines() if line.startswith("batch ")]

    alone = told(ALONE)
    watched = told(START, "run", "--keep-going", "--select", "WR103")
    assert len(alone) == 3
    assert watched == alone


def test_a_script_that_raises_is_judged_as_far_as_it_came(rnncheck: Any, tmp_path: Path) -> None:
    """The collector itself raises without InitTracker; policy and env were seen by then."""
    path = planted(tmp_path, PPO, ("            InitTracker(),\n", ""))
    ended, found, _ = run(rnncheck, "--select", "WR", path)
    assert (ended, failed(found)[:1]) == (ExitCode.FAILED, ["WR102"])
    (train,) = [one for one in found["stages"] if one["stage"] == "train"]
    assert train["outcome"] == "error"
    assert "is_init" in train["detail"]
    absent = {one["detail"] for one in found["stages"] if one["outcome"] == "not-applicable"}
    assert absent == {"not run: the script raised"}
    standing = {one["name"]: one["standing"] for one in found["guarantees"]}
    assert standing["data"] == "not-shown"  # WR108 alone says nothing of what was never stored


REFUSED = """
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import {kind}
from torchrl.envs import Compose, GymEnv, InitTracker, TransformedEnv
from torchrl.modules import GRUModule, QValueModule

memory = GRUModule(4, 16, in_key="observation", out_key="feat")


def make_env():
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    return {env}


if __name__ == "__main__":
    head = TensorDictModule(nn.Linear(16, 2), ["feat"], ["action_value"])
    policy = TensorDictSequential(memory, head, QValueModule(action_space="categorical"))
    collector = {kind}(
        create_env_fn=[make_env], policy=policy, frames_per_batch=16, total_frames=64
    )
    optim = torch.optim.Adam(policy.parameters(), 1e-3)
    for data in collector:
        loss = policy(data.reshape(-1))["action_value"].square().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
    collector.shutdown()
"""
WHOLE = (
    "TransformedEnv(env, Compose(InitTracker())).append_transform(memory.make_tensordict_primer())"
)


@pytest.mark.parametrize(
    "kind", ["Collector", pytest.param("MultiSyncCollector", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("env", "found"),
    [
        pytest.param("env", (ExitCode.FAILED, ["WR102", "WR103"]), id="cannot act"),
        pytest.param(WHOLE, (ExitCode.VERIFIED, []), id="acts"),
    ],
)
def test_envs_in_a_list_are_judged_where_the_collector_raises(
    rnncheck: Any,
    tmp_path: Path,
    forked_workers: None,
    kind: str,
    env: str,
    found: tuple[ExitCode, list[str]],
) -> None:
    path = tmp_path / "listed.py"
    path.write_text(REFUSED.format(kind=kind, env=env))
    done = rnncheck("run", "--select", "WR102,WR103", "--report", "json", str(path))
    assert (done.returncode, failed(json.loads(done.stdout))) == found
    # The message of a worker's error quotes the worker's traceback.
    assert kind != "Collector" or "Traceback" not in done.stderr


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
    assert f"all {len(entries())} checks: nobody was seen to act" in said
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
