"""False alarms over many seeds: `make seeds N=50`.

Runs `verify` on every healthy fixture with seeds 0 to N-1 in one process, and prints each check
that failed, errored or raised. Nothing but the summary is printed where none did.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from rnncheck.errors import RnncheckError
from rnncheck.results.model import Outcome, Run, Severity

FIXTURES = Path(__file__).parent.parent / "fixtures"


def healthy() -> list[Path]:
    """Every fixture without a fault."""
    broken = sorted((FIXTURES / "broken").glob("*_near_miss.yaml"))
    training = [p for p in sorted((FIXTURES / "training").glob("*.yaml")) if not _names_fault(p)]
    return [*_in("specs"), *_in("pipelines"), *broken, *training]


def _in(folder: str) -> list[Path]:
    return sorted((FIXTURES / folder).glob("*.yaml"))


def _names_fault(path: Path) -> bool:
    prefix = path.stem.partition("_")[0]
    return len(prefix) == len("vl604") and prefix[:2].isalpha() and prefix[2:].isdigit()


def alarms(run: Run) -> Iterator[str]:
    """Each check or stage that says something is wrong, in one line."""
    for stage in run.stages:
        if stage.outcome is Outcome.ERROR:
            yield f"stage {stage.stage}: {stage.detail.splitlines()[-1:]}"
    for check in run.checks:
        if check.outcome is Outcome.ERROR:
            yield f"{check.code} error: {check.reason}"
        for finding in check.findings if check.outcome is Outcome.FAILED else ():
            kind = "" if check.severity is Severity.ERROR else " (warning)"
            yield (
                f"{check.code}{kind} [{finding.stage}] {finding.message} ({finding.measured} >"
                f" {finding.bound})"
            )


def one(path: Path, seed: int, overrides: Sequence[str]) -> tuple[list[str], Counter[str]]:
    """The alarms of one run, and how its checks ended."""
    from rnncheck.api import verify

    try:
        run = verify(path, seed=seed, overrides=overrides)
    except RnncheckError as error:
        return [f"raised {type(error).__name__}: {error}"], Counter()
    told = list(alarms(run))
    if run.exit_code and not told:
        told = [f"exit {int(run.exit_code)}"]
    return told, Counter(str(check.outcome) for check in run.checks)


def sweep(paths: Sequence[Path], seeds: Sequence[int], overrides: Sequence[str]) -> int:
    """Seed by seed over all specs, so that a sweep that is stopped has seen each of them. The
    number of runs with an alarm."""
    bad, endings = 0, Counter[str]()
    for seed in seeds:
        begin = time.perf_counter()
        for path in paths:
            told, ended = one(path, seed, overrides)
            bad, endings = bad + bool(told), endings + ended
            for line in told:
                print(f"{path.parent.name}/{path.stem} seed {seed}: {line}", flush=True)
        print(f"seed {seed}: {len(paths)} specs, {time.perf_counter() - begin:.1f} s", flush=True)
    told_endings = ", ".join(f"{count} {name}" for name, count in endings.most_common())
    print(f"{len(paths) * len(seeds)} runs, {bad} with an alarm; checks: {told_endings}")
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="*", type=Path, help="default: every healthy fixture")
    parser.add_argument("-n", type=int, default=50, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--without", action="append", default=[], help="names to leave out")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="as of verify")
    given = parser.parse_args()
    paths = [path for path in given.specs or healthy() if path.stem not in given.without]
    torch.set_num_threads(1)
    sys.exit(bool(sweep(paths, range(given.first, given.first + given.n), given.overrides)))


if __name__ == "__main__":
    main()
