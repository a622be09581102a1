"""Stepping an env with random actions, to watch what it writes."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl._utils import logger
from torchrl.envs import EnvBase
from torchrl.envs.utils import check_env_specs

from rnncheck.errors import first_line
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.subject.env_facts import EnvFacts
from rnncheck.pipeline.subject.heads import rows_done
from rnncheck.pipeline.subject.modes import measuring

# Steps after which a play ends that saw too few ends of episodes. Chosen: CartPole's random policy
# needs about 66 for three; an env of longer episodes costs this many steps and is judged by less.
MOST_STEPS = 256
ENDS_WANTED = 3  # per env, after which enough was seen: chosen, one end may be right by chance
# How TorchRL words keys that are on one side alone; an empty ``set()`` says nothing.
_TOLD = (
    ("only the data have", re.compile(r"keys_in_real_not_in_fake=\{(.*?)\}", re.DOTALL)),
    ("only the specs have", re.compile(r"keys_in_fake_not_in_real=\{(.*?)\}", re.DOTALL)),
)
RESETS_FIRST = 2  # the second comes in the middle of an episode


@dataclass
class FlagErrors:
    """How often a start flag was wrong; ``example`` describes the first time."""

    compared: int = 0
    ends: int = 0
    wrong: int = 0
    example: str = ""
    row: int = 0
    step: int = 0

    def judge(self, flag: Tensor, expected: Tensor, step: int) -> None:
        """Compare one step's flags ``[rows]``."""
        self.compared += flag.numel()
        bad = (flag != expected).nonzero().flatten().tolist()
        self.wrong += len(bad)
        if bad and not self.example:
            self.row, self.step = bad[0], step
            kind = "after a reset" if bool(expected[bad[0]]) else "where nothing was reset"
            self.example = f"{bool(flag[bad[0]])} {kind} (env {bad[0]}, step {step})".lower()


def complaint(env: EnvBase) -> str | None:
    """What TorchRL's ``check_env_specs`` has to say against the env, in one line; its log is kept
    quiet."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with measuring(recurrent=False, explore=True):
            check_env_specs(env)
    except Exception as error:  # the checker asserts, the env may raise anything
        return first_line(error) + _keys_told(str(error))
    finally:
        logger.setLevel(level)
    return None


def _keys_told(text: str) -> str:
    """The keys that TorchRL names below the first line of its complaint."""
    found = (f"{where} {keys}" for where, pattern in _TOLD for keys in pattern.findall(text))
    told = " and ".join(found)
    return f" {told}" if told else ""


def watch_flags(env: EnvBase, key: Key, facts: EnvFacts) -> FlagErrors:
    """Play random actions with automatic resets and hold the flag against resets and dones."""
    errors = FlagErrors()
    always = torch.ones(facts.rows, dtype=torch.bool)
    seen = torch.zeros(facts.rows, dtype=torch.int64)
    with measuring(recurrent=False, explore=True):
        for _ in range(RESETS_FIRST):  # a reset in the middle of an episode is a start too
            td = env.reset()
            errors.judge(flag_of(td, key, facts), always, 0)
            _, td = env.step_and_maybe_reset(env.rand_action(td))
        td = env.reset()
        for step in range(1, MOST_STEPS + 1):
            stepped, td = env.step_and_maybe_reset(env.rand_action(td))
            done = rows_done(stepped["next"], list(facts.done), facts.rank)
            errors.judge(flag_of(td, key, facts), done, step)
            seen += done
            if bool((seen >= ENDS_WANTED).all()):
                break
    errors.ends = int(seen.sum())
    return errors


def flag_of(td: TensorDictBase, key: Key, facts: EnvFacts) -> Tensor:
    """The flag of each env, ``[rows]``; a missing one counts as false."""
    value: Tensor | None = td.get(key, None)
    if value is None:
        return torch.zeros(facts.rows, dtype=torch.bool)
    found: Tensor = on_cpu(value.reshape(facts.rows, -1).any(-1))
    return found
