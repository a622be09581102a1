"""``rnncheck run``: losses that are given a state beside their batch."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.forms.states_beside import with_states
from rnncheck.watching.seen import Called, Modes
from tests.watching.chunks_script import NO_DECAY, NOT_CARRIED, SCRIPT
from tests.watching.scripts import failed, run, written

ASKED = ("--select", "EQ201", "--select", "LS701", "--select", "GR805", "--select", "CL406")


@pytest.mark.slow
def test_a_state_that_is_carried_from_chunk_to_chunk(rnncheck: Any, tmp_path: Path) -> None:
    """Its pass is one weighted sum, and what it learns from is normalised over all chunks."""
    path, kept = written(tmp_path, SCRIPT), tmp_path / "seen.rnncheck"
    ended, found, _ = run(rnncheck, *ASKED, "--save", kept, path)
    assert (ended, failed(found)) == (ExitCode.VERIFIED, [])
    again = rnncheck("verify", str(kept), *ASKED)  # the lines that make targets are not kept
    assert again.returncode == ExitCode.NOT_SHOWN, again.stdout
    assert "shown      agreement, isolation, learning" in again.stdout


@pytest.mark.parametrize("fault", [NOT_CARRIED, pytest.param(NO_DECAY, marks=pytest.mark.slow)])
def test_one_that_is_lost_between_chunks_is_told(
    rnncheck: Any, tmp_path: Path, fault: tuple[str, str]
) -> None:
    ended, found, _ = run(rnncheck, *ASKED, written(tmp_path, SCRIPT, fault))
    assert ended == ExitCode.FAILED
    assert "EQ201" in failed(found)


def loss(batch: TensorDict, state: tuple[torch.Tensor, float]) -> torch.Tensor:
    return (batch["x"].sum(1) + state[0]).sum() * state[1]


def called(*states: torch.Tensor) -> tuple[Called, list[TensorDict]]:
    """A loss that was called once with each state, on batches that store random ones."""
    draw = torch.Generator().manual_seed(0)
    batches = [
        TensorDict(
            {name: torch.randn(3, 5, 2, generator=draw) for name in ("x", "h")}
            | {"next": {"h": torch.randn(3, 5, 2, generator=draw)}},
            [3, 5],
        )
        for _ in states
    ]
    given = [{"state": (one, 2.0)} for one in states]
    made = Called(partial(loss, state=given[0]["state"]), None, Modes(None, None), batches)  # type: ignore[arg-type]
    made.beside = given
    return made, batches


def test_the_state_is_that_of_the_batch_where_it_was_at_every_call() -> None:
    made, batches = called(torch.zeros(3, 2), torch.zeros(3, 2))
    made.beside = [{"state": (one["h"][:, 0] * 1.01, 2.0)} for one in batches]
    found = with_states(made, [])
    other = batches[1].clone()
    assert torch.equal(found.module(other), loss(other, (other["h"][:, 0], 2.0)))


@pytest.mark.parametrize("size", [0.0, 1.0])
def test_another_state_stays_what_it_was(size: float) -> None:
    made, _ = called(torch.full((3, 2), size), torch.full((3, 2), size))
    assert with_states(made, []) is made


@pytest.mark.parametrize("where", ["next", "rolled"])
def test_the_state_of_the_step_beside_is_another(where: str) -> None:
    """However slowly it changes."""
    made, batches = called(torch.zeros(3, 2), torch.zeros(3, 2))
    for one in batches:
        one["next", "h"] = 1.05 * one["h"]
    moved = [one["h"][:, 0].roll(1, 0) for one in batches]
    beside = [one["next", "h"][:, 0] for one in batches] if where == "next" else moved
    made.beside = [{"state": (one, 2.0)} for one in beside]
    assert with_states(made, []) is made
