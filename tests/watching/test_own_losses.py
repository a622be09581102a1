"""``rnncheck run``: what a loss of the script's own is decorated with, trains, and weighs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import steps_script as scripts
from tests.watching.next_values_script import OWN, changed
from tests.watching.scripts import failed, planted, run
from tests.watching.steps_script import GIVEN, JUDGED, OF_ACTIONS, Change

SLOW = pytest.mark.slow


def ran(rnncheck: Any, folder: Path, text: str, codes: str) -> tuple[int, list[str]]:
    (folder / "train.py").write_text(text)
    code, told, _ = run(rnncheck, "--select", codes, folder / "train.py")
    return code, failed(told)


def test_an_optimiser_without_the_memory(rnncheck: Any, tmp_path: Path) -> None:
    found = ran(rnncheck, tmp_path, changed(OWN, scripts.WITHOUT_MEMORY), "GR803,GR806")
    assert found == (ExitCode.FAILED, ["GR806"])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="all in one"),
        pytest.param((scripts.ADDED_LATER,), id="added later", marks=SLOW),
        pytest.param((scripts.ANOTHER_ONE,), id="in another one", marks=SLOW),
        pytest.param((scripts.FROZEN,), id="frozen"),
    ],
)
def test_every_parameter_has_an_optimiser(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...]
) -> None:
    _, found = ran(rnncheck, tmp_path, changed(OWN, *changes), "GR806")
    assert found == []


def test_a_saved_run_knows_what_was_stepped(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(changed(OWN, scripts.WITHOUT_MEMORY))
    kept = tmp_path / "seen.rnncheck"
    rnncheck("run", "--save", str(kept), "--select", "WR101", "train.py", cwd=tmp_path)
    again = rnncheck("verify", "--select", "GR806", str(kept), cwd=tmp_path)
    assert again.returncode == ExitCode.FAILED, again.stdout
    assert "GR806" in again.stdout


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(scripts.DECORATED, (ExitCode.VERIFIED, []), id="recurrent"),
        pytest.param(scripts.STEP_BY_STEP, (ExitCode.FAILED, ["LS703"]), id="step by step"),
        pytest.param(scripts.CALLED_IN_IT, (ExitCode.VERIFIED, []), id="called in it", marks=SLOW),
        pytest.param(
            scripts.CALLED_OUT_OF_IT,
            (ExitCode.FAILED, ["LS703"]),
            id="called out of it",
            marks=SLOW,
        ),
    ],
)
def test_a_loss_keeps_its_mode(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], expected: tuple[int, list[str]]
) -> None:
    assert ran(rnncheck, tmp_path, changed(OWN, *changes), "LS703") == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="whole", marks=SLOW),
        pytest.param((scripts.CUT_SOMETIMES,), (ExitCode.VERIFIED, []), id="cut sometimes"),
        pytest.param(
            (scripts.CUT,),
            (ExitCode.FAILED, ["GR801"]),
            id="cut at every step",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_graph_of_a_critic_that_never_acts(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], expected: tuple[int, list[str]]
) -> None:
    assert ran(rnncheck, tmp_path, changed(JUDGED, *changes), "GR801") == expected


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), [], id="its own"),
        pytest.param((scripts.OF_THE_STEP_BEFORE,), ["LS707"], id="of the step before"),
        pytest.param((scripts.OF_THE_STEP_BEHIND,), ["LS707"], id="of the step behind", marks=SLOW),
        pytest.param((scripts.FEW_STEPS,), [], id="its own, of few steps", marks=SLOW),
        pytest.param(
            (scripts.FEW_STEPS, scripts.OF_THE_STEP_BEFORE), ["LS707"], id="before, of few steps"
        ),
        pytest.param(
            (*scripts.SHOWN, scripts.OF_THE_STEP_BEFORE),
            [],
            id="as the policy is shown",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (*scripts.SHOWN, scripts.OF_THE_STEP_BEHIND), ["LS707"], id="another one", marks=SLOW
        ),
    ],
)
def test_actions_that_a_critic_reads(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], expected: list[str]
) -> None:
    _, found = ran(rnncheck, tmp_path, changed(OF_ACTIONS, *changes), "LS707")
    assert found == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((scripts.JOINED,), (ExitCode.VERIFIED, []), id="recurrent"),
        pytest.param(
            (scripts.JOINED, scripts.IN_STEPS), (ExitCode.FAILED, ["LS703"]), id="step by step"
        ),
    ],
)
def test_a_loss_without_a_gradient_at_what_is_observed(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], expected: tuple[int, list[str]]
) -> None:
    assert ran(rnncheck, tmp_path, changed(OWN, *changes), "LS703") == expected


def test_an_own_unroll_without_a_gradient_at_what_is_observed(
    rnncheck: Any, tmp_path: Path
) -> None:
    text = changed(JUDGED, scripts.CUT_FROM_BATCH)
    assert ran(rnncheck, tmp_path, text, "GR801") == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_a_saved_loss_keeps_the_mode_it_was_called_in(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(changed(OWN, *scripts.CALLED_IN_IT))
    kept = tmp_path / "seen.rnncheck"
    rnncheck("run", "--save", str(kept), "--select", "WR101", "train.py", cwd=tmp_path)
    again = rnncheck("verify", "--select", "LS703", str(kept), cwd=tmp_path)
    assert again.returncode == ExitCode.VERIFIED, again.stdout


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="made in the loop", marks=pytest.mark.slow),
        pytest.param(
            (scripts.RUN_ON,),
            (ExitCode.FAILED, ["LS701"]),
            id="run on over ends",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_returns_that_a_loss_is_given_beside_its_batch(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], expected: tuple[int, list[str]]
) -> None:
    assert ran(rnncheck, tmp_path, changed(GIVEN, *changes), "LS701,LS704") == expected


def test_returns_that_no_line_makes_again_are_not_shown(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(GIVEN, scripts.MADE_ELSEWHERE, scripts.RUN_ON)
    assert ran(rnncheck, tmp_path, text, "LS701,LS704")[0] == ExitCode.NOT_SHOWN


@pytest.mark.slow
def test_weights_of_slices_are_no_estimates(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(OWN, *scripts.WEIGHED)
    assert ran(rnncheck, tmp_path, text, "LS701,RP505,VL603") == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="averaged"),
        pytest.param((scripts.NEVER_AVERAGED,), (ExitCode.NOT_SHOWN, []), id="never"),
    ],
)
def test_a_moving_average_that_acts(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], expected: tuple[int, list[str]]
) -> None:
    text = changed(scripts.AVERAGED, *changes)
    assert ran(rnncheck, tmp_path, text, "GR803,GR806") == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((scripts.DRAWN,), [], id="drawn", marks=SLOW),
        pytest.param(
            (scripts.DRAWN, scripts.NEVER_BEGUN), ["LS701"], id="drawn and never begun", marks=SLOW
        ),
        pytest.param((scripts.OF_FINISHED,), [], id="less a mean", marks=SLOW),
        pytest.param(
            (scripts.OF_FINISHED, scripts.RETURNS_RUN_ON),
            ["LS701"],
            id="less a mean and run on",
            marks=SLOW,
        ),
    ],
)
def test_statistics_and_drawn_numbers_beside_what_runs_on(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], expected: list[str]
) -> None:
    _, found = ran(rnncheck, tmp_path, changed(JUDGED, *changes), "LS701")
    assert found == expected


@pytest.mark.parametrize(
    "change", [scripts.FORGETTING, pytest.param(scripts.WITHOUT_STATE, marks=SLOW)]
)
def test_a_critic_that_is_never_handed_its_state(
    rnncheck: Any, tmp_path: Path, change: Change
) -> None:
    found = ran(rnncheck, tmp_path, changed(JUDGED, change), "LS703")
    assert found == (ExitCode.FAILED, ["LS703"])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="from its state", marks=pytest.mark.slow),
        pytest.param(
            (scripts.FROM_ZERO,),
            (ExitCode.FAILED, ["CL406"]),
            id="from zero",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_switch_that_is_an_attribute_of_the_class(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], expected: tuple[int, list[str]]
) -> None:
    text = changed(scripts.SWITCHED, *changes)
    assert ran(rnncheck, tmp_path, text, "CL406") == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), [], id="both", marks=SLOW),
        pytest.param((scripts.NEVER_BEGUN,), ["LS701"], id="the critic runs on", marks=SLOW),
    ],
)
def test_every_loss_that_a_module_gives_is_judged(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], expected: list[str]
) -> None:
    _, found = ran(rnncheck, tmp_path, changed(scripts.PAIR, *changes), "LS701,LS704")
    assert found == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), [], id="healthy", marks=pytest.mark.slow),
        pytest.param((scripts.NEVER_BEGUN,), ["LS701"], id="it runs on", marks=SLOW),
        pytest.param(
            (scripts.CUT,), ["GR801"], id="it is cut at every step", marks=pytest.mark.slow
        ),
    ],
)
def test_the_loss_of_a_critic_that_never_acts_is_judged(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], expected: list[str]
) -> None:
    _, found = ran(rnncheck, tmp_path, changed(scripts.APART, *changes), "LS701,GR801")
    assert found == expected


@pytest.mark.slow
def test_a_state_that_is_the_last_action(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(OWN, *scripts.REMEMBERING)
    assert ran(rnncheck, tmp_path, text, "RP507,CL402,CL406") == (ExitCode.VERIFIED, [])


def test_an_ensemble_under_vmap_is_let_through(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(JUDGED, *scripts.ENSEMBLE)
    assert ran(rnncheck, tmp_path, text, "LS703,GR806") == (ExitCode.VERIFIED, [])


MOVED = (
    "        data = split_trajectories(",
    "        data = data.to(next(memory.parameters()).device)\n        data = split_trajectories(",
)


@pytest.mark.slow
def test_a_batch_that_is_bound_anew_twice(rnncheck: Any, tmp_path: Path) -> None:
    """Its lines begin behind the second: what parts it into trajectories has done so."""
    codes = ("--select", "LS,RP505")
    path = planted(tmp_path, "padded_switch.py", MOVED)
    assert run(rnncheck, *codes, path)[0] == ExitCode.VERIFIED
    counted = ("advantage.square()[mask].mean()", "advantage.square().mean()")
    code, told, _ = run(rnncheck, *codes, planted(tmp_path, "padded_switch.py", MOVED, counted))
    assert (code, failed(told)) == (ExitCode.FAILED, ["RP505"])


@pytest.mark.slow
def test_a_mask_that_is_bound_with_the_batch(rnncheck: Any, tmp_path: Path) -> None:
    """The lines begin where the batch is bound first: what goes along with it is made again."""
    path = planted(
        tmp_path,
        "padded_switch.py",
        (
            'def actor_critic_loss(out, data):\n    mask = data["collector", "mask"]\n',
            "def actor_critic_loss(out, data, mask):\n",
        ),
        ("loss = actor_critic_loss(out, data)", "loss = actor_critic_loss(out, data, mask)"),
        (
            "        memory.unroll = True\n",
            '        mask = data["collector", "mask"]\n'
            '        ended = data["next", "done"].any(1).squeeze(-1)\n'
            "        data, mask = data[ended], mask[ended]\n"
            "        memory.unroll = True\n",
        ),
    )
    assert run(rnncheck, "--select", "LS", path)[0] == ExitCode.VERIFIED


UNROLLED = (
    ('out["value"]', "value"),
    (
        "def main():",
        "def unroll(network, batch):\n"
        "    with set_recurrent_mode(True):\n"
        '        out = network(batch.select("observation", "is_init", "recurrent_state"))\n'
        '    return out["logits"], out["value"]\n\n\ndef main():',
    ),
    (
        "        with set_recurrent_mode(True):\n"
        '            out = network(batch.select("observation", "is_init", "recurrent_state"))\n'
        '        dist = Categorical(logits=out["logits"])\n',
        "        logits, value = unroll(network, batch)\n"
        "        dist = Categorical(logits=logits)\n",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "over-ends"])
def test_a_function_that_gives_no_number_is_a_part(
    healthy: bool, rnncheck: Any, tmp_path: Path
) -> None:
    """The lines around it, which make a loss of what it gives, are all of it."""
    over = ("GAMMA * after * (~done[..., step])", "GAMMA * after")
    path = planted(tmp_path, "own_actor_critic.py", *UNROLLED, *(() if healthy else (over,)))
    code, told, _ = run(rnncheck, "--select", "LS701", path)
    expected = (ExitCode.VERIFIED, []) if healthy else (ExitCode.FAILED, ["LS701"])
    assert (code, failed(told)) == expected
