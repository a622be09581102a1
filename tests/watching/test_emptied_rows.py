"""``rnncheck run``: loops that step all envs until the last episode has ended, and fill what is
behind the others' ends with zeros."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import EnvBase, InitTracker, TransformedEnv
from torchrl.envs.utils import step_mdp
from torchrl.modules import GRUModule, ProbabilisticActor, set_recurrent_mode
from torchrl.modules.utils import get_primers_from_module

ENVS, LONGEST, HIDDEN = 8, 12, 10


class Words(EnvBase):
    def __init__(self):
        super().__init__(batch_size=[ENVS])
        self.observation_spec = Composite(
            observation=Categorical(5, (ENVS,), dtype=torch.int64), shape=[ENVS]
        )
        self.action_spec = Categorical(5, (ENVS,), dtype=torch.int64)
        self.reward_spec = Unbounded((ENVS, 1))
        self.length = 0

    def _reset(self, td=None):
        self.length = 0
        return TensorDict({"observation": torch.zeros(ENVS, dtype=torch.int64)}, [ENVS])

    def _step(self, td):
        self.length += 1
        action = td["action"]
        done = (action == 1).unsqueeze(-1)
        over = torch.full_like(done, self.length == LONGEST)
        flags = {"terminated": done, "truncated": over & ~done, "done": done | over}
        reward = (action == 2).float().unsqueeze(-1)
        return TensorDict({"observation": action.clone(), "reward": reward, **flags}, [ENVS])

    def _set_seed(self, seed):
        torch.manual_seed(seed)


def rollout(env, policy):
    td, found = env.reset(), []
    td["mask"] = torch.ones(ENVS, 1, dtype=torch.bool)
    td["truncated"] = torch.zeros(ENVS, 1, dtype=torch.bool)
    finished = torch.zeros(ENVS, dtype=torch.bool)
    while not finished.all():
        policy(td)
        td = env.step(td)
        td["next", "mask"] = td["mask"].clone()
        if finished.any():
            td.masked_fill_(finished, 0)
        found.append(td.clone())
        finished = finished | td["next", "done"].squeeze(-1)
        td = step_mdp(td, keep_other=True, exclude_action=True, exclude_reward=True)
    return torch.stack(found, -1).contiguous()


torch.manual_seed(0)
gru = GRUModule(input_size=6, hidden_size=HIDDEN, in_keys=["e", "h"], out_keys=["x", ("next", "h")])
actor = ProbabilisticActor(
    TensorDictSequential(
        TensorDictModule(nn.Embedding(5, 6), ["observation"], ["e"]),
        gru,
        TensorDictModule(nn.Linear(HIDDEN, 5), ["x"], ["logits"]),
    ),
    in_keys=["logits"],
    distribution_class=torch.distributions.Categorical,
    return_log_prob=True,
)
env = TransformedEnv(Words(), InitTracker())
env.append_transform(get_primers_from_module(actor))
optim = torch.optim.Adam(actor.parameters(), lr=1e-3)
for _ in range(6):
    data = rollout(env, actor)
    rewards, mask = data["next", "reward"].squeeze(-1), data["mask"].squeeze(-1)
    returns = rewards.flip(1).cumsum(1).flip(1)

    def loss_of(data, returns, mask):
        with set_recurrent_mode(True):
            log_prob = actor.get_dist(data).log_prob(data["action"])
        return -(log_prob * returns * mask).sum() / mask.sum()

    loss = loss_of(data, returns, mask)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
DROPPED = (
    "        policy(td)\n",
    '        td["h"] = torch.zeros_like(td["h"])\n        policy(td)\n',
)
ASKED = "CL401,CL402,CL403,CL406,RP502,RP504"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="healthy"),
        pytest.param((DROPPED,), ExitCode.FAILED, id="the state is dropped"),
    ],
)
def test_what_is_behind_the_ends_is_padding(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    """What a loop fills with zeros behind a step is none of what the step gave."""
    found = judged(rnncheck, tmp_path, ASKED, SCRIPT, *changes)
    assert found == expected if changes == () else found[0] == expected and "CL401" in found[1]
