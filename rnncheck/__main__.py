"""``python -m rnncheck``."""

from rnncheck.cli.app import main

if __name__ == "__main__":
    main()
