"""What people check an env with today, asked about every fault of the fixtures: `make
check-peers`.

Each broken pipeline under `fixtures/broken` and `fixtures/training` is built up to its env.
TorchRL's `check_env_specs` gets that env, as a collector would step it. Gymnasium's and
Stable-Baselines3's `check_env` get the Gymnasium env inside it, where there is one. A checker sees
the fault where it raises; its warnings are counted apart. Each is asked about the healthy near
misses too.

    python benchmarks/env_checkers.py [--json PATH]

Stable-Baselines3 is asked where it is installed (`pip install --no-deps stable-baselines3`).
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium

from rnncheck.errors import RnncheckError, first_line
from rnncheck.pipeline.assembly.builder import Builder
from rnncheck.pipeline.guard.process import calm, keeping_randomness
from rnncheck.pipeline.recording.random_play import complaint
from rnncheck.results.model import Stage
from rnncheck.spec.load import load_spec

FIXTURES = Path(__file__).parent.parent / "fixtures"
BEFORE_DATA = (Stage.ENV, Stage.POLICY, Stage.CRITIC)


@dataclass(frozen=True)
class Answer:
    """What one checker says of one pipeline: ``raised`` is its complaint, empty where it has none;
    ``asked`` is false where it takes no such env."""

    spec: str
    healthy: bool
    checker: str
    asked: bool
    raised: str = ""
    warned: int = 0


def specs() -> Iterator[tuple[Path, bool]]:
    """Every fault's pipeline and its near misses, and whether each is healthy."""
    for path in sorted([*(FIXTURES / "broken").glob("*.yaml"), *_of_training()]):
        yield path, path.stem.endswith("_near_miss")


def _of_training() -> Iterable[Path]:
    return (FIXTURES / "training").glob("[a-z][a-z][0-9][0-9][0-9]_*.yaml")


def answers(path: Path, healthy: bool) -> Iterator[Answer]:
    """What each checker says of one pipeline's env."""
    name = path.relative_to(FIXTURES).as_posix()
    with keeping_randomness(), calm(), Builder(load_spec(path)) as builder:
        for stage in BEFORE_DATA:
            builder.run(stage)
        pipeline = builder.pipeline
        env = pipeline.env if pipeline is not None else None
        asked = [("check_env_specs", None if env is None else lambda: complaint(env))]
        asked += [(each, _on_gymnasium(each, env)) for each in GYMNASIUM if _installed(each)]
        for checker, ask in asked:
            yield _answer(Answer(name, healthy, checker, ask is not None), ask)


def _answer(answer: Answer, ask: Callable[[], str | None] | None) -> Answer:
    if ask is None:
        return answer
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        raised = ask() or ""
    return Answer(**asdict(answer) | {"raised": raised, "warned": len(caught)})


def _installed(checker: str) -> bool:
    return find_spec(GYMNASIUM[checker].partition(".")[0]) is not None


# The checkers of Gymnasium envs, and where each is.
GYMNASIUM = {
    "gymnasium check_env": "gymnasium.utils.env_checker",
    "SB3 check_env": "stable_baselines3.common.env_checker",
}


def _on_gymnasium(checker: str, env: Any) -> Callable[[], str | None] | None:
    inner = _gymnasium_env(env)
    if inner is None:
        return None
    check = import_module(GYMNASIUM[checker]).check_env

    def ask() -> str | None:
        try:
            check(inner)
        except Exception as error:  # they assert, and the env may raise anything
            return first_line(error) or type(error).__name__
        return None

    return ask


def _gymnasium_env(env: Any) -> Any:
    """The Gymnasium env that a TorchRL env steps, without the wrappers around it."""
    while env is not None and not isinstance(env, gymnasium.Env):
        env = getattr(env, "base_env", None) if hasattr(env, "transform") else _wrapped(env)
    return None if env is None else env.unwrapped


def _wrapped(env: Any) -> Any:
    return vars(env).get("_env")


def table(found: Iterable[Answer]) -> list[str]:
    """How many faults each checker raises for, and how many healthy pipelines, as Markdown."""
    rows = list(found)
    lines = [
        "| checker | faults it raises for | healthy pipelines it raises for |",
        "|---|---|---|",
    ]
    for checker in dict.fromkeys(row.checker for row in rows):
        cells = [
            _share([r for r in rows if r.checker == checker and r.healthy is h])
            for h in (False, True)
        ]
        lines.append(f"| {checker} | {cells[0]} | {cells[1]} |")
    return lines


def _share(rows: list[Answer]) -> str:
    asked = [row for row in rows if row.asked]
    raised, warned = (sum(map(bool, each)) for each in zip(*_heard(asked), strict=True))
    return f"{raised} of {len(rows)} ({len(asked)} asked, {warned} with warnings)"


def _heard(rows: list[Answer]) -> list[tuple[str, int]]:
    return [("", 0), *((row.raised, row.warned) for row in rows)]


def main() -> None:
    """Ask, print each complaint, then the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--json", type=Path, help="keep every answer here")
    path = parser.parse_args().json
    found: list[Answer] = []
    for spec, healthy in specs():
        try:
            found += answers(spec, healthy)
        except RnncheckError as error:
            print(f"{spec.stem}: {first_line(error)}", file=sys.stderr)
        for answer in found[-3:]:
            if answer.raised and answer.spec.endswith(spec.name):
                print(f"{spec.stem}: {answer.checker}: {answer.raised[:100]}", flush=True)
    print(*table(found), sep="\n")
    if path is not None:
        path.write_text(json.dumps([asdict(answer) for answer in found], indent=1), "utf-8")


if __name__ == "__main__":
    main()
