"""``rnncheck run`` of scripts of fixtures/others that mix TorchRL's parts with lines of their own,
each by the checks that once took it for something else, as it is and with a fault in its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import OTHERS, run, written
from tests.watching.scripts import judged_other as judged

Change = tuple[str, str]
SLOW = pytest.mark.slow

CUT = ('h, c = o["next", "lstm_h"], o', 'h, c = o["next", "lstm_h"].detach(), o')
NO_STARTS = ('"is_init": b["first"][t]', '"is_init": torch.zeros_like(b["first"][t])')
EMPTY_WINDOW = (
    'mem, valid = td["xl_mem"][:, 0], td["xl_valid"][:, 0]',
    'mem, valid = 0 * td["xl_mem"][:, 0], 0 * td["xl_valid"][:, 0]',
)
ACTS_FROM_ZEROS = ('td["brain_state"] = state', 'td["brain_state"] = 0 * state')
FROM_ZEROS = ('torch.zeros_like(nxt["is_init"])', 'torch.ones_like(nxt["is_init"])')
ALL_STEPS = (
    "valid = (torch.arange(sequence_length)[None] < lengths[:, None]).float()[:, burn_in_length:]",
    "valid = torch.ones_like(expected)",
)
NOT_WARMED = (
    "pred, _ = online_net(full[:, burn_in_length:], online_hidden)",
    "pred, _ = online_net(full[:, burn_in_length:], (hx, cx))",
)
ACTION_OF_THE_STEP = (
    "actions = torch.cat((torch.zeros_like(actions[[0]]), actions), dim=0)",
    "actions = torch.cat((actions, torch.zeros_like(actions[[0]])), dim=0)",
)
NEXT_INTERVAL = ("[T_idxs // self.interval, B_idxs]", "[T_idxs // self.interval + 1, B_idxs]")
ONE_LATE = ("rnn_states[0], length))", "rnn_states[1], length))")
NO_FLAGS = ("rows.extend(data)", 'rows.extend(data.exclude("is_init"))')
TARGET_FROM_ZEROS = (
    "unroll(target_qnet, observation, state)",
    "unroll(target_qnet, observation, state.clone().zero_())",
)
ONE_CRITIC = ("N_CRITICS, GAMMA, TAU = 24, 3,", "N_CRITICS, GAMMA, TAU = 24, 1,")
GATHERED = 'qa = q.gather(-1, b["action"][None, ..., None].expand(N_CRITICS, -1, -1, -1))\n'
OF_ROWS = (
    GATHERED,
    f"{GATHERED}            mean, deviation = qa.mean(2, keepdim=True), qa.std(2, keepdim=True)\n"
    "            qa = (qa - mean) / (deviation + 1e-6)\n",
)
CRITICS_GO_ON = ("            h = h * (~start[:, t]).float()\n", "")
RANDOM_FIRST = (
    "action, new_hidden = get_action(state, online_net, epsilon, env, hidden)",
    "action, new_hidden = (env.action_space.sample(), hidden) if steps < initial_exploration"
    " else get_action(state, online_net, epsilon, env, hidden)",
)
NEVER_STARTS = (
    "a = (1 - z) * (~is_init).to(x.dtype)",
    "a = (1 - z) * (1.0 if recurrent_mode() else (~is_init).to(x.dtype))",
)


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        pytest.param("window_memory", "RP504", id="a window that the state has left"),
        pytest.param("packed_episodes", "BD301,CL406,EQ201", id="lists of whole episodes"),
        pytest.param("scan_rows", "EQ204", id="a scan over the second dimension"),
        pytest.param("last_of_padded", "VL604", id="the value behind padded rows"),
        pytest.param("warmed_r2d2", "RP504,RP505", id="a burn-in by calls of its own"),
        pytest.param("warmed_sequences", "RP504", id="a warm-up from stored states"),
        pytest.param("gail", "RP503", id="a discriminator beside the loss"),
        pytest.param("called_burn_in", "LS706,RP504,RP505,VL604", id="a burn-in of the sample"),
        pytest.param("vmap_critics", "LS701,GR801", id="an ensemble of critics with memory"),
        pytest.param("rewards_of_one", "CL406,EQ201", id="rewards of the step before, all of one"),
    ],
)
def test_healthy_ones_are_verified(rnncheck: Any, tmp_path: Path, name: str, codes: str) -> None:
    assert judged(rnncheck, tmp_path, name, codes) == (ExitCode.VERIFIED, [])


def test_a_burn_in_behind_random_steps_makes_states_of_its_own(
    rnncheck: Any, tmp_path: Path
) -> None:
    """Random steps leave the state at zero, and what is burnt in over them is another one."""
    told = judged(rnncheck, tmp_path, "warmed_r2d2", "RP504", RANDOM_FIRST)
    assert told == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_a_burn_in_behind_random_steps_that_is_left_out(rnncheck: Any, tmp_path: Path) -> None:
    told = judged(rnncheck, tmp_path, "warmed_r2d2", "RP504", RANDOM_FIRST, NOT_WARMED)
    assert told == (ExitCode.FAILED, ["RP504"])


@pytest.mark.slow
def test_a_statistic_of_a_row_is_no_memory(rnncheck: Any, tmp_path: Path) -> None:
    """Values less their mean over a row, by their deviation: its episodes move each other."""
    told = judged(rnncheck, tmp_path, "vmap_critics", "LS701", ONE_CRITIC, OF_ROWS)
    assert told == (ExitCode.VERIFIED, [])


def test_entries_by_names_of_its_own(rnncheck: Any, tmp_path: Path) -> None:
    """Of the values that it makes while it steps nothing is told: they are said, and no fault."""
    path = written(tmp_path, (OTHERS / "own_names.py").read_text())
    code, told, _ = run(rnncheck, "--select", "EQ201,GR801,LS701,RP502,RP504", path)
    assert {one["outcome"] for one in told["checks"]} == {"passed"}
    assert code == ExitCode.NOT_SHOWN


def test_what_is_drawn_anew_is_not_compared(rnncheck: Any, tmp_path: Path) -> None:
    """Latents that are sampled: neither a fault, nor a policy without a recurrent mode."""
    path = written(tmp_path, (OTHERS / "rssm.py").read_text())
    code, told, _ = run(rnncheck, "--select", "EQ201", path)
    (check,) = told["checks"]
    assert (code, check["outcome"]) == (ExitCode.NOT_SHOWN, "could-not-look")
    assert "drawn anew by every run" in check["reason"]


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        pytest.param("own_names", CUT, "GR801", id="the memory is cut"),
        pytest.param("own_names", NO_STARTS, "BD301", id="starts are lost", marks=SLOW),
        pytest.param("window_memory", EMPTY_WINDOW, "RP504", id="an empty window"),
        pytest.param("packed_episodes", ACTS_FROM_ZEROS, "EQ201", id="acting forgets"),
        pytest.param("scan_rows", NEVER_STARTS, "BD301", id="a scan over starts", marks=SLOW),
        pytest.param("last_of_padded", FROM_ZEROS, "VL604", id="a value from zeros"),
        pytest.param("warmed_r2d2", ALL_STEPS, "RP505", id="padding is trained on"),
        pytest.param("warmed_sequences", NEXT_INTERVAL, "RP504", id="states of another step"),
        pytest.param("rewards_of_one", ACTION_OF_THE_STEP, "EQ201", id="actions of the step"),
        pytest.param("gail", NO_FLAGS, "RP503", id="start flags are lost", marks=SLOW),
        pytest.param("called_burn_in", TARGET_FROM_ZEROS, "VL604", id="targets from zeros"),
        pytest.param("vmap_critics", CRITICS_GO_ON, "LS701", id="critics run over starts"),
        pytest.param("warmed_r2d2", NOT_WARMED, "RP504", id="the burn-in is left out", marks=SLOW),
        pytest.param("warmed_r2d2", ONE_LATE, "RP504", id="states of the next step", marks=SLOW),
    ],
)
def test_a_fault_is_named(
    rnncheck: Any, tmp_path: Path, name: str, change: Change, code: str
) -> None:
    assert judged(rnncheck, tmp_path, name, code, change) == (ExitCode.FAILED, [code])
