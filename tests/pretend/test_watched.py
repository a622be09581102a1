"""Scripts whose networks lie on an accelerator get the verdicts that they get on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.extent import rows
from tests.pretend.device import COMPILER, NAME, build
from tests.watching import arrays_script, flat_script
from tests.watching.latent_script import LATENT
from tests.watching.scripts import SCRIPTS, failed, run

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

ROOT = Path(__file__).parents[2]
HEAD = """
import sys
from pathlib import Path

sys.path.insert(0, {root!r})
from tests.pretend.device import load

load(Path({library!r}))
DEV = "{name}:0"
"""
Changes = dict[str, str]
# What people write to train on a GPU, by script.
THERE: dict[str, Changes] = {
    "plain_single": {
        "torch.as_tensor(env.reset(seed=2)[0])": "torch.as_tensor(env.reset(seed=2)[0]).to(DEV)",
        "torch.as_tensor(seen)": "torch.as_tensor(seen).to(DEV)",
        "torch.tensor([reward])": "torch.tensor([reward], device=DEV)",
        "torch.tensor([over])": "torch.tensor([over], device=DEV)",
        "torch.zeros(1)": "torch.zeros(1, device=DEV)",
        "Recurrent()\n": "Recurrent().to(DEV)\n",
        "torch.zeros(1, HIDDEN)": "torch.zeros(1, HIDDEN, device=DEV)",
        "torch.tensor([True])": "torch.tensor([True], device=DEV)",
    },
    "plain_vector": {
        "action.numpy()": "action.cpu().numpy()",
        "torch.Tensor(envs.reset(seed=5)[0])": "torch.Tensor(envs.reset(seed=5)[0]).to(DEV)",
        "torch.Tensor(seen)": "torch.Tensor(seen).to(DEV)",
        "torch.Tensor(np.logical_or(terminated, truncated))": (
            "torch.Tensor(np.logical_or(terminated, truncated)).to(DEV)"
        ),
        "single_action_space.n)\n": "single_action_space.n).to(DEV)\n",
        ".shape))\n    actions": ".shape)).to(DEV)\n    actions",
        "torch.zeros((STEPS, ENVS))": "torch.zeros((STEPS, ENVS)).to(DEV)",
        "torch.zeros(ENVS)": "torch.zeros(ENVS).to(DEV)",
        "torch.zeros(1, ENVS, HIDDEN)": "torch.zeros(1, ENVS, HIDDEN).to(DEV)",
        "torch.tensor(reward).view(-1)": "torch.tensor(reward).to(DEV).view(-1)",
    },
    "own_actor_critic": {
        'GymEnv("CartPole-v1", ': 'GymEnv("CartPole-v1", device=DEV, ',
        "hidden_size=24,": "hidden_size=24, device=DEV,",
        "nn.Linear(24, 3)": "nn.Linear(24, 3, device=DEV)",
        "torch.zeros(reward.shape[:-1])": "torch.zeros(reward.shape[:-1], device=DEV)",
    },
    "padded_switch": {  # the collector's batches stay on the CPU
        "memory = Memory(12)": "memory = Memory(12).to(DEV)",
        "categorical_action_encoding=True": "categorical_action_encoding=True, device=DEV",
        "    for data in collector:\n": "    for data in collector:\n        data = data.to(DEV)\n",
    },
    "dqn_cartpole": {
        'GymEnv("CartPole-v1")': 'GymEnv("CartPole-v1", device=DEV)',
        "hidden_size=24,": "hidden_size=24, device=DEV,",
        "num_cells=[32])": "num_cells=[32], device=DEV)",
        "eps_init=0.2))": "eps_init=0.2)).to(DEV)",
        "sample = buffer.sample()": "sample = buffer.sample().to(DEV)",
    },
    "ppo_cartpole": {
        'gym.make("CartPole-v1"))': 'gym.make("CartPole-v1")), device=DEV',
        "hidden_size=HIDDEN,": "hidden_size=HIDDEN, device=DEV,",
        "nn.Linear(HIDDEN, 2)": "nn.Linear(HIDDEN, 2, device=DEV)",
        "nn.Linear(HIDDEN, 1)": "nn.Linear(HIDDEN, 1, device=DEV)",
    },
}
DEAR = THERE.keys() - {"plain_single"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("device"))


def moved(folder: Path, library: Path, name: str, *faults: tuple[str, str], more: str = "") -> Path:
    """The script on the pretended device; ``more`` are lines ahead of its own."""
    text = (SCRIPTS / f"{name}.py").read_text()
    for old, new in (*THERE[name].items(), *faults):
        assert old in text, f"{name} has no {old!r} any more"
        text = text.replace(old, new)
    docstring, quotes, rest = text[3:].partition('"""')
    head = HEAD.format(root=str(ROOT), library=str(library), name=NAME)
    path = folder / f"{name}.py"
    path.write_text(f'"""{docstring}{quotes}\n{head}{more}{rest}')
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", rows(THERE, DEAR))
def test_a_script_on_an_accelerator_is_verified(
    name: str, rnncheck: Any, tmp_path: Path, library: Path
) -> None:
    code, told, done = run(rnncheck, moved(tmp_path, library, name))
    looked = {one["code"]: one["reason"] for one in told["checks"] if "could" in one["outcome"]}
    assert (code, failed(told), looked) == (0, [], {}), done.stderr
    assert told["environment"]["device"] == f"{NAME}:0"
    shown = {one["name"] for one in told["guarantees"] if one["standing"] == "shown"}
    assert {"memory", "agreement", "isolation", "targets", "learning", "precision"} <= shown


DEFAULT = "import torch\n\ntorch.set_default_device(DEV)\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", THERE)
def test_one_that_makes_it_the_default_device_is_verified(
    name: str, rnncheck: Any, tmp_path: Path, library: Path
) -> None:
    code, told, done = run(rnncheck, moved(tmp_path, library, name, more=DEFAULT))
    looked = {one["code"]: one["reason"] for one in told["checks"] if "could" in one["outcome"]}
    assert (code, failed(told), looked) == (0, [], {}), done.stderr
    assert told["environment"]["device"] == f"{NAME}:0"


# Plain loops that name no device: what they make is on the default one, as is what they get back.
THERE_TOO = {
    "torch.from_numpy(": "torch.as_tensor(",
    ".numpy()": ".cpu().numpy()",
    "action_encoding=True": "action_encoding=True, device=DEV",
}
NAMELESS = {"arrays": arrays_script.HEALTHY, "acting": flat_script.GRAPHED}


@pytest.mark.parametrize("name", rows(NAMELESS, NAMELESS))
def test_so_is_one_that_names_no_device(
    name: str, rnncheck: Any, tmp_path: Path, library: Path
) -> None:
    code, told, done = run(rnncheck, on_the_default(tmp_path, library, name, NAMELESS[name]))
    assert (code, failed(told)) == (0, []), done.stderr
    assert told["environment"]["device"] == f"{NAME}:0"


def on_the_default(folder: Path, library: Path, name: str, text: str) -> Path:
    """A script that names no device, with this one as the default."""
    head = HEAD.format(root=str(ROOT), library=str(library), name=NAME)
    for old, new in THERE_TOO.items():
        text = text.replace(old, new)
    path = folder / f"{name}.py"
    path.write_text(head + DEFAULT + text)
    return path


@pytest.mark.slow
def test_random_numbers_that_it_draws_are_not_those_of_the_cpu(
    rnncheck: Any, tmp_path: Path, library: Path
) -> None:
    """Part of the state is drawn, and a loss that draws cannot be asked by its value."""
    path = on_the_default(tmp_path, library, "latent", LATENT)
    _, told, done = run(rnncheck, "--select", "PR902,LS704", path)
    outcomes = {one["code"]: one["outcome"] for one in told["checks"]}
    assert failed(told) == [], done.stderr
    assert (outcomes["PR902"], outcomes["LS704"]) == ("passed", "could-not-look")


KEPT = "h = torch.where(start.view(-1, 1), torch.zeros_like(h), h)"
FAULTS = {
    "own_actor_critic": (("GAMMA * after * (~done[..., step])", "GAMMA * after"), "LS701"),
    "plain_single": ((KEPT, "pass"), "BD301"),
}


@pytest.mark.parametrize("name", rows(FAULTS, DEAR))
def test_a_fault_is_named_there_as_well(
    name: str, rnncheck: Any, tmp_path: Path, library: Path
) -> None:
    fault, code = FAULTS[name]
    path = moved(tmp_path, library, name, fault)
    given, told, _ = run(rnncheck, "--select", code, path)
    assert given == 1
    assert failed(told) == [code]
