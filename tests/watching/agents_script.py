"""A loss that unrolls the cells of several agents by itself over what a collector took; all that is
an agent's has nested keys."""

from __future__ import annotations

from tests.watching.scripts import SCRIPTS

_TEAM = (SCRIPTS / "team_ppo.py").read_text()
AGENTS = (
    _TEAM[: _TEAM.index("\n\nclass Shared(")].replace(
        "from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential\n",
        "from tensordict.nn import (\n"
        "    ProbabilisticTensorDictModule,\n"
        "    ProbabilisticTensorDictSequential,\n"
        "    TensorDictModule,\n"
        ")\n",
    )
    + """

class Core(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(SEEN, HIDDEN)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h, start):
        h = torch.where(start.unsqueeze(-1), torch.zeros_like(h), h)
        h = self.cell(x.reshape(-1, SEEN), h.reshape(-1, HIDDEN)).view_as(h)
        return self.pi(h), self.v(h), h


def make_env():
    primer = TensorDictPrimer({("agents", "h"): Unbounded((AGENTS, HIDDEN))}, expand_specs=True)
    return TransformedEnv(Meadow(), Compose(InitTracker(), StepCounter(max_steps=14), primer))


torch.manual_seed(6)
core, env = Core(), SerialEnv(4, make_env)
env.set_seed(6)
policy = ProbabilisticTensorDictSequential(
    TensorDictModule(
        core,
        in_keys=[("agents", "observation"), ("agents", "h"), "is_init"],
        out_keys=[("agents", "logits"), ("agents", "state_value"), ("next", "agents", "h")],
    ),
    ProbabilisticTensorDictModule(
        in_keys={"logits": ("agents", "logits")},
        out_keys=[("agents", "action")],
        distribution_class=Choice,
        default_interaction_type="random",
    ),
)
optim = torch.optim.Adam(core.parameters(), 1e-3)


def unroll(data):
    h, logits, values = data["agents", "h"][:, 0], [], []
    for t in range(data.shape[1]):
        step = data[:, t]
        out, value, h = core(step["agents", "observation"], h, step["is_init"])
        logits.append(out)
        values.append(value)
    return torch.stack(logits, 1), torch.stack(values, 1)


def loss_of(data):
    logits, values = unroll(data)
    reward, done = data["next", "agents", "reward"], data["next", "done"].unsqueeze(-1)
    togo, after = torch.zeros_like(reward), 0.0
    for t in reversed(range(reward.shape[1])):
        after = reward[:, t] + 0.9 * after * (~done[:, t])
        togo[:, t] = after
    gain = togo - values
    chosen = Choice(logits=logits).log_prob(data["agents", "action"]).unsqueeze(-1)
    return gain.pow(2).mean() - (chosen * gain.detach()).mean()


for data in Collector(env, policy, frames_per_batch=96, total_frames=960):
    loss = loss_of(data)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
FROM_ZERO = (
    'h, logits, values = data["agents", "h"][:, 0]',
    "h, logits, values = torch.zeros(len(data), AGENTS, HIDDEN)",
)
DROPPED = ('core(step["agents", "observation"], h,', 'core(step["agents", "observation"], 0 * h,')
NO_RESETS = ('h, step["is_init"])', 'h, torch.zeros_like(step["is_init"]))')
OTHER_AGENTS = (
    'data["agents", "h"][:, 0], [], []',
    'data["agents", "h"][:, 0].roll(1, 1), [], []',
)

# The sums are made ahead of the loss, for each agent.
_SUMS = """    reward, done = data["next", "agents", "reward"], data["next", "done"].unsqueeze(-1)
    togo, after = torch.zeros_like(reward), 0.0
    for t in reversed(range(reward.shape[1])):
        after = reward[:, t] + 0.9 * after * (~done[:, t])
        togo[:, t] = after
"""
SUMS_AHEAD = (
    AGENTS.replace(
        _SUMS,
        """    togo = data["agents", "togo"]
""",
    )
    .replace(
        "def loss_of(data):",
        f"""def summed(data):
{_SUMS}    data["agents", "togo"] = togo


def loss_of(data):""",
    )
    .replace("    loss = loss_of(data)", "    summed(data)\n    loss = loss_of(data)")
)
SUMS_OF_OTHERS = ('data["agents", "togo"] = togo', 'data["agents", "togo"] = togo.flip(2)')
# Every agent is paid what all of them were: no order of theirs tells.
SUMS_OF_ALL = (
    'data["agents", "togo"] = togo',
    'data["agents", "togo"] = togo.mean(2, keepdim=True).expand_as(togo).clone()',
)
BOOTSTRAPPED = (
    "    togo, after = torch.zeros_like(reward), 0.0\n",
    """    last = data[:, -1]["next"]
    with torch.no_grad():
        begins = torch.zeros_like(data["is_init"][:, -1])
        _, after, _ = core(last["agents", "observation"], last["agents", "h"], begins)
    togo = torch.zeros_like(reward)
""",
)
# One number for each agent, without a last dimension of one.
WITHOUT_LAST = (
    ('data["agents", "togo"] = togo', 'data["agents", "togo"] = togo.squeeze(-1)'),
    ('togo = data["agents", "togo"]\n', 'togo = data["agents", "togo"].unsqueeze(-1)\n'),
)
WITHOUT_LAST_OF_OTHERS = ("togo.squeeze(-1)", "togo.squeeze(-1).roll(1, -1)")
VALUED_BY_OTHERS = ("    gain = togo - values", "    gain = togo.flip(2) - values")
CHOSEN_FOR_OTHERS = ("(chosen * gain.detach())", "(chosen * gain.roll(1, 2).detach())")
PAID_TO_THE_FIRST = (
    'reward, done = data["next", "agents", "reward"],',
    'reward, done = data["next", "agents", "reward"][:, :, :1].expand(-1, -1, AGENTS, -1),',
)
