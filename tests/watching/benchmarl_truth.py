"""BenchMARL in an environment of its own, and what it does with a memory, measured on its own
objects without rnncheck.

    python tests/watching/benchmarl_truth.py mappo gru 20 FOLDER   # in that environment
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

# BenchMARL 1.5.2 asks for TorchRL below 0.12; it runs with 0.12.0, the oldest that rnncheck knows.
# With 0.14 it cannot be imported: it takes SyncDataCollector, which 0.13 has no more.
TORCHRL = "0.12.0"
PACKAGES = (
    *("benchmarl==1.5.2", "vmas==1.5.2", "hydra-core==1.3.8", "omegaconf==2.4.0"),
    *("antlr4-python3-runtime==4.9.3", "tqdm==4.70.1", "PyYAML==6.0.3", "six==1.17.0"),
    *("gym==0.26.2", "gym-notices==0.0.8", "pyglet==1.5.27"),
)
TASK = "vmas/balance"
ROWS = 50  # steps of each of 4 envs in a batch
SMALL = (
    "experiment.max_n_frames=100000",
    f"experiment.on_policy_collected_frames_per_batch={4 * ROWS}",
    "experiment.on_policy_n_envs_per_worker=4",
    "experiment.on_policy_n_minibatch_iters=1",
    f"experiment.on_policy_minibatch_size={2 * ROWS}",
    f"experiment.off_policy_collected_frames_per_batch={4 * ROWS}",
    "experiment.off_policy_n_envs_per_worker=4",
    "experiment.off_policy_n_optimizer_steps=3",
    f"experiment.off_policy_train_batch_size={2 * ROWS}",
    "experiment.off_policy_memory_size=4000",
    "experiment.evaluation=False",
    "experiment.render=False",
    "experiment.loggers=[]",
    "experiment.create_json=False",
)
GROUP = "agents"
ACTED = {"mappo": (GROUP, "loc"), "iql": (GROUP, "action_value")}
NEXT = ("next", GROUP, "observation")


def arguments(algorithm: str, model: str, episode: int) -> list[str]:
    """What ``benchmarl.run`` is given."""
    chosen = [f"algorithm={algorithm}", f"task={TASK}", f"model=layers/{model}"]
    return [*chosen, *SMALL, f"task.max_steps={episode}"]


def measured(algorithm: str, model: str, episode: int, folder: Path) -> dict[str, Any]:
    """By how much the pass over a row differs from what was acted on before and behind the row's
    first reset, and by how much a change before an end moves the targets behind it."""
    experiment = _experiment(arguments(algorithm, model, episode), folder)
    batches = iter(experiment.collector)
    data = [next(batches).clone() for _ in range(2)]
    found = [_differences(experiment, one, ACTED[algorithm]) for one in data]
    before, behind = (max(one) for one in zip(*found, strict=True))
    inside, across = _moved(experiment, algorithm, data[0])
    return {
        "stored": [str(k) for k in data[0].keys(True, True) if "hidden" in str(k)],
        "before": before,
        "behind": behind,
        "inside": inside,
        "across": across,
    }


def _experiment(asked: list[str], folder: Path) -> Any:
    from benchmarl.hydra_config import load_experiment_from_hydra
    from hydra import compose, initialize_config_module

    with initialize_config_module("benchmarl.conf", version_base=None):
        config = compose("config", [*asked, f"experiment.save_folder={folder}"])
        return load_experiment_from_hydra(config, task_name=TASK)


def _differences(experiment: Any, data: Any, key: tuple[str, str]) -> tuple[float, float]:
    """What the network gives on the row without states, as BenchMARL's losses call it."""
    import torch
    from torchrl.envs.utils import ExplorationType, set_exploration_type

    policy = experiment.algorithm.get_policy_for_loss(GROUP)
    given = data.select("is_init", (GROUP, "observation")).clone()
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        gaps = (policy(given)[key] - data[key]).abs().flatten(2).amax(-1)
    started = data["is_init"].squeeze(-1).cumsum(1) > 0
    return float((gaps * ~started).max()), float((gaps * started).max())


def _moved(experiment: Any, algorithm: str, data: Any) -> tuple[float, float]:
    """Targets of the first row where the next observations up to its first end are changed."""
    data = experiment.algorithm.process_batch(GROUP, data.clone())
    end = int(data["next", "done"][0].flatten().nonzero()[0])
    changed = data.clone()
    changed[NEXT][0, : end + 1] += 1.0
    one, two = (_targets(experiment.losses[GROUP], algorithm, td) for td in (data, changed))
    gaps = (one - two).abs()[0].flatten(1).amax(-1)
    return float(gaps[: end + 1].max()), float(gaps[end + 1 :].max())


def _targets(loss: Any, algorithm: str, data: Any) -> Any:
    import torch

    data, estimator = data.clone(), loss.value_estimator
    with torch.no_grad():
        if algorithm == "iql":
            network = loss.target_value_network_params
            return estimator.value_estimate(data, target_params=network)
        own, target = loss.critic_network_params, loss.target_critic_network_params
        return estimator(data, params=own, target_params=target)[GROUP, "value_target"]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    name, layers, steps, scratch = sys.argv[1:]
    print(json.dumps(measured(name, layers, int(steps), Path(scratch))))
