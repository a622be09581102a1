"""PPO with TorchRL's loss and estimator on a network with a switch of its own, and what is
changed in it."""

STOCK_SWITCH = """
import contextlib
from contextvars import ContextVar

import torch
from tensordict.nn import ProbabilisticTensorDictModule
from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import GymEnv, InitTracker, SerialEnv, TensorDictPrimer, TransformedEnv
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

HIDDEN, STEPS, SEED = 12, 24, 0


class Flags:
    sequences = False


OVER_TIME = ContextVar("over_time", default=False)


@contextlib.contextmanager
def over_time():
    token = OVER_TIME.set(True)
    try:
        yield
    finally:
        OVER_TIME.reset(token)


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, HIDDEN)
        self.unroll = False

    def forward(self, x, h, is_init):
        if not self.unroll:
            h = torch.where(is_init, torch.zeros_like(h), h)
            flat = self.cell(x.reshape(-1, 4), h.reshape(-1, HIDDEN))
            return flat.view_as(h), flat.view_as(h)
        state, states = h[:, 0], []
        for t in range(x.shape[1]):
            state = torch.where(is_init[:, t], torch.zeros_like(state), state)
            state = self.cell(x[:, t], state)
            states.append(state)
        out = torch.stack(states, 1)
        return out, out


def main():
    torch.manual_seed(SEED)
    env = SerialEnv(4, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True))
    env = TransformedEnv(env, InitTracker())
    env.append_transform(TensorDictPrimer({"h": Unbounded(shape=(HIDDEN,))}, expand_specs=True))
    env.set_seed(SEED)
    gru = Memory()
    memory = TensorDictModule(
        gru, in_keys=["observation", "h", "is_init"], out_keys=["embed", ("next", "h")]
    )
    choice = ProbabilisticTensorDictModule(
        ["logits"], ["action"], distribution_class=Categorical, return_log_prob=True
    )
    head = TensorDictModule(nn.Linear(HIDDEN, 2), ["embed"], ["logits"])
    actor = ProbabilisticTensorDictSequential(memory, head, choice)
    value = TensorDictModule(nn.Linear(HIDDEN, 1), ["embed"], ["state_value"])
    critic = TensorDictSequential(memory, value)
    gae = GAE(gamma=0.99, lmbda=0.95, value_network=critic, shifted=True)
    loss_module = ClipPPOLoss(actor, critic)
    optim = torch.optim.Adam(loss_module.parameters(), lr=1e-3)
    collector = Collector(env, actor, frames_per_batch=4 * STEPS, total_frames=40 * STEPS)
    for data in collector:
        gru.unroll = True
        with torch.no_grad():
            gae(data)
        for rows in torch.randperm(4).split(2):
            losses = loss_module(data[rows])
            loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
            optim.zero_grad()
            loss.backward()
            optim.step()
        gru.unroll = False
    collector.shutdown()


main()
"""

_ON, _OFF = "        gru.unroll = True\n", "        gru.unroll = False\n"
_ASKED, _HELD = "if not self.unroll:", "        self.unroll = False\n"
BY_A_CLASS = (
    (_HELD, ""),
    (_ASKED, "if not Flags.sequences:"),
    ("gru.unroll =", "Flags.sequences ="),
)
OF_THE_CLASS = (
    (_HELD, ""),
    ("    def __init__", "    unroll = False\n\n    def __init__"),
    ("gru.unroll =", "Memory.unroll ="),
)
BY_A_CONTEXT = (
    (_HELD, ""),
    (_ASKED, "if not OVER_TIME.get():"),
    (_ON, ""),
    (_OFF, ""),
    ("with torch.no_grad():", "with torch.no_grad(), over_time():"),
    (
        "            losses = loss_module(data[rows])\n",
        "            with over_time():\n                losses = loss_module(data[rows])\n",
    ),
)
BY_TRAINING = (
    (_HELD, ""),
    (_ASKED, "if not self.training:"),
    (_ON, "        gru.train()\n"),
    (_OFF, "        gru.eval()\n"),
    ("    collector = ", "    gru.eval()\n    collector = "),
)
NEVER_ON = (_ON, "")
NO_RESETS = ("            state = torch.where(is_init[:, t], torch.zeros_like(state), state)\n", "")
CUT = ("            states.append(state)\n", "            states.append(state := state.detach())\n")
FROM_ZEROS = ("state, states = h[:, 0], []", "state, states = torch.zeros_like(h[:, 0]), []")
SHUFFLED = (
    "        for rows in",
    "        data = data[:, torch.randperm(STEPS)]\n        for rows in",
)
# With this seed an episode begins with the last step of a row.
LAST_IS_A_START = ("STEPS, SEED = 12, 24, 0", "STEPS, SEED = 12, 24, 15")
