"""All seams at once: open while a script runs, and closed as if they had never been."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.acting import acting_seams
from rnncheck.watching.seams.acting_modes import acting_mode_seams
from rnncheck.watching.seams.ahead import ahead_seams
from rnncheck.watching.seams.counted_buffers import counted_seams
from rnncheck.watching.seams.flat_steps import flat_seams
from rnncheck.watching.seams.later_carried import later_carried_seams
from rnncheck.watching.seams.later_flags import later_flag_seams
from rnncheck.watching.seams.later_joins import join_seams
from rnncheck.watching.seams.later_openings import later_seams
from rnncheck.watching.seams.left_targets import target_seams
from rnncheck.watching.seams.makings import making_seams
from rnncheck.watching.seams.own_envs import own_env_seams
from rnncheck.watching.seams.own_training import own_training_seams
from rnncheck.watching.seams.parts import parts_seams
from rnncheck.watching.seams.plain_steps import plain_seams
from rnncheck.watching.seams.sent_weights import sending_seams
from rnncheck.watching.seams.stepping import stepping_seams
from rnncheck.watching.seams.tensordict_steps import tensordict_step_seams
from rnncheck.watching.seams.training import training_seams, update_seams


@contextmanager
def opened(watching: Watching) -> Iterator[None]:
    """Inside, the watch notes what passes; once it has seen enough, nothing is in the way of what
    goes on but the seam that says so again."""
    with ExitStack() as whole:
        update_seams(watching, whole)
        target_seams(watching)
        scope = whole.enter_context(ExitStack())
        steps = plain_seams(watching, scope)  # who acted is known before others keep it
        counted_seams(watching, scope)
        acting_mode_seams(watching, scope)
        own_env_seams(watching, scope, steps)
        stepping = stepping_seams(
            watching, scope
        )  # its steps are batches before others look at them
        tensordict_step_seams(watching, steps, stepping)
        flat_seams(watching, scope, steps, stepping)
        acting_seams(watching, scope)
        sending_seams(watching, scope)
        training_seams(watching, scope)
        making_seams(watching, scope)
        own_training_seams(watching, scope)
        ahead_seams(watching, scope)
        later_seams(watching, scope)
        later_flag_seams(watching, scope)
        later_carried_seams(watching, scope)
        join_seams(watching, scope)
        if watching.describes:
            parts_seams(watching, scope)
        watching.when_settled = scope.close
        yield
