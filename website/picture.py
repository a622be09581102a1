"""``python -m website.picture``: the picture of the HTML report that README shows, made anew.

It takes a Chromium; `make picture` runs it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent
SHOWN = "fixtures/broken/wr103_missing_state_primer.yaml"
ASKED = ("--select", "WR", "--select", "CL")  # as README says
GOAL = ROOT / "docs" / "drawings" / "report.png"
SIZE = (1000, 880)  # pixels: README's column is some 900 wide
COLOURS = 128  # of the palette: text on a plain ground, its edges and three strong colours
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Nothing is asked of the network, and no profile is kept.
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def main() -> None:
    """Verify, render, photograph."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"no browser: install one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder:
        page, photo = Path(folder, "report.html"), Path(folder, "report.png")
        _report(page)
        photograph(browser, page, photo, SIZE)
        with Image.open(photo) as picture:
            picture.convert("RGB").quantize(COLOURS).save(GOAL, optimize=True)


def _report(page: Path) -> None:
    command = [sys.executable, "-m", "rnncheck", "verify", SHOWN, *ASKED]
    done = subprocess.run([*command, "--report", f"html={page}"], cwd=ROOT, check=False)
    if not page.exists():
        sys.exit(done.returncode)


def photograph(browser: str, page: Path, photo: Path, size: tuple[int, int]) -> None:
    """A picture of a page as a browser shows it."""
    wide, high = size
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser,
                *QUIET,
                f"--user-data-dir={profile}",
                f"--window-size={wide},{high}",
                f"--screenshot={photo}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )


if __name__ == "__main__":
    main()
