"""``rnncheck run``: rows of a memory that go on with the next episode's steps behind their own;
a mask leaves these out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged
from tests.watching.test_default_states import SCRIPT as WHOLE

MEMORY = WHOLE[WHOLE.index("class Memory:") : WHOLE.index("def train(")]
ARRAYS = """class Memory:
    def __init__(self):
        self.count = 0
        self.obs, self.next_obs = np.zeros((4000, 2), np.float32), np.zeros((4000, 2), np.float32)
        self.acts, self.rews = np.zeros(4000, np.int64), np.zeros(4000, np.float32)
        self.done = np.zeros(4000, bool)

    def store(self, *step):
        for name, value in zip(("obs", "acts", "rews", "next_obs", "done"), step):
            getattr(self, name)[self.count] = value
        self.count += 1

    def sample(self):
        over = np.flatnonzero(self.done)
        begins = [0, *(over + 1)]
        chosen = [n for n in range(len(over)) if begins[n] + STEPS < self.count]
        found = []
        for n in np.random.choice(chosen, ROWS, replace=False):
            names = ("obs", "acts", "rews", "next_obs", "done")
            part = slice(begins[n], begins[n] + STEPS)
            row = {name: getattr(self, name)[part].copy() for name in names}
            length = over[n] + 1 - begins[n]
            row["mask"] = (np.arange(STEPS) < length).astype(np.float32)
            found.append(row)
        return found, STEPS


"""
MASK = "    mask = torch.FloatTensor(np.array([one['mask'] for one in samples]))\n"
ERRORS = "(values.gather(-1, actions[..., None])[..., 0] - wanted).square()"
CHANGES = (
    (MEMORY, ARRAYS),
    ("ROWS, STEPS, HIDDEN = 4, 6, 16", "ROWS, STEPS, HIDDEN = 6, 20, 16"),
    ("    values, _ = net.forward", f"{MASK}    values, _ = net.forward"),
    (
        f"    loss = {ERRORS}.mean()",
        f"    errors = {ERRORS}\n    loss = (errors * mask).sum() / mask.sum()",
    ),
)
DROPPED = ("loss = (errors * mask).sum()", "loss = errors.sum()")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="masked"),
        pytest.param((DROPPED,), (ExitCode.FAILED, ["RP505"]), id="counted"),
    ],
)
def test_what_is_masked_is_none_of_the_batch(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    assert judged(rnncheck, tmp_path, "LS701,RP505", WHOLE, *CHANGES, *changes) == expected
