"""``rnncheck run --spec FILE``: the spec of a script is judged as the script was, and says what it
lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from rnncheck.results.exit_codes import ExitCode
from rnncheck.roles import policy_module
from rnncheck.spec.load import load_spec
from tests.watching.scripts import failed, planted, run
from tests.watching.test_run import WARNED

# What their specs are said to lack, and to be verified without.
LACKS = {
    "ppo_cartpole.py": set[str](),
    "dqn_cartpole.py": {"loss"},
    "sac_rollouts.py": {"loss"},
    "team_ppo.py": {"advantage", "loss"},
    "core_outside.py": {"advantage", "loss"},
}
# The network is made by a function, around another one that has no name.
MAKES = (
    ("def main():\n    torch.manual_seed(3)\n", "def make_network(hidden):\n"),
    ("hidden_size=24", "hidden_size=hidden"),
    (
        "    network = TensorDictSequential(memory, heads, split)\n",
        "    return TensorDictSequential(memory, heads, split)\n\n\n"
        "def main():\n    torch.manual_seed(3)\n"
        "    network = make_network(24)\n    memory = network[0]\n",
    ),
    ("\n\nmain()\n", "\n\nif __name__ == '__main__':\n    main()\n"),
)


def lacking(text: str) -> set[str]:
    """The sections that a spec has a TODO for."""
    lines = (line for line in text.splitlines() if line.startswith("# TODO"))
    return {line.removeprefix("# TODO ").partition(":")[0] for line in lines}


def test_the_spec_says_what_the_script_made(rnncheck: Any, tmp_path: Path) -> None:
    script, file = planted(tmp_path, "ppo_cartpole.py"), tmp_path / "seen.yaml"
    code, told, _ = run(rnncheck, "--spec", file, "--select", "WR101", script, cwd=tmp_path)
    assert code == ExitCode.VERIFIED
    assert any("seen.yaml" in one for one in told["notices"])
    spec = load_spec(file)
    assert (spec.env.factory, spec.env.workers) == ("ppo_cartpole:make_env", 4)
    assert [one.use for one in spec.policy.modules] == [
        "LSTMModule",
        "Linear",
        "ProbabilisticActor",
    ]
    assert spec.critic is not None and spec.collect is not None
    assert spec.critic.modules[0].factory == "rnncheck.roles:policy_module"
    assert spec.collect.args == {"frames_per_batch": 256, "batches": 2}
    assert spec.advantage is not None and spec.advantage.args["lmbda"] == 0.95
    assert spec.loss is not None
    assert spec.loss.args == {"clip_epsilon": 0.2, "entropy_coeff": 0.01}
    text = file.read_text()
    assert text.startswith("# yaml-language-server: $schema=.rnncheck/spec.schema.json\n")
    assert (tmp_path / ".rnncheck" / "spec.schema.json").is_file()
    assert lacking(text) == set()


def test_a_file_that_exists_is_kept(rnncheck: Any, tmp_path: Path) -> None:
    file = tmp_path / "seen.yaml"
    file.write_text("mine")
    done = rnncheck("run", "--spec", str(file), str(planted(tmp_path, "ppo_cartpole.py")))
    assert done.returncode == ExitCode.USAGE
    assert "exists already" in done.stderr and "--force" in done.stderr
    assert file.read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize("name", LACKS)
def test_the_spec_is_judged_as_the_script_was(rnncheck: Any, tmp_path: Path, name: str) -> None:
    script, file = planted(tmp_path, name), tmp_path / "seen.yaml"
    code, told, _ = run(rnncheck, "--spec", file, script, cwd=tmp_path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, WARNED.get(name, []))
    assert lacking(file.read_text()) == LACKS[name]
    again = rnncheck("verify", str(file), cwd=tmp_path)
    assert again.returncode == ExitCode.VERIFIED, again.stdout + again.stderr
    assert "not checked" in again.stdout
    assert ("loss" in again.stdout.partition("not checked, since")[2].partition("\n")[0]) == (
        "loss" in LACKS[name]
    )


@pytest.mark.slow
def test_a_fault_of_the_script_is_one_of_its_spec(rnncheck: Any, tmp_path: Path) -> None:
    script = planted(tmp_path, "ppo_cartpole.py", ("            InitTracker(),\n", ""))
    file = tmp_path / "seen.yaml"
    code, told, _ = run(rnncheck, "--spec", file, script, cwd=tmp_path)
    assert code == ExitCode.FAILED and "WR102" in failed(told)
    again = rnncheck("verify", str(file), cwd=tmp_path)
    assert again.returncode == ExitCode.FAILED and "WR102" in again.stdout


@pytest.mark.slow
def test_batches_that_the_script_makes_are_not_taken_for_those_it_collects(
    rnncheck: Any, tmp_path: Path
) -> None:
    old = "losses = loss_module(data[rows])"
    new = "losses = loss_module(data[rows][:, torch.randperm(data.shape[1])])"
    file = tmp_path / "seen.yaml"
    script = planted(tmp_path, "ppo_cartpole.py", (old, new))
    run(rnncheck, "--spec", file, "--select", "WR101", script, cwd=tmp_path)
    assert lacking(file.read_text()) == {"loss"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "lacks", "why"),
    [
        ("q_rollouts.py", {"replay", "loss"}, "it samples [4, 60]"),
        ("team_ppo.py", {"advantage", "loss"}, "the script writes next.agents.done"),
        ("own_actor_critic.py", {"policy", "loss"}, "a TensorDictModule around a function"),
    ],
)
def test_what_a_spec_cannot_say_is_said(
    rnncheck: Any, tmp_path: Path, name: str, lacks: set[str], why: str
) -> None:
    file = tmp_path / "seen.yaml"
    _, told, _ = run(
        rnncheck, "--spec", file, "--select", "WR101", planted(tmp_path, name), cwd=tmp_path
    )
    text = file.read_text()
    assert lacking(text) == lacks
    assert why in text
    notices = " ".join(told["notices"])
    assert all(f"by hand: {one}:" in notices for one in lacks)
    load_spec(file)


def test_a_part_of_the_policy_is_found_by_what_it_writes() -> None:
    first = TensorDictModule(nn.Linear(2, 3), in_keys=["observation"], out_keys=[("a", "embed")])
    second = TensorDictModule(nn.Linear(3, 1), in_keys=[("a", "embed")], out_keys=["logits"])
    policy = TensorDictSequential(TensorDictSequential(first), second)
    assert policy_module(policy, [["a", "embed"]]) is first
    assert policy_module(policy, ["logits"]) is second
    with pytest.raises(ValueError, match="no part of the policy writes"):
        policy_module(policy, ["hidden"])


@pytest.mark.slow
def test_a_function_that_made_what_has_no_name_is_named(rnncheck: Any, tmp_path: Path) -> None:
    script, file = planted(tmp_path, "own_actor_critic.py", *MAKES), tmp_path / "seen.yaml"
    code, told, _ = run(rnncheck, "--spec", file, script, cwd=tmp_path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert lacking(file.read_text()) == {"loss"}
    spec = load_spec(file)
    first, *rest = spec.policy.modules
    assert (first.factory, first.args) == ("own_actor_critic:make_network", {"hidden": 24})
    assert [one.use for one in rest] == ["ProbabilisticActor"]
    again = rnncheck("verify", str(file), cwd=tmp_path)
    assert again.returncode == ExitCode.VERIFIED, again.stdout + again.stderr


@pytest.mark.slow
def test_a_fault_of_an_own_class_is_one_of_the_spec(rnncheck: Any, tmp_path: Path) -> None:
    runs_on = ("state = torch.where(begins, stored[..., t, :, :], state)", "pass")
    script, file = planted(tmp_path, "team_ppo.py", runs_on), tmp_path / "seen.yaml"
    _, told, _ = run(rnncheck, "--spec", file, "--select", "BD301", script, cwd=tmp_path)
    spec = load_spec(file)
    assert spec.policy.modules[0].factory == "team_ppo:TeamGRU"
    assert spec.critic is not None and spec.critic.modules[0].factory == "team_ppo:Shared"
    again = rnncheck("verify", "--select", "BD301", str(file), cwd=tmp_path)
    assert failed(told) == ["BD301"]
    assert again.returncode == ExitCode.FAILED and "BD301" in again.stdout
