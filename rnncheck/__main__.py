"""``rnncheck`` and ``python -m rnncheck``. Ctrl-C has a meaning before anything is imported."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """The console script."""
    for one, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, lambda *_, code=code: os._exit(code))
    from rnncheck.bench.early import begin_early, end_early
    from rnncheck.importing import import_ahead

    begin_early(sys.argv[1:])
    try:
        import_ahead("rnncheck.cli.app")
        from rnncheck.cli.app import main as command

        command()
    finally:
        end_early()


if __name__ == "__main__":
    main()
