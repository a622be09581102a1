"""PPO whose collector's workers make their policy by themselves and leave out next observations, in
the form of TorchRL's examples for many envs."""

SENT = "collector.update_policy_weights_(actor)"
STORED = "        buffer.extend(data)\n"

SCRIPT = """
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector, MultiCollector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, TransformedEnv
from torchrl.modules import GRUModule, OneHotCategorical, ProbabilisticActor, set_recurrent_mode
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE
from torchrl.weight_update import MultiProcessWeightSyncScheme


def make_env():
    env = SerialEnv(3, lambda: GymEnv("CartPole-v1"))
    return TransformedEnv(env, Compose(InitTracker()))


def make_nets():
    memory = GRUModule(input_size=4, hidden_size=8, in_key="observation", out_key="features")
    head = TensorDictModule(nn.Linear(8, 2), ["features"], ["logits"])
    actor = ProbabilisticActor(
        TensorDictSequential(memory, head),
        ["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    value = TensorDictModule(nn.Linear(8, 1), ["features"], ["state_value"])
    return actor, TensorDictSequential(memory, value)


def make_actor():
    return make_nets()[0]


if __name__ == "__main__":
    torch.manual_seed(0)
    actor, critic = make_nets()
    loss_module = ClipPPOLoss(actor, critic, normalize_advantage=True)
    gae = GAE(gamma=0.99, lmbda=0.95, value_network=critic, shifted=True)
    optim = torch.optim.Adam(loss_module.parameters(), lr=1e-3)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(3), sampler=SamplerWithoutReplacement(), batch_size=3
    )
    collector = MultiCollector(
        [make_env],
        sync=True,
        policy_factory=make_actor,
        frames_per_batch=72,
        total_frames=-1,
        compact_obs=True,
        auto_register_policy_transforms=True,
        weight_sync_schemes={"policy": MultiProcessWeightSyncScheme()},
    )
    batches = iter(collector)
    for _ in range(4):
        collector.update_policy_weights_(actor)
        data = next(batches).reshape(3, 24)
        with torch.no_grad(), set_recurrent_mode(True):
            gae(data)
        buffer.empty()
        buffer.extend(data)
        for rows in buffer:
            losses = loss_module(rows)
            optim.zero_grad()
            sum(losses[key] for key in ("loss_objective", "loss_critic")).backward()
            optim.step()
    collector.shutdown()
"""

# What is sent first arrives when the first batch was collected: nobody waits for it.
LATE = SCRIPT.replace("MultiProcessWeightSyncScheme()}", "Late(sync=False)}").replace(
    "def make_env():",
    """class Late(MultiProcessWeightSyncScheme):
    def create_transport(self, **kwargs):
        made = super().create_transport(**kwargs)
        receive, calls = made.receive_weights, []

        def late(*args, **kwargs):
            if not calls:
                time.sleep(4)
            calls.append(1)
            return receive(*args, **kwargs)

        made.receive_weights = late
        return made


def make_env():""",
    1,
)
LATE = LATE.replace("import torch\n", "import time\n\nimport torch\n", 1)

# The same in one process, which acts with what is trained.
ALONE = SCRIPT
for old, new in (
    ("[make_env],\n        sync=True,", "make_env,"),
    ("collector = MultiCollector(", "collector = Collector("),
    ("policy_factory=make_actor", "policy=actor"),
    ('        weight_sync_schemes={"policy": MultiProcessWeightSyncScheme()},\n', ""),
    (f"        {SENT}\n", ""),
):
    ALONE = ALONE.replace(old, new)
