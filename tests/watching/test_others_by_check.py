"""``rnncheck run`` of more scripts of fixtures/others, each by the checks that once took it for
something else, as it is and with a fault in its text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import OTHERS, failed, run, written
from tests.watching.scripts import judged_other as judged

Change = tuple[str, str]
SLOW = pytest.mark.slow

OVER_ENDS = ("last = delta + GAMMA * LAM * alive * last", "last = delta + GAMMA * LAM * last")
ROWS_BEGIN = (
    "next_value = net(obs, state, start)[3]",
    "next_value = net(obs, init_state, start)[3]",
)
OF_LAST_STEPS = ("alive, nv = 1.0 - start, next_value", "alive, nv = 1.0 - start, val_buf[t]")
LAST_IN_PLACE = ("self.value_preds[-1] = next_value", "self.value_preds[-1] = self.value_preds[-2]")
FROM_ZEROS = (
    "next_value = net(obs, state, start)[3]",
    "next_value = net(obs, tuple(map(torch.zeros_like, state)), start)[3]",
)
VALUED_AGAIN = ('data[:, -1]["next"].clone()', "data[:, -1].clone()")
TWO_IN_A_ROW = (
    "env.rollout(T, explore)",
    "env.rollout(2 * T, explore, break_when_any_done=False)",
)
MIXED_LATER = (
    'batch["next", "is_init"] =',
    'batch["state"] = batch["next", "state"].clone()\n            batch["next", "is_init"] =',
)
KEPT_STATE = (
    "        self._lstm_state = self._network.get_initial_hidden_state(1)\n",
    "        self._lstm_state = getattr(\n"
    '            self, "_lstm_state", self._network.get_initial_hidden_state(1))\n',
)
NOT_ZEROED = ("hidden_state[..., dones, :] = 0.0", "hidden_state[..., dones, :] *= 1.0")
NO_STATE = (
    "student.get_dist(batch.select(*student.in_keys))",
    'student.get_dist(batch.select("seen", "is_init"))',
)
THROWN_AWAY = (
    "        output = self.forward(obs, h, c)\n",
    "        output = self.forward(obs, h, c)\n"
    "        output = output[0], 0 * output[1], 0 * output[2]\n",
)
NEVER_BEGUN = ("            if start:\n", "            if False:\n")
NOT_TURNED = ("return torch.tensor(out[::-1])", "return torch.tensor(out)")
ONE_LATE = ("ret = discount(rew)", "ret = discount(rew[1:] + [0.0])")
ALL_AS_ONE = (
    "    returns = pad_sequence([discount(e[2]) for e in episodes])\n",
    "    flat = discount([r for e in episodes for r in e[2]])\n"
    "    returns = pad_sequence(flat.split([len(e[2]) for e in episodes]))\n",
)
OVER_A_RESET = ('td["memory_out"] * (~done).float()', 'td["memory_out"]')
NEXT_FROM_AHEAD = ('"memory": batch["memory_out"]', '"memory": batch["memory"]')
STATE_BEHIND = ('"h": h[0]', '"h": h_new[0]')
PADDING_COUNTED = (" - target) * mask", " - target)")
STARTS_IGNORED = ('b["is_first"][:, t])', 'b["is_first"][:, t] * float(t == 0))')
STATE_OF_NEXT = ("recurrent_hidden_states[0, :, inds]", "recurrent_hidden_states[1, :, inds]")
STATES_BEHIND = ("mb_neglogpacs)), mb_states", "mb_neglogpacs)), self.states")
START_OF_NEXT = ("else dones[t + 1])", "else dones[t])")
RETURNS_LATER = (
    (
        "        mb_returns = compute_returns("
        "mb_rewards, mb_values, mb_dones, last_values, self.dones)\n",
        "",
    ),
    (
        "*map(sf01, (mb_obs, mb_returns, mb_dones, mb_actions, mb_values, mb_neglogpacs)),"
        " mb_states",
        "mb_obs, mb_rewards, mb_dones, mb_actions, mb_values, mb_neglogpacs, last_values,"
        " self.dones, mb_states",
    ),
    (
        "obs, returns, masks, actions, values, neglogpacs, states = runner.run()",
        "(obs, rewards, masks, actions, values, neglogpacs, last_values, last_dones,\n"
        "         states) = runner.run()\n"
        "        returns = sf01(compute_returns(rewards, values, masks, last_values, last_dones))\n"
        "        obs, masks, actions, values, neglogpacs = map(\n"
        "            sf01, (obs, masks, actions, values, neglogpacs))",
    ),
)
OWN_VALUES = ("q2_t(o, a2))[:, 1:]", "q2_t(o, a2))[:, :-1]")
GREEDY_HERE = ("best = q[:, 1:].detach()", "best = q[:, :-1].detach()")
VALUED_HERE = ("tq = unroll(target_agent, obs)[:, 1:]", "tq = unroll(target_agent, obs)[:, :-1]")
NEXT_EPISODE = (
    "        if not terminal:\n"
    "            with torch.no_grad():\n"
    "                value, _, _ = model((last_state",
    "        if True:\n"
    "            with torch.no_grad():\n"
    "                value, _, _ = model((state",
)
TURNED_ROUND = (
    "trajs = random.sample(self.memory, self.batch)",
    "trajs = [one[::-1] for one in random.sample(self.memory, self.batch)]",
)
NO_MEMORY = ("a, ha = self.actor(S[:, t], ha)", "a, _ = self.actor(S[:, t], ha)")
NO_MASK = ("(loss * mask).sum() / mask.sum()", "loss.mean()")
FROM_ONES = ("self.lstm(packed)", "self.lstm(packed, (torch.ones(1, len(lengths), 16),) * 2)")
USED_AS_AN_END = ("    if trunc and not term:\n", "    if True:\n")
REWARD_OF_THE_STEP = ("p_reward=p_reward", "p_reward=reward")
HALF_MASKED = ("(masks[i] * c).contiguous()", "c.contiguous()")


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        pytest.param("rssm", "LS701,LS707", id="rewards at arrival", marks=SLOW),
        pytest.param("feudal", "EQ206", id="a goal that is stored"),
        pytest.param("sacd", "EQ201,RP505", id="zeros are shown inside of episodes"),
        pytest.param("rdpg", "LS701", id="an actor's pass behind a critic's"),
        pytest.param("rnd", "VL604", id="acting on a row of an array", marks=SLOW),
        pytest.param("mingru", "LS707", id="a scan of its own"),
        pytest.param("distill", "RP504", id="states given to a loss of its own"),
        pytest.param("notebook", "LS701", id="advantages normalised by minibatch"),
        pytest.param("rollout_object", "VL604", id="lists that are stacked in place", marks=SLOW),
        pytest.param("padded_list", "LS701", id="a list of episodes"),
        pytest.param("adrqn", "LS707", id="one-hot actions"),
        pytest.param("class_agent", "CL406,EQ201", id="a copy acts, and lists grow in the lines"),
        pytest.param("list_r2d2", "RP508", id="acting on the last in a list"),
        pytest.param("dict_returned", "LS701", id="lists that are returned as tensors"),
        pytest.param("agents_ppo", "RP504", id="several agents of each step"),
        pytest.param("packed_ppo", "CL406", id="packed sequences"),
        pytest.param("bad_masks", "LS701,VL603", id="limits told in a list of records"),
        pytest.param("buffer_alias", "VL604", id="another name of an attribute", marks=SLOW),
        pytest.param("attention", "VL604", id="a value that goes on from the pass", marks=SLOW),
        pytest.param("unrolls_r2d2", "BD301,CL402", id="what an agent keeps of the step before"),
        pytest.param("padded_trajectories", "BD301,RP504", id="a deviation that is learned"),
        pytest.param("simulator", "VL603", id="limits told in tensors", marks=SLOW),
        pytest.param("own_burn_in", "RP504", id="the step that is laid behind a row"),
        pytest.param("get_dist", "VL604", id="a value of what is observed behind the rows"),
        pytest.param("layers_first", "LS701,RP504", id="states with layers ahead of the envs"),
        pytest.param("asarray_ppo2", "EQ201,RP504", id="lists that become arrays of their names"),
        pytest.param(
            "runner_object", "CL403,RP504", id="a module that declares no keys", marks=SLOW
        ),
        pytest.param("qmix_own_env", "EQ201,RP505", id="an entry that a mixer alone is given"),
        pytest.param("dict_target", "EQ201,RP504", id="a part of an entry, a dict of weights"),
        pytest.param("a3c", "VL603", id="a value behind a row that may end"),
        pytest.param("whole_td3", "VL604", id="targets in rows that no end cuts"),
        pytest.param("vdn", "VL604", id="values at the greedy actions of their steps"),
        pytest.param("rdpg_doubles", "CL406,EQ201,RP502", id="doubles that are kept as floats"),
        pytest.param("two_step_task", "CL403,EQ201", id="a number stands beside the step"),
        pytest.param("advantages_after", "EQ201,LS701,RP505", id="lists that the lines fill"),
    ],
)
def test_healthy_ones_are_verified(rnncheck: Any, tmp_path: Path, name: str, codes: str) -> None:
    assert judged(rnncheck, tmp_path, name, codes) == (ExitCode.VERIFIED, [])


def test_rewards_of_the_step_before_may_be_whole_numbers(rnncheck: Any, tmp_path: Path) -> None:
    changes = (
        ("r, done = 0.0, False", "r, done = 0, False"),
        ("r = float(self.rng", "r = int(self.rng"),
        ("dtype=np.float32), 0.0", "dtype=np.float32), 0"),
    )
    found = judged(rnncheck, tmp_path, "two_step_task", "CL402,CL403,EQ201", *changes)
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        pytest.param("rssm", STARTS_IGNORED, "LS701", id="starts are ignored", marks=SLOW),
        pytest.param("class_agent", NEVER_BEGUN, "BD301", id="starts are not seen to"),
        pytest.param("drqn", THROWN_AWAY, "EQ201", id="every state is thrown away"),
        pytest.param("mingru", NOT_TURNED, "LS707", id="returns in the opposite order"),
        pytest.param("mingru", ONE_LATE, "LS707", id="returns one step late"),
        pytest.param("distill", NO_STATE, "RP504", id="the state is dropped"),
        pytest.param("notebook", OVER_ENDS, "LS701", id="behind a normalisation"),
        pytest.param("notebook", ROWS_BEGIN, "VL604", id="the state of the rollout's start"),
        pytest.param(
            "notebook", OF_LAST_STEPS, "VL604", id="recorded values of the last steps", marks=SLOW
        ),
        pytest.param(
            "notebook", FROM_ZEROS, "VL604", id="a value that starts from zeros", marks=SLOW
        ),
        pytest.param("bad_masks", LAST_IN_PLACE, "VL604", id="the same in a storage", marks=SLOW),
        pytest.param("get_dist", VALUED_AGAIN, "VL604", id="the last steps are valued again"),
        pytest.param("unrolls_r2d2", KEPT_STATE, "CL403", id="an agent keeps its state"),
        pytest.param("padded_trajectories", NOT_ZEROED, "CL403", id="memories are not reset"),
        pytest.param("qmix", MIXED_LATER, "RP509", id="the state of the step behind"),
        pytest.param("qmix", TWO_IN_A_ROW, "BD301", id="two episodes in a row"),
        pytest.param("padded_list", ALL_AS_ONE, "LS701", id="returns of all episodes as one"),
        pytest.param("layers_first", STATE_OF_NEXT, "RP504", id="the state of the next step"),
        pytest.param("asarray_ppo2", STATES_BEHIND, "RP504", id="the states behind the rollout"),
        pytest.param("asarray_ppo2", START_OF_NEXT, "LS701", id="flags one late", marks=SLOW),
        pytest.param("layers_first", HALF_MASKED, "CL403", id="half a state is reset", marks=SLOW),
        pytest.param("qmix_own_env", PADDING_COUNTED, "RP505", id="padding is counted"),
        pytest.param("a3c", NEXT_EPISODE, "VL603", id="the value of a reset is added to an end"),
        pytest.param("whole_td3", OWN_VALUES, "VL604", id="the value of the step itself"),
        pytest.param("vdn", GREEDY_HERE, "VL604", id="greedy actions of the step itself"),
        pytest.param("vdn", VALUED_HERE, "VL604", id="values there, at the next greedy actions"),
        pytest.param("dict_target", STATE_BEHIND, "RP504", id="the state that a step leaves"),
        pytest.param("advantages_after", NO_MASK, "RP505", id="padding behind packed rows"),
        pytest.param("advantages_after", FROM_ONES, "EQ201", id="a pass that begins with ones"),
        pytest.param("two_step_task", REWARD_OF_THE_STEP, "EQ201", id="rewards of the step"),
        pytest.param("rdpg_doubles", TURNED_ROUND, "RP502", id="episodes turned round"),
        pytest.param("rdpg_doubles", NO_MEMORY, "EQ201", id="a pass without memory"),
        pytest.param(
            "runner_object", OVER_A_RESET, "CL403", id="a memory stays over a reset", marks=SLOW
        ),
        pytest.param(
            "runner_object", NEXT_FROM_AHEAD, "VL604", id="a value from ahead", marks=SLOW
        ),
    ],
)
def test_a_fault_is_named(
    rnncheck: Any, tmp_path: Path, name: str, change: Change, code: str
) -> None:
    assert judged(rnncheck, tmp_path, name, code, change) == (ExitCode.FAILED, [code])


@pytest.mark.slow
def test_arrays_are_taken_as_the_rollout_returned_them(rnncheck: Any, tmp_path: Path) -> None:
    """It made them of lists, and who called it binds them anew."""
    code = judged(rnncheck, tmp_path, "asarray_ppo2", "LS701", *RETURNS_LATER)
    assert code == (ExitCode.VERIFIED, [])
    later = *RETURNS_LATER, START_OF_NEXT
    assert judged(rnncheck, tmp_path, "asarray_ppo2", "LS701", *later) == (
        ExitCode.FAILED,
        ["LS701"],
    )


def test_rows_that_are_whole_episodes_need_no_flag(rnncheck: Any, tmp_path: Path) -> None:
    path = written(tmp_path, (OTHERS / "qmix.py").read_text())
    _, told, _ = run(rnncheck, "--select", "BD301,BD302,BD303,EQ201", path)
    outcomes = {one["code"]: one["outcome"] for one in told["checks"]}
    assert outcomes == {
        "BD301": "not-applicable",
        "BD302": "passed",
        "BD303": "not-applicable",
        "EQ201": "passed",
    }


@pytest.mark.slow
def test_a_compiled_loss_runs_as_it_does_alone(rnncheck: Any, tmp_path: Path) -> None:
    """Cut into other graphs, it would run out of the mode that the loss module sets in one."""
    assert judged(rnncheck, tmp_path, "compiled_ppo", "LS706,VL602") == (ExitCode.VERIFIED, [])


def test_a_limit_that_is_stored_as_an_end_is_a_warning(rnncheck: Any, tmp_path: Path) -> None:
    """Of ends and limits the memory keeps one flag alone."""
    change = (
        "push(o, a, r, no, terminated, cutoff",
        "push(o, a, r, no, terminated or truncated, cutoff",
    )
    code, found = judged(rnncheck, tmp_path, "td3_late_actor", "VL603", change)
    assert (code, found) == (ExitCode.VERIFIED, ["VL603"])
    assert judged(rnncheck, tmp_path, "td3_late_actor", "VL603") == (ExitCode.VERIFIED, [])


ONE_FLAG = ("False, self.steps >= self.T, {}", "self.steps >= self.T, {}")
FOUR_PARTS = (
    "s2, r, terminated, truncated, _ = env.step(a)\n            done = terminated or truncated",
    "s2, r, done, _ = env.step(a)",
)


def test_a_limit_of_time_alone_is_no_end(rnncheck: Any, tmp_path: Path) -> None:
    """The env never ends by itself, and the targets leave nothing out."""
    told = judged(rnncheck, tmp_path, "endless_rdpg", "VL603")
    assert told == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_one_flag_at_one_length_may_be_a_limit_of_time(rnncheck: Any, tmp_path: Path) -> None:
    told = judged(rnncheck, tmp_path, "endless_rdpg", "VL603", ONE_FLAG, FOUR_PARTS)
    assert told == (ExitCode.VERIFIED, ["VL603"])


@pytest.mark.slow
def test_a_limit_that_is_an_end_to_agents_is_a_warning(rnncheck: Any, tmp_path: Path) -> None:
    """The env tells both apart, and the script makes the agents' flags of them."""
    change = ('td["next", k].unsqueeze(-2)', 'td["next", "done"].unsqueeze(-2)')
    assert judged(rnncheck, tmp_path, "ippo", "VL603", change) == (ExitCode.VERIFIED, ["VL603"])
    assert judged(rnncheck, tmp_path, "ippo", "VL603") == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize("name", ["endless", "continuing"])
def test_what_a_reset_would_do_is_not_known(rnncheck: Any, tmp_path: Path, name: str) -> None:
    """The env never ends, and nothing reads a flag."""
    path = written(tmp_path, (OTHERS / f"{name}.py").read_text())
    code, told, _ = run(rnncheck, "--select", "BD301,BD303,EQ201", path)
    outcomes = {one["code"]: one["outcome"] for one in told["checks"]}
    assert (code, failed(told)) == (ExitCode.NOT_SHOWN, [])
    assert outcomes == {"BD301": "could-not-look", "BD303": "could-not-look", "EQ201": "passed"}


def test_what_it_prints_is_printed_once(rnncheck: Any, tmp_path: Path) -> None:
    """Its lines are run again to be told, and to be judged."""
    path = written(tmp_path, (OTHERS / "packed_ppo.py").read_text())
    *_, done = run(rnncheck, "--select", "EQ201", path)  # the report is what stdout has
    updates = re.findall(r"ended after (\d+) optimiser steps", done.stderr)
    assert len(re.findall("^upd ", done.stderr, re.MULTILINE)) == int(updates[0])


def test_weights_that_learn_are_not_said_to_get_no_gradient(rnncheck: Any, tmp_path: Path) -> None:
    """The script's own backward gives them one; what is judged of its loss does not."""
    path = written(tmp_path, (OTHERS / "option_critic.py").read_text())
    code, told, _ = run(rnncheck, "--select", "GR803", path)
    (check,) = told["checks"]
    assert (code, check["outcome"]) == (ExitCode.NOT_SHOWN, "could-not-look")
    assert "own backward gives `" in check["reason"]


def test_targets_of_rewards_that_were_not_seen_are_not_judged(
    rnncheck: Any, tmp_path: Path
) -> None:
    """What is observed behind an end moves the loss, and no reward of the batch does."""
    text = (OTHERS / "retrace.py").read_text()
    always = ("nxt = torch.zeros(()) if ep.terminated else v[T]", "nxt = v[T]")
    code, told, _ = run(rnncheck, "--select", "VL603", written(tmp_path, text, always))
    (check,) = told["checks"]
    assert (code, check["outcome"]) == (ExitCode.NOT_SHOWN, "could-not-look")
    assert "with no reward" in check["reason"]
    assert judged(rnncheck, tmp_path, "retrace", "VL603") == (ExitCode.VERIFIED, [])


def test_a_number_of_each_episode_is_no_constant(rnncheck: Any, tmp_path: Path) -> None:
    """What is expected behind each end is read by the loss, and no other batch would change it."""
    text = (OTHERS / "advantages_after.py").read_text()
    path = written(tmp_path, text, USED_AS_AN_END)
    code, told, _ = run(rnncheck, "--select", "LS701", path)
    (check,) = told["checks"]
    assert (code, check["outcome"]) == (ExitCode.NOT_SHOWN, "not-applicable")
    assert "a number of each episode" in str(told)
