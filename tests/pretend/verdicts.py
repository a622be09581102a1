"""What every check says of specs, on the CPU or on the pretended device, as JSON:

python -m tests.pretend.verdicts LIBRARY DEVICE SPEC ...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.collect import RunCollector
from rnncheck.spec.load import load_spec
from tests.pretend.device import load


def outcomes(path: str, device: str) -> dict[str, str]:
    """The outcome of each stage and check."""
    spec, collector = load_spec(Path(path), [f"device={device}"]), RunCollector()
    for event in verify_events(spec, select_rules(spec)):
        collector(event)
    run = collector.finish(interrupted=False, seconds=0.0)
    stages = {str(one.stage): str(one.outcome) for one in run.stages}
    return stages | {one.code: str(one.outcome) for one in run.checks}


if __name__ == "__main__":
    library, where, *paths = sys.argv[1:]
    load(Path(library))
    print(json.dumps({path: outcomes(path, where) for path in paths}))
