"""``rnncheck`` and ``python -m rnncheck``. Ctrl-C has a meaning before anything is imported."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """The console script."""
    for one, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, lambda *_, code=code: os._exit(code))
    from rnncheck.cli.app import main as command

    command()


if __name__ == "__main__":
    main()
