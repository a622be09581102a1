"""Faults that are planted into the text of fixtures/scripts, and what names each."""

from __future__ import annotations

from dataclasses import dataclass

PRIMER = "what fills the state at a reset is missing"
LATE = "the start flags of the next steps are missing"
SHUFFLED = "steps in random order"
SINGLE = "single steps out of the buffer"
BY_STEP = "the training pass is not in recurrent mode"
STEPS = """
from torchrl.data import RandomSampler


def Steps(**_):
    return RandomSampler()


torch.manual_seed"""


@dataclass(frozen=True)
class Planted:
    """``old`` in the script becomes ``new``; ``code`` is the check that must fail."""

    script: str
    words: str
    code: str
    changes: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.script.split('.')[0].split('/')[0]}-{self.code}"


def _one(script: str, words: str, code: str, old: str, new: str) -> Planted:
    return Planted(script, words, code, ((old, new),))


PPO, DQN, LOOP = "ppo_cartpole.py", "dqn_cartpole.py", "step_loop.py"
OWN, SWITCH, PADDED = "own_actor_critic.py", "own_switch.py", "padded_trajs.py"
PADDED_SWITCH = "padded_switch.py"
R2D2, Q, WORKERS = "r2d2_slices.py", "q_rollouts.py", "dqn_workers.py"
FIRST, PLAIN, ONE_ENV = "time_first.py", "plain_vector.py", "plain_single.py"
CORE, TOKENS, TWO = "core_outside.py", "token_likelihood.py", "two_losses.py"
GROUPS = "two_groups.py"
SAC, TEAM, A2C = "sac_rollouts.py", "team_ppo.py", "a2c_package/__main__.py"
RANDOMLY = "[:, torch.randperm(data.shape[1])]"
ROWS = "loss_module(data[rows])"
EPOCHS = "        for _ in range(args.epochs):\n"
SET_TO_ZERO = """        for key in ("recurrent_state_h", "recurrent_state_c"):
            data[key] = torch.zeros_like(data[key])
"""
FIRST_KEPT = """        for key in ("recurrent_state_h", "recurrent_state_c"):
            kept = torch.zeros_like(data[key])
            kept[:, 0] = data[key][:, 0]
            data[key] = kept
"""
IN_ANY_ORDER = "loss_module(data.reshape(-1)[torch.randperm(data.numel())[:128]])"
GOES_ON = "td = env.reset() if ended else step_mdp(td)"
FORGETS = (
    GOES_ON
    + """
            td["recurrent_state_h"], td["recurrent_state_c"] = torch.zeros(2, 1, 16)"""
)
KEEPS = """now, td = td, env.reset() if ended else step_mdp(td)
            for key in ("recurrent_state_h", "recurrent_state_c"):
                td[key] = now["next", key]"""
NET = "    env.append_transform(make_lstm().make_tensordict_primer())\n"
OF_MEMORY = "env.append_transform(memory.make_tensordict_primer())"
MADE = "env.append_transform(make_memory().make_tensordict_primer())"
FLAGGED = '.set("is_init", rows["is_init"])'
OWN_PRIMER = (
    '    env.append_transform(TensorDictPrimer({"h": Unbounded(shape=(12,))}, expand_specs=True))\n'
)
ENDS = 'data["next", "agents", key] = ends.clone()'
ENDLESS_TEAM = ENDS.replace("ends.clone()", "torch.zeros_like(ends)")
HANDED_ON, NOT_HANDED_ON = '"is_init", *STATE)', '"is_init")'
SPLIT = 'split_trajectories(data, trajectory_key=("collector", "traj_ids"))'
WHOLE = 'data.set(("collector", "mask"), torch.ones(data.shape, dtype=torch.bool))'
ESTIMATES = "        with torch.no_grad(), set_recurrent_mode(True):\n"
ENDLESS = """        for key in ("done", "terminated"):
            data["next", key] = torch.zeros_like(data["next", key])
"""

IN_TRAINING = 'batch["is_init"].squeeze(-1), state)'
ZEROED = "            h = torch.zeros_like(h)\n"
RESTARTED = "            h = torch.where(start.view(-1, 1), torch.zeros_like(h), h)\n"
STACKED = "    return torch.stack(steps), td"
A_STEP_LATE = """    batch = torch.stack(steps)
    batch["is_init"] = batch["is_init"].roll(1, 0)
    return batch, td"""

FAULTS = (
    _one(PPO, PRIMER, "WR103", NET, ""),
    _one(PPO, "InitTracker is missing", "WR102", "            InitTracker(),\n", ""),
    _one(PPO, SHUFFLED, "RP502", ROWS, IN_ANY_ORDER),
    _one(PPO, "the states are set to zero", "RP504", EPOCHS, SET_TO_ZERO + EPOCHS),
    _one(DQN, LATE, "LS701", '        sample["next", "is_init"] = sample["is_init"]', "        #"),
    _one(DQN, "the next states are overwritten", "VL604", "KeepsNext(*net)", "net"),
    Planted(
        DQN,
        SINGLE,
        "RP502",
        (("SliceSampler(slice_len=8, ", "Steps("), ("\ntorch.manual_seed", STEPS)),
    ),
    _one(WORKERS, PRIMER, "WR103", "return " + MADE, "return env"),
    _one(WORKERS, LATE, "LS701", FLAGGED, ""),
    _one(WORKERS, SHUFFLED, "RP502", "trainer.update(data)", f"trainer.update(data{RANDOMLY})"),
    _one(OWN, "the return runs on over an end", "LS701", " * (~done[..., step])", ""),
    _one(OWN, BY_STEP, "GR801", "set_recurrent_mode(True)", "set_recurrent_mode(False)"),
    _one(OWN, PRIMER, "WR103", "return " + OF_MEMORY, "return env"),
    _one(
        SWITCH,
        "the own unroll ignores the resets",
        "BD301",
        "self.step(x[..., t, :], state, is_init[..., t, :])",
        "self.cell(x[..., t, :], state)",
    ),
    _one(
        SWITCH,
        "the gradient is cut between the steps",
        "GR801",
        "states.append(state)\n",
        "states.append(state)\n            state = state.detach()\n",
    ),
    _one(SWITCH, PRIMER, "WR103", OWN_PRIMER, ""),
    _one(
        PADDED,
        "padding is counted",
        "RP505",
        "(chosen * weight)[mask].mean()",
        "(chosen * (weight + 1)).mean()",
    ),
    _one(PADDED, PRIMER, "WR103", "return " + MADE, "return env"),
    _one(
        PADDED,
        "the states are not stored",
        "RP503",
        "split_trajectories(data,",
        'split_trajectories(data.exclude("recurrent_state_h", "recurrent_state_c"),',
    ),
    _one(
        R2D2,
        "burn-in step by step",
        "RP508",
        "with set_recurrent_mode(True):\n                rows",
        "if True:\n                rows",
    ),
    _one(R2D2, PRIMER, "WR103", ".append_transform(memory.make_tensordict_primer())", ""),
    _one(PADDED_SWITCH, "whole batches, and no resets in the own unroll", "BD301", SPLIT, WHOLE),
    _one(
        PADDED_SWITCH,
        "padding is counted",
        "RP505",
        "(chosen * advantage.detach())[mask].mean()",
        "(chosen * (advantage.detach() + 1)).mean()",
    ),
    _one(
        PADDED_SWITCH,
        "the gradient is cut between the steps",
        "GR801",
        "states.append(state)\n",
        "states.append(state)\n            state = state.detach()\n",
    ),
    Planted(
        R2D2,
        SINGLE,
        "RP502",
        (
            ('SliceSampler(slice_len=SLICE, traj_key=("collector", "traj_ids"))', "Steps()"),
            ("\ntorch.manual_seed", STEPS),
        ),
    ),
    _one(Q, LATE, "LS701", '            following["is_init"] = batch["is_init"]\n', ""),
    _one(
        Q,
        "targets start from zero",
        "VL604",
        'batch["next"].copy()',
        'batch["next"].exclude("recurrent_state")',
    ),
    _one(Q, BY_STEP, "GR801", "set_recurrent_mode(True)", "set_recurrent_mode(False)"),
    _one(LOOP, "the loop drops the state", "CL401", GOES_ON, FORGETS),
    _one(LOOP, "the loop keeps the state over a reset", "CL403", GOES_ON, KEEPS),
    _one(
        LOOP,
        "steps stacked backwards",
        "RP502",
        "torch.stack(steps)",
        "torch.stack(steps[::-1])",
    ),
    _one(
        PLAIN,
        "the loss takes the actions of the step before",
        "LS707",
        "b_actions = actions.reshape(-1)",
        "b_actions = actions.roll(1, 0).reshape(-1)",
    ),
    _one(
        ONE_ENV,
        "the loss takes the actions of the step before",
        "LS707",
        'log_prob(data["action"])',
        'log_prob(data["action"].roll(1, 0))',
    ),
    _one(
        A2C,
        "the policy acts again on steps that were taken",
        "RP509",
        "self.estimator(data)\n        found",
        "self.estimator(self.actor(data))\n        found",
    ),
    _one(
        A2C,
        "the advantages are those of the other env",
        "RP509",
        "self.estimator(data)\n        found",
        'self.estimator(data)\n        data["advantage"] = data["advantage"].roll(1, 0)\n'
        "        found",
    ),
    _one(
        DQN,
        "ends are cleared ahead of the loss",
        "VL603",
        '        sample["next", "is_init"] = sample["is_init"]',
        '        sample["next", "is_init"] = sample["is_init"]\n'
        '        sample["next", "terminated"] = torch.zeros_like(sample["next", "terminated"])',
    ),
    _one(SAC, LATE, "LS701", '        sample["next", "is_init"] = sample["is_init"]\n', ""),
    _one(SAC, PRIMER, "WR103", "return " + OF_MEMORY, "return env"),
    _one(
        SAC,
        "the states are not stored",
        "RP503",
        "buffer.extend(rows)",
        'buffer.extend(rows.exclude("recurrent_state_h", "recurrent_state_c"))',
    ),
    _one(
        TEAM,
        "the estimator runs on over an end",
        "VL601",
        ENDS,
        ENDLESS_TEAM,
    ),
    _one(
        TEAM,
        "the own unroll ignores the resets",
        "BD301",
        "state = torch.where(begins, stored[..., t, :, :], state)",
        "pass",
    ),
    _one(TEAM, SHUFFLED, "RP502", "data.split(2)", f"data{RANDOMLY}.split(2)"),
    _one(
        TEAM,
        "each agent gets the other one's advantages",
        "RP509",
        "data.split(2)",
        'data.set(("agents", "advantage"), data["agents", "advantage"].flip(-2)).split(2)',
    ),
    _one(A2C, "the estimator runs on over an end", "VL601", ESTIMATES, ENDLESS + ESTIMATES),
    _one(A2C, SHUFFLED, "RP502", "self.loss(data)", f"self.loss(data{RANDOMLY})"),
    _one(
        A2C,
        "start flags come a step late",
        "RP503",
        "        found = self.loss(data)",
        '        data["is_init"] = data["is_init"].roll(1, 1)\n        found = self.loss(data)',
    ),
    _one(
        CORE,
        BY_STEP,
        "LS703",
        '("recurrent"):\n                core(rows)',
        '("sequential"):\n                core(rows)',
    ),
    _one(CORE, "InitTracker is missing", "WR102", "InitTracker(), ", ""),
    _one(CORE, "the last value starts from zero", "VL604", HANDED_ON, NOT_HANDED_ON),
    _one(
        CORE,
        SHUFFLED,
        "RP502",
        "data[:, begin : begin + SEGMENT]",
        "data[:, torch.randperm(STEPS)[:SEGMENT]]",
    ),
    _one(TOKENS, "padding is counted", "RP505", ' * data["mask"])', ")"),
    _one(TOKENS, PRIMER, "WR103", "InitTracker(), primer", "InitTracker()"),
    _one(
        TOKENS,
        "the module that acts is trained",
        "GR801",
        "score, model, prior)\n        optim",
        "score, acting, prior)\n        optim",
    ),
    _one(
        FIRST,
        "the training pass ignores the resets",
        "BD301",
        IN_TRAINING,
        f"torch.zeros_like({IN_TRAINING[:-8]}), state)",
    ),
    _one(
        FIRST,
        "training starts from the state behind the batch",
        "CL406",
        "tuple(batch[key][0]",
        'tuple(batch["next", key][-1]',
    ),
    _one(FIRST, "start flags come a step late", "RP503", STACKED, A_STEP_LATE),
    _one(
        FIRST,
        SHUFFLED,
        "RP502",
        "ppo_loss(agent, batch[:, rows])",
        "ppo_loss(agent, batch[torch.randperm(STEPS)][:, rows])",
    ),
    _one(
        FIRST,
        "the estimator runs on over an end",
        "VL601",
        "on = (~done[t]).float()",
        "on = torch.ones(reward.shape[1])",
    ),
    _one(
        PLAIN,
        "acting ignores the ends of episodes",
        "CL403",
        "agent.act(next_obs, next_state, next_done)",
        "agent.act(next_obs, next_state, torch.zeros(ENVS))",
    ),
    _one(
        PLAIN,
        "the training pass ignores the resets",
        "RP503",
        "b_dones[rows],",
        "0 * b_dones[rows],",
    ),
    _one(
        PLAIN,
        "training starts from the state behind the batch",
        "RP504",
        "(initial_state[0][:, mine], initial_state[1][:, mine])",
        "(next_state[0][:, mine], next_state[1][:, mine])",
    ),
    Planted(
        PLAIN,
        "ends are stored a step late",
        "RP503",
        (
            ("            dones[step] = next_done\n", ""),
            (
                "next_done = torch.Tensor(np.logical_or(terminated, truncated))",
                "dones[step] = next_done = torch.Tensor(np.logical_or(terminated, truncated))",
            ),
        ),
    ),
    _one(
        PLAIN,
        SHUFFLED,
        "RP502",
        "rows = flat[:, mine].ravel()",
        "rows = np.random.permutation(STEPS * ENVS)[: STEPS * len(mine)]",
    ),
    _one(
        PLAIN,
        "the estimator runs on over an end",
        "LS701",
        "1.0 - dones[t + 1], values[t + 1]",
        "1.0, values[t + 1]",
    ),
    _one(ONE_ENV, "the loop keeps the state over a reset", "CL403", ZEROED, ""),
    _one(ONE_ENV, "the training pass ignores the resets", "BD301", RESTARTED, ""),
    _one(
        ONE_ENV,
        "the gradient is cut between the steps",
        "GR801",
        "values.append(value)",
        "values.append(value)\n            h = h.detach()",
    ),
    _one(ONE_ENV, "the return runs on over an end", "LS701", " * after * ~done", " * after"),
    _one(TOKENS, SHUFFLED, "RP502", "data.exclude(", f"data{RANDOMLY}.exclude("),
    _one(TWO, "the critic's return runs on over an end", "LS701", " * (~done[:, step])", ""),
    _one(
        TWO,
        "the critic's loss is not in recurrent mode",
        "GR801",
        "set_recurrent_mode(True), self.value_network_params",
        "set_recurrent_mode(False), self.value_network_params",
    ),
    _one(
        TWO,
        "the critic's steps in random order",
        "RP502",
        "critic_loss(rows)",
        "critic_loss(rows[:, torch.randperm(rows.shape[1])])",
    ),
    _one(
        GROUPS,
        "the second group's estimator runs on over an end",
        "VL601",
        "                estimators[name](data)",
        "                if name == 'blue':\n"
        "                    data['next', 'done'] = torch.zeros_like(data['next', 'done'])\n"
        "                estimators[name](data)",
    ),
    _one(
        GROUPS,
        "the second group's steps in random order",
        "RP502",
        "losses[name](rows)",
        "losses[name](rows if name == 'red' else rows[:, torch.randperm(rows.shape[1])])",
    ),
    _one(GROUPS, PRIMER, "WR103", "Compose(InitTracker(), *primers)", "Compose(InitTracker())"),
)
