"""The lines of a loop ahead of ``env.step`` as a function."""

from __future__ import annotations

import linecache
import sys
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn

from rnncheck.watching.seams.acting_block import TAKEN, ActingBlock, acting_block, acting_function


class Env:
    """Looks at the frame that steps it."""

    def __init__(self, first: int) -> None:
        self.first, self.block, self.function = first, None, None

    def step(self, action: Any) -> None:
        frame = sys._getframe(1)
        self.block = acting_block(frame, frame.f_code.co_firstlineno + self.first)
        if self.block is not None:
            self.function = acting_function(self.block, frame)


def run(lines: str, first: int, **names: Any) -> Env:
    """Run the lines in a function of a file of their own; ``first`` is that of the network."""
    text = "def loop(env, " + ", ".join(names) + "):\n" + lines
    path = f"/made/by/test_{abs(hash(text))}.py"
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    space: dict[str, Any] = {"torch": torch}
    exec(compile(text, path, "exec"), space)
    env = Env(first)
    space["loop"](env, **names)
    return env


LOOP = """\
    kept = []
    for _ in range(2):
        x = obs * 1.0
        with torch.no_grad():
            out = net(x) + h
            kept.append(out)
        h = out + 1
        env.step(out.argmax().item())
"""


def test_the_function_does_what_the_lines_do() -> None:
    net = nn.Linear(3, 3)
    env = run(LOOP, 5, net=net, obs=torch.ones(3), h=torch.zeros(3))
    assert isinstance(env.block, ActingBlock)
    assert env.block.reads == {"net", "x", "h"}
    given = {"x": torch.randn(3), "h": torch.randn(3)}
    found = env.function(**given)
    wanted = net(given["x"]) + given["h"]
    assert torch.equal(found["out"], wanted)
    assert torch.equal(found["h"], wanted + 1)
    assert found[TAKEN] == wanted.argmax().item()


def test_records_are_left_out() -> None:
    """The script's list is not written to again."""
    env = run(LOOP, 5, net=nn.Linear(3, 3), obs=torch.ones(3), h=torch.zeros(3))
    assert "kept" not in env.block.names


def test_storages_are_left_out_and_states_are_not() -> None:
    lines = """\
    for t in range(2):
        out = net(obs) + h
        h[:] = out
        rows[t] = out
        env.step(out)
"""
    given = {"net": nn.Linear(3, 3), "obs": torch.ones(3), "h": torch.zeros(3)}
    env = run(lines, 2, **given, rows=torch.zeros(2, 3))
    assert {"h", "obs", "net"} == env.block.reads
    assert "rows" not in env.block.names


def test_attributes_that_hold_data_are_variables() -> None:
    class Owner:
        def __init__(self) -> None:
            self.h, self.net = torch.zeros(3), nn.Linear(3, 3)

    Owner.__module__ = "__main__"  # as in a script
    lines = """\
    for _ in range(1):
        me.h = me.net(obs) + me.h
        env.step(me.h.argmax())
"""
    owner = Owner()
    env = run(lines, 2, me=owner, obs=torch.ones(3))
    assert "me_h" in env.block.reads & env.block.stores
    before = owner.h.clone()
    env.function(me_h=torch.full((3,), 7.0))
    assert torch.equal(owner.h, before)


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        ("    out = net(obs)\n    for _ in range(1):\n        env.step(out)\n", 1),
        ("    for _ in range(1):\n        env.step(net(obs))\n        out = net(obs)\n", 3),
    ],
)
def test_lines_outside_of_the_loop_or_behind_the_step_are_none(lines: str, first: int) -> None:
    assert run(lines, first, net=nn.Linear(3, 3), obs=torch.ones(3)).block is None


def test_a_frame_without_a_file_is_none() -> None:
    found: list[Any] = []

    class Asked:
        def step(self, _action: Any) -> None:
            frame: FrameType = sys._getframe(1)
            found.append(acting_block(frame, 1))

    exec("env.step(1)", {"env": Asked()})
    assert found == [None]
