"""How small the cases of the broken fixtures become: ``python -m tests.cases.smallest [NAME...]``
prints a row for each."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from rnncheck.cases.keep import Keeping
from rnncheck.cases.model import StoredCase
from rnncheck.cases.store import case_folders, read_case
from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.events import Notice
from rnncheck.spec.load import load_spec

BROKEN = Path(__file__).parents[2] / "fixtures" / "broken"
NAMES = [path.stem for path in sorted(BROKEN.glob("*.yaml")) if "near_miss" not in path.stem]


def case_of(name: str, folder: Path, seconds: float = 10.0) -> StoredCase | str:
    """The case that is stored of a fixture's own check, or why none is."""
    spec = load_spec(folder / f"{name}.yaml")
    rules = select_rules(spec, [name[:5].upper()])
    said = "the check does not fail"
    for event in Keeping(spec, rules, seconds=seconds).events(verify_events(spec, rules)):
        said = event.text if isinstance(event, Notice) else said
    found = case_folders(folder)
    case = read_case(found[0]) if found else said
    for one in found:
        shutil.rmtree(one)
    return case


def row(name: str, case: StoredCase | str) -> str:
    """``| fixture | envs | collected | trained | laid out | tries | seconds |``."""
    if isinstance(case, str):
        return f"| {name} | {case} |"
    made, size = case.reduction, case.reduction.extent
    shapes = [" ".join(map(str, map(list, found))) for found in (size.collected, size.trained)]
    ended = "" if made.ended.startswith("nothing") else f" ({made.ended})"
    cells = (name, size.envs, *shapes, size.steps, made.tries, f"{made.seconds:.1f}{ended}")
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "broken"
        shutil.copytree(BROKEN, folder, ignore=shutil.ignore_patterns(".rnncheck", "__pycache__"))
        print("| fixture | envs | collected | trained | steps laid out | tries | seconds |")
        print("|---|---|---|---|---|---|---|")
        for name in sys.argv[1:] or NAMES:
            print(row(name, case_of(name, folder)), flush=True)


if __name__ == "__main__":
    main()
