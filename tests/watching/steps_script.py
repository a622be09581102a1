"""Losses of a script's own: with decorators, with critics that never act, and their optimisers."""

from __future__ import annotations

from tests.watching.estimates_script import HEAD
from tests.watching.next_values_script import OWN

Change = tuple[str, str]

# Which parameters the optimiser has.
_ALL = "torch.optim.Adam([*actor.parameters(), *critic.parameters()], 3e-4)"
WITHOUT_MEMORY: Change = (
    _ALL,
    "torch.optim.Adam([*actor[0][1].parameters(), *critic.parameters()], 3e-4)",
)
FROZEN: Change = (
    _ALL,
    "torch.optim.Adam([*actor[0][1].parameters(), *critic.parameters()], 3e-4)\n"
    "gru.requires_grad_(False)",
)
ADDED_LATER: Change = (
    _ALL,
    "torch.optim.Adam([*actor[0][1].parameters(), *critic.parameters()], 3e-4)\n"
    'optim.add_param_group({"params": list(gru.parameters())})',
)
ANOTHER_ONE: Change = (
    _ALL,
    "torch.optim.Adam([*actor[0][1].parameters(), *critic.parameters()], 3e-4)\n"
    "slower = torch.optim.SGD(gru.parameters(), 1e-3)",
)

# The mode is a decorator's.
_WITH = """    with set_recurrent_mode(True):
        td = batch.select(*KEPT).clone()
        dist = actor.get_dist(td)
"""
_WITHOUT = """    td = batch.select(*KEPT).clone()
    dist = actor.get_dist(td)
"""
_DEF = "def loss_of(batch):\n"
DECORATED: tuple[Change, ...] = ((_WITH, _WITHOUT), (_DEF, f"@set_recurrent_mode(True)\n{_DEF}"))
STEP_BY_STEP: tuple[Change, ...] = (
    (_WITH, _WITHOUT),
    (_DEF, f"@set_recurrent_mode(False)\n{_DEF}"),
)

# A critic with a memory of its own, which only the loss runs.
_JUDGE = """

class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 16), nn.Linear(16, 1)

    def forward(self, observation, begins):
        h, found = torch.zeros(len(observation), 16), []
        for step in range(observation.shape[1]):
            h = torch.where(begins[:, step], torch.zeros(()), h)
            h = self.cell(observation[:, step], h)
            found.append(self.head(h).squeeze(-1))
        return torch.stack(found, 1)


judge = Judge()
"""
JUDGED = (
    HEAD
    + _JUDGE
    + """
optim = torch.optim.Adam([*actor.parameters(), *judge.parameters()], 3e-4)


def loss_of(batch):
    with set_recurrent_mode(True):
        dist = actor.get_dist(batch.select(*KEPT).clone())
    value = judge(batch["observation"], batch["is_init"])
    reward, over = batch["next", "reward"].squeeze(-1), batch["next", "done"].squeeze(-1)
    total, totals = torch.zeros(len(reward)), []
    for step in reversed(range(reward.shape[1])):
        total = reward[:, step] + 0.97 * total * (~over[:, step])
        totals.insert(0, total)
    gain = torch.stack(totals, 1) - value
    return gain.square().mean() - (dist.log_prob(batch["action"]) * gain.detach()).mean()


for data in Collector(env, actor, frames_per_batch=96, total_frames=576):
    loss = loss_of(data)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
_CELL = "h = self.cell(observation[:, step], h)"
CUT: Change = (_CELL, "h = self.cell(observation[:, step], h.detach())")
CUT_SOMETIMES: Change = (
    _CELL,
    "h = self.cell(observation[:, step], h if step % 4 else h.detach())",
)

# A critic of actions that is trained alone.
_GAIN = "    gain = reward + 0.97 * behind * (~over) - guess\n"
_TOTAL = "    return gain.square().mean() - (told * gain.detach()).mean()\n"
OF_ACTIONS = (
    OWN.replace(
        "\noptim = ",
        "\nvalued = nn.Linear(24 + 2, 1)\noptim = ",
    )
    .replace(_ALL, "torch.optim.Adam([*gru.parameters(), *valued.parameters()], 3e-4)")
    .replace(
        _GAIN,
        "    taken = nn.functional.one_hot(batch['action'], 2).float()\n"
        "    guess = valued(torch.cat([td['feat'], taken], -1)).squeeze(-1)\n" + _GAIN,
    )
    .replace(_TOTAL, "    return gain.square().mean()\n")
)
_TAKEN = "nn.functional.one_hot(batch['action'], 2)"
OF_THE_STEP_BEFORE: Change = (_TAKEN, "nn.functional.one_hot(batch['action'].roll(1, 1), 2)")
OF_THE_STEP_BEHIND: Change = (_TAKEN, "nn.functional.one_hot(batch['action'].roll(-1, 1), 2)")
FEW_STEPS: Change = (
    "frames_per_batch=96, total_frames=576",
    "frames_per_batch=32, total_frames=192",
)
# The policy is shown the action of the step before as well.
SHOWN: tuple[Change, ...] = (
    ("import numpy as np\n", "import gymnasium\nimport numpy as np\n"),
    (
        '\ndef make_env():\n    return GymEnv("CartPole-v1", categorical_action_encoding=True)\n',
        """
class Told(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (6,), np.float32)

    def reset(self, **kwargs):
        seen, info = self.env.reset(**kwargs)
        return np.concatenate([seen, np.zeros(2, np.float32)]), info

    def step(self, action):
        seen, *rest = self.env.step(action)
        return np.concatenate([seen, np.eye(2, dtype=np.float32)[int(action)]]), *rest


def make_env():
    made = Told(gymnasium.make("CartPole-v1"))
    return GymWrapper(made, categorical_action_encoding=True)
""",
    ),
    ("Compose, GymEnv, InitTracker", "Compose, GymWrapper, InitTracker"),
    ("GRUModule(4, 24,", "GRUModule(6, 24,"),
)

# What is observed is joined to one step more where nothing has a graph.
JOINED: Change = (
    """        td = batch.select(*KEPT).clone()
""",
    """        with torch.no_grad():
            observation = torch.cat([batch["observation"], batch["observation"][:, -1:]], 1)
        td = batch.select(*KEPT).clone().set("observation", observation[:, :-1])
""",
)
IN_STEPS: Change = (
    "with set_recurrent_mode(True):\n        with torch",
    "if True:\n        with torch",
)
# The same of a critic alone.
CUT_FROM_BATCH: Change = ('judge(batch["observation"]', 'judge(batch["observation"].detach()')

# The mode is set where the loss is called.
_CALL = "    loss = loss_of(data)\n"
CALLED_IN_IT: tuple[Change, ...] = (
    (_WITH, _WITHOUT),
    (_CALL, "    with set_recurrent_mode(True):\n        loss = loss_of(data)\n"),
)
CALLED_OUT_OF_IT: tuple[Change, ...] = (
    (_WITH, _WITHOUT),
    (_CALL, "    with set_recurrent_mode(False):\n        loss = loss_of(data)\n"),
)

# Returns that the loss is given beside its batch.
GIVEN = (
    HEAD
    + """
optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 3e-4)


def returns_of(batch):
    reward, over = batch["next", "reward"].squeeze(-1), batch["next", "done"].squeeze(-1)
    total, totals = torch.zeros(len(reward)), []
    for step in reversed(range(reward.shape[1])):
        total = reward[:, step] + 0.97 * total * (~over[:, step])
        totals.insert(0, total)
    return torch.stack(totals, 1)


def loss_of(batch, returns):
    with set_recurrent_mode(True):
        td = batch.select(*KEPT).clone()
        dist = actor.get_dist(td)
    gain = returns - critic(td)["state_value"].squeeze(-1)
    return gain.square().mean() - (dist.log_prob(batch["action"]) * gain.detach()).mean()


for data in Collector(env, actor, frames_per_batch=96, total_frames=576):
    returns = returns_of(data)
    for _ in range(2):
        loss = loss_of(data, returns)
        optim.zero_grad()
        loss.backward()
        optim.step()
"""
)
RUN_ON: Change = ("0.97 * total * (~over[:, step])", "0.97 * total")
MADE_ELSEWHERE: Change = (
    "    returns = returns_of(data)\n",
    "    made = list(map(returns_of, [data]))\n    data = data.clone()\n    returns = made.pop()\n",
)

# Slices that are weighed, as by their priority.
WEIGHED: tuple[Change, ...] = (
    (
        _CALL,
        '    data["weight"] = torch.rand(4, 1).expand(4, 24).clone()\n' + _CALL,
    ),
    (
        _TOTAL,
        "    weight = batch['weight']\n" + _TOTAL.replace(".square()", ".square().mul(weight)"),
    ),
)

# What acts is a moving average of what is trained, and one object holds both.
AVERAGED = (
    HEAD.replace("import numpy as np\n", "import copy\n\n")
    + """

class Learner:
    def __init__(self):
        self.net, self.average = actor, copy.deepcopy(actor)
        self.optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 3e-4)

    def objective(self, batch):
        with set_recurrent_mode(True):
            td = batch.select(*KEPT).clone()
            dist = self.net.get_dist(td)
        value = critic(td)["state_value"].squeeze(-1)
        gain = batch["next", "reward"].squeeze(-1) - value
        return gain.square().mean() - (dist.log_prob(batch["action"]) * gain.detach()).mean()

    def update(self, batch):
        loss = self.objective(batch)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        with torch.no_grad():
            for mean, new in zip(self.average.parameters(), self.net.parameters()):
                mean.lerp_(new, 0.1)


learner = Learner()
for data in Collector(env, learner.average, frames_per_batch=96, total_frames=576):
    learner.update(data)
"""
)
NEVER_AVERAGED: Change = ("mean.lerp_(new, 0.1)", "pass")

# A loss that draws numbers, with a critic whose memory no flag cuts.
DRAWN: Change = (
    "    gain = torch.stack(totals, 1) - value\n",
    "    gain = torch.stack(totals, 1)\n    gain = gain + 0.1 * torch.randn_like(gain) - value\n",
)
NEVER_BEGUN: Change = ("            h = torch.where(begins[:, step], torch.zeros(()), h)\n", "")
# Returns less their mean, of the episodes that are over alone.
OF_FINISHED: Change = (
    '    return gain.square().mean() - (dist.log_prob(batch["action"]) * gain.detach()).mean()\n',
    """    done = over.flip(1).cumsum(1).flip(1).bool().float()
    gain = torch.stack(totals, 1)
    gain = (gain - (gain * done).sum() / done.sum()) * done
    return -(dist.log_prob(batch["action"]) * gain).sum() / done.sum()
""",
)
RETURNS_RUN_ON: Change = ("0.97 * total * (~over[:, step])", "0.97 * total")
FORGETTING: Change = (_CELL, "h = self.cell(observation[:, step], h * 0)")
WITHOUT_STATE: Change = (_CELL, "h = self.cell(observation[:, step])")

# A switch that is the class's until it is set, and a pass that begins every row with zero.
SWITCHED = HEAD.replace(
    'gru = GRUModule(4, 24, in_key="observation", out_key="feat")\n'
    "env.append_transform(gru.make_tensordict_primer())\n",
    """

class Memory(nn.Module):
    unrolls = False

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 24)

    def forward(self, observation, state, begins):
        if not self.unrolls:
            began = (state * (~begins)).reshape(-1, 24)
            state = self.cell(observation.reshape(-1, 4), began).view_as(state)
            return state, state
        state, found = state[:, 0], []
        for step in range(observation.shape[1]):
            state = self.cell(observation[:, step], state * (~begins[:, step]))
            found.append(state)
        return torch.stack(found, 1), torch.stack(found, 1)


memory = Memory()
gru = TensorDictModule(
    memory, ["observation", "recurrent_state", "is_init"], ["feat", ("next", "recurrent_state")]
)
primer = TensorDictPrimer(recurrent_state=Unbounded(shape=(24,)), expand_specs=True)
env.append_transform(primer)
""",
).replace("from torchrl.data import ", "from torchrl.data import Unbounded, ").replace(
    "SerialEnv, StepCounter, ", "SerialEnv, StepCounter, TensorDictPrimer, "
) + OWN[len(HEAD) :].replace(
    "    with set_recurrent_mode(True):\n", "    memory.unrolls = True\n    if True:\n"
).replace("    guess = ", "    memory.unrolls = False\n    guess = ")
FROM_ZERO: Change = ("state, found = state[:, 0], []", "state, found = 0 * state[:, 0], []")

# A module that gives the losses of actor and critic apart.
PAIR = (
    HEAD
    + _JUDGE
    + """

class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.judge = actor, judge

    def forward(self, batch):
        with set_recurrent_mode(True):
            dist = self.actor.get_dist(batch.select(*KEPT).clone())
        value = self.judge(batch["observation"], batch["is_init"])
        reward, over = batch["next", "reward"].squeeze(-1), batch["next", "done"].squeeze(-1)
        total, totals = torch.zeros(len(reward)), []
        for step in reversed(range(reward.shape[1])):
            total = reward[:, step] + 0.97 * total * (~over[:, step])
            totals.insert(0, total)
        gain = torch.stack(totals, 1) - value
        told = dist.log_prob(batch["action"])
        return -(told * gain.detach()).mean(), gain.square().mean()


both = Both()
optim = torch.optim.Adam(both.parameters(), 3e-4)
for data in Collector(env, actor, frames_per_batch=96, total_frames=576):
    acting, judging = both(data)
    optim.zero_grad()
    (acting + judging).backward()
    optim.step()
"""
)

# A critic that never acts, in a loss and with an optimiser of its own.
APART = (
    HEAD
    + _JUDGE
    + """

def judge_loss(batch):
    value = judge(batch["observation"], batch["is_init"])
    reward, over = batch["next", "reward"].squeeze(-1), batch["next", "done"].squeeze(-1)
    target = reward[:, :-1] + 0.97 * value[:, 1:].detach() * (~over[:, :-1])
    return (target - value[:, :-1]).square().mean()


def actor_loss(batch):
    with set_recurrent_mode(True):
        dist = actor.get_dist(batch.select(*KEPT).clone())
    with torch.no_grad():
        value = judge(batch["observation"], batch["is_init"])
    return -(dist.log_prob(batch["action"]) * value).mean()


optims = [torch.optim.Adam(one.parameters(), 3e-4) for one in (judge, actor)]
for data in Collector(env, actor, frames_per_batch=96, total_frames=576):
    for loss, optim in zip((judge_loss, actor_loss), optims):
        optim.zero_grad()
        loss(data).backward()
        optim.step()
"""
)

# The last action is a state that the policy carries itself.
REMEMBERING: tuple[Change, ...] = (
    ("from torchrl.data import ", "from torchrl.data import Unbounded, "),
    ("SerialEnv, StepCounter, ", "SerialEnv, StepCounter, TensorDictPrimer, "),
    (
        'gru = GRUModule(4, 24, in_key="observation", out_key="feat")\n',
        """

class Told(nn.Module):
    def forward(self, action):
        return nn.functional.one_hot(action, 2).float()


both = TensorDictModule(
    lambda seen, last: torch.cat([seen, last], -1), ["observation", "last"], ["both"]
)
gru = GRUModule(6, 24, in_key="both", out_key="feat")
env.append_transform(TensorDictPrimer(last=Unbounded(shape=(2,)), expand_specs=True))
""",
    ),
    ("    TensorDictSequential(gru, ", "    TensorDictSequential(both, gru, "),
    ('KEPT = ("observation", ', 'KEPT = ("observation", "last", '),
    (
        "for data in Collector(env, actor, ",
        'told = TensorDictModule(Told(), ["action"], [("next", "last")])\n'
        "acting = TensorDictSequential(actor, told)\n"
        "for data in Collector(env, acting, ",
    ),
    ('batch["next"].select("observation", ', 'batch["next"].select("observation", "last", '),
    ("critic(gru(after))", "critic(gru(both(after)))"),
)

# An ensemble under vmap beside it, whose weights are batched while it runs.
ENSEMBLE: tuple[Change, ...] = (
    (
        "judge = Judge()\n",
        "judge, extra = Judge(), nn.Linear(4, 1)\n"
        "stacked = {k: torch.stack([v.detach(), 2 * v.detach()]).requires_grad_()"
        " for k, v in extra.named_parameters()}\n",
    ),
    ("*judge.parameters()]", "*judge.parameters(), *stacked.values()]"),
    (
        "    gain = torch.stack(totals, 1) - value\n",
        "    each = lambda p: torch.func.functional_call(extra, p, (batch['observation'],))\n"
        "    gain = torch.stack(totals, 1) - value + torch.vmap(each)(stacked).mean()\n",
    ),
)
