"""The process while the user's pipeline runs in it: no display, few threads, no stray output."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator

import torch
from torchrl._utils import logger

HEADLESS = {"SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}


@contextlib.contextmanager
def calm() -> Iterator[None]:
    """Send the user's prints to standard error, keep warnings down and single steps on one thread.

    One thread unless OMP_NUM_THREADS says otherwise: steps of a batch of one are too small to share, and a second
    thread makes them many times slower on a busy machine.
    """
    for name, value in HEADLESS.items():
        os.environ.setdefault(name, value)
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    for handler in logger.handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(sys.stderr)  # TorchRL logs to standard output, where a report may go
    threads = torch.get_num_threads()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        torch.set_num_threads(threads)
