"""``rnncheck run``: a memory of episodes that also keeps what the function that acts said of its
action."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.memory_script import DRQN
from tests.watching.scripts import judged

ACT = """def act(net, obs, state):
    with torch.no_grad():
        q, state = net(torch.as_tensor(obs).view(1, 1, -1), state)
    choice = torch.distributions.Categorical(logits=q[0, 0])
    action = choice.sample()
    return action.item(), choice.log_prob(action).item(), state


def main():
"""
WEIGHED = (
    ("def main():\n", ACT),
    (
        "            with torch.no_grad():\n"
        "                q, state = net(torch.as_tensor(obs).view(1, 1, -1), state)\n"
        "            action = random.randrange(2) if random.random() < 0.5 else int(q.argmax())\n",
        "            action, said, state = act(net, obs, state)\n",
    ),
    ("after, float(terminated)))", "after, float(terminated), said))"),
    ("for k in range(5)]", "for k in range(6)]"),
    (
        "seen, actions, rewards, following, over = map",
        "seen, actions, rewards, following, over, said = map",
    ),
    ("over.float()\n", "over.float(), said.float()\n"),
    ("following, ended = sample", "following, ended, said = sample"),
    (
        "        loss = F.mse_loss(chosen, goal)\n",
        "        now = torch.log_softmax(q, -1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)\n"
        "        ratio = (now - said).exp().detach().clamp(max=2.0)\n"
        "        loss = (ratio * (chosen - goal).square()).mean()\n",
    ),
)
# Of the step before.
LATE = (
    "            action, said, state = act(net, obs, state)\n",
    "            before = said if episode else 0.0\n"
    "            action, said, state = act(net, obs, state)\n",
)
KEPT_LATE = ("float(terminated), said))", "float(terminated), before))")
CODES = "RP5,LS7,VL6,EQ201"


def test_it_is_known(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, CODES, DRQN, *WEIGHED)
    assert found == (ExitCode.VERIFIED, [])


def test_that_of_another_step_is_not_taken_for_it(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, CODES, DRQN, *WEIGHED, LATE, KEPT_LATE)
    assert found == (ExitCode.NOT_SHOWN, [])
