"""``python -m website FOLDER`` writes the sources of the site into FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from website.stage import stage

if __name__ == "__main__":
    stage(Path(sys.argv[1]))
