"""An actor that is one object and its learner another, each with a memory of its own."""

from __future__ import annotations

from tests.watching.estimates_script import HEAD, ROLLOUT

_ACTOR = HEAD[HEAD.index("gru = GRUModule(") : HEAD.index("critic = ")]
_MADE = """

def make_actor():
    gru = GRUModule(4, 24, in_key="observation", out_key="feat")
    return ProbabilisticActor(
        TensorDictSequential(gru, TensorDictModule(nn.Linear(24, 2), ["feat"], ["logits"])),
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        default_interaction_type="random",
        return_log_prob=True,
    )


actor = make_actor()
env.append_transform(actor[0][0].make_tensordict_primer())
learner = copy.deepcopy(actor)
"""

_APART = HEAD.replace(_ACTOR, _MADE).replace("import numpy as np\n", "import copy\n\n")
# The learner is trained, and what acts gets its weights behind every update.
SYNCHRONISED = (
    _APART
    + """
from torchrl.objectives.value import GAE

value_net = TensorDictSequential(learner[0][0], critic)
loss_module = ClipPPOLoss(learner, value_net, entropy_coeff=0.01)
estimator = GAE(gamma=0.98, lmbda=0.9, value_network=value_net, shifted=True)
optim = torch.optim.Adam(loss_module.parameters(), 3e-4)

for data in Collector(env, actor, frames_per_batch=128, total_frames=768):
    with torch.no_grad(), set_recurrent_mode(True):
        estimator(data)
    losses = loss_module(data)
    optim.zero_grad()
    sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
    optim.step()
    actor.load_state_dict(learner.state_dict())
"""
)
LOADED = (
    "learner = copy.deepcopy(actor)\n",
    "learner = make_actor()\nlearner.load_state_dict(actor.state_dict())\n",
)
# What acts is no copy, and no optimiser holds it.
ANOTHER = ("learner = copy.deepcopy(actor)\n", "learner = make_actor()\n")
NEVER = ("    actor.load_state_dict(learner.state_dict())\n", "")
# The same weights at the beginning, and both are trained: the critic reads the actor's memory.
BOTH_TRAINED = (
    ("learner = copy.deepcopy(actor)\n", "learner = actor\n"),
    NEVER,
    (
        "TensorDictSequential(learner[0][0], critic)",
        "TensorDictSequential(copy.deepcopy(learner[0][0]), critic)",
    ),
)

# The same with a loss of its own, which nothing tells to be made of what was collected.
OF_ITS_OWN = (
    _APART
    + ROLLOUT[len(HEAD) :].replace("actor.", "learner.")
    + "    actor.load_state_dict(learner.state_dict())\n"
)
