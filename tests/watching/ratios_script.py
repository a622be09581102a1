"""A recurrent actor with a critic behind it in one sequence, and the log-probabilities that are
recorded with its actions."""

from __future__ import annotations

from tests.watching.next_values_script import OWN, changed

_ACTS = "Collector(env, actor,"
_TOLD = 'told = dist.log_prob(batch["action"])'
TOGETHER = changed(
    OWN,
    (_ACTS, "Collector(env, TensorDictSequential(actor, critic),"),
    (_TOLD, _TOLD.replace("= ", "= (") + ' - batch["action_log_prob"]).exp()'),
)
# The memory is a trunk of both, as in TorchRL's ActorValueOperator.
TRUNK = (
    (
        "    TensorDictSequential(gru, TensorDictModule(nn.Linear(24, 2), "
        '["feat"], ["logits"])),\n',
        '    TensorDictModule(nn.Linear(24, 2), ["feat"], ["logits"]),\n',
    ),
    ("TensorDictSequential(actor, critic)", "TensorDictSequential(gru, actor, critic)"),
    ("        dist = actor.get_dist(td)\n", "        dist = actor.get_dist(gru(td))\n"),
    ("[*actor.parameters(),", "[*gru.parameters(), *actor.parameters(),"),
)

_LOSS = "    loss = loss_of(data)\n"
_AGAIN = """    with torch.no_grad(), set_recurrent_mode({}):
        again = actor.get_dist(data.select({}).clone())
    data["action_log_prob"] = again.log_prob(data["action"])
"""
A_STEP_LATE = (_LOSS, '    data["action_log_prob"] = data["action_log_prob"].roll(1, 1)\n' + _LOSS)
OTHER_ROWS = (_LOSS, '    data["action_log_prob"] = data["action_log_prob"].roll(1, 0)\n' + _LOSS)
ANEW = (_LOSS, _AGAIN.format("True", "*KEPT") + _LOSS)
STEP_BY_STEP = (_LOSS, _AGAIN.format("False", "*KEPT") + _LOSS)
WITHOUT_STATES = (_LOSS, _AGAIN.format("False", '"observation", "is_init"') + _LOSS)
