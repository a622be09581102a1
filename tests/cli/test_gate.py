"""``rnncheck gate`` from the outside: what breaks it, what it leaves open, and what it refuses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rnncheck.cli.app import app

Runner = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[2]
BROKEN = "fixtures/broken/bd302_state_survives_reset.yaml"
SPEC = """schema: 1
name: small
env: {use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}
policy:
  - {use: LSTMModule, in_key: observation, out_key: embed, hidden_size: 4}
  - {use: MLP, in_keys: [embed], out_keys: [action_value], num_cells: [], out_features: auto}
  - QValueModule
verify: {select: [WR10]}
bench: {shapes: [{batch: 4, steps: 8}], interval: 0.5}
gate:
  cells: [{phase: act}]
  budget: 1
"""
BUDGETS = """  budgets:
    - act_ms: {max: 0.0001}
    - act_ms: {max: 100000}
    - speedup: {phase: act, min: 1000}
    - overhead: {phase: act, max: 1000}
    - memory_mib: {phase: act, max: 1000}
    - error: {phase: act, max: 0.001}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


def refused(*args: object) -> str:
    """What is said of a gate that is refused before it builds anything."""
    done = CliRunner().invoke(app, ["gate", *map(str, args)])
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    return done.output


def gate(path: Path) -> list[tuple[str, str]]:
    return [(item["name"], item["ruling"]) for item in json.loads(path.read_text())["gate"]]


@pytest.mark.slow
def test_budgets_are_kept_or_broken_and_what_did_not_run_is_named(
    rnncheck: Runner, spec: Path, tmp_path: Path
) -> None:
    spec.write_text(SPEC + BUDGETS)
    out, table = tmp_path / "run.json", tmp_path / "run.md"
    reports = ["--report", f"json={out}", "--report", f"markdown={table}", "--report", "console"]
    done = rnncheck("gate", str(spec), "--no-verify", *reports)
    assert done.returncode == 5, done.stderr
    assert gate(out) == [
        ("time of own, act, 4", "slower"),
        ("time of own, act, 4", "passed"),
        ("speed-up of own over pad, act, 4", "slower"),
        ("time of own over its bare module's, act, 4", "passed"),
        ("peak memory of own, act, 4", "passed"),
        ("error of own against float64, act, 4", "passed"),
    ]
    stored = json.loads(out.read_text())
    assert stored["command"] == "gate"
    assert (stored["gate"][0]["line"], stored["gate"][0]["column"]) == (14, 7)
    assert len(stored["cells"]) == 3
    assert "not run: the checks" in done.stdout
    assert "act, 4" in table.read_text()


def test_a_baseline_passes_again_and_tells_what_changed(
    rnncheck: Runner, spec: Path, tmp_path: Path
) -> None:
    file, out = tmp_path / "baseline.json", tmp_path / "run.json"
    done = rnncheck("gate", str(spec), "--baseline", str(file), "--update-baseline")
    assert done.returncode == 0, done.stderr
    assert "baseline written" in done.stderr
    made = json.loads(file.read_text())
    assert all(cell["samples"]["wall"] == [] for cell in made["cells"])
    command = ["gate", str(spec), "--baseline", str(file), "--report", f"json={out}"]
    # The machine may be quiet for the baseline and busy for this run: ten times as much is allowed.
    for timing in (cell["timing"] for cell in made["cells"]):
        timing |= {name: 10 * timing[name] for name in ("median", "low", "high")}
    file.write_text(json.dumps(made))
    done = rnncheck(*command, "--max-slowdown", "90%")
    assert done.returncode == 0, done.stderr
    found = dict(gate(out))
    assert found["time of own | act, 4"] == "passed"

    made["environment"]["cpu"] = "another machine"
    by_code = {check["code"]: check for check in made["checks"]}
    by_code["WR101"]["outcome"] = "failed"
    for guarantee in made["guarantees"]:  # of its checks none is asked here
        guarantee["standing"] = "shown"
    made["cells"].append({**made["cells"][0], "cell": {**made["cells"][0]["cell"], "batch": 5}})
    file.write_text(json.dumps(made))
    broken = "gate.budgets=[{speedup: {phase: act, variant: triton, min: 1}}]"
    done = rnncheck(*command, "--set", broken)
    assert done.returncode == 1, done.stderr
    found = dict(gate(out))
    assert found["spec"] == "noted"
    assert found["time of own | act, 4"] == "not comparable"
    assert found["speed-up over pad of own | act, 4"] in ("passed", "unclear", "slower")
    assert found["WR101 no-recurrent-state"] == "noted"
    assert found["guarantee isolation"] == "failed"
    assert found["2 guarantees"] == "passed"
    assert found["own | act, 5"] == "failed"
    assert found["speed-up of triton over pad, act, 4"] == "failed"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("not json", "this is not JSON"),
        ({"format": 99}, "has format 99; this rnncheck reads formats 1 and 2"),
        ({"spec": {"path": "o.yaml", "name": "other", "hash": ""}}, "of another spec: 'other'"),
        ({"command": "selftest"}, "a result of `rnncheck selftest` is no baseline"),
        ({"cells": [{"status": "ok"}]}, "cells[0].cell: field required"),
        ({"checks": 3}, "checks: "),
        ({}, ""),
    ],
)
def test_a_file_that_is_no_baseline_of_this_spec(spec: Path, change: Any, said: str) -> None:
    from rnncheck.results.collect import RunCollector
    from rnncheck.results.store import dumps

    file = spec.with_name("baseline.json")
    empty = json.loads(dumps(RunCollector().finish(interrupted=False, seconds=0.0)))
    good = {**empty, "command": "gate", "spec": {"path": "", "name": "small", "hash": ""}}
    file.write_text(change if isinstance(change, str) else json.dumps({**good, **change}))
    if not said:  # the near miss
        from rnncheck.gate.baseline import open_baseline
        from rnncheck.spec.load import load_spec

        assert open_baseline(file, load_spec(spec), update=False) is not None
        return
    for more in ([], ["--update-baseline"]):  # nor is it overwritten
        assert said in refused(spec, "--baseline", file, *more)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--baseline", "none.json"], "there is no such baseline"),
        (["--update-baseline"], "--baseline FILE"),
        (["--update-baseline", "--baseline", "b.json", "--no-verify"], "every verdict"),
        (["--update-baseline", "--baseline", "b.json", "--select", "WR"], "every verdict"),
        (["--update-baseline", "--baseline", "no/such/b.json"], "no/such"),
        (["--against", "python", "--against-ref", "main"], "two other sides"),
        (["--max-slowdown", "fast"], "e.g. 3% or 0.03"),
        (["--max-slowdown", "300%"], "e.g. 3% or 0.03"),
        (["--set", "gate.budgets=[{act_ms: {max: 1, variant: scam}}]"], "did you mean 'scan'?"),
        (["--set", "gate.cells=[{variant: scam}]"], "did you mean 'scan'?"),
        (
            ["--set", "verify.accept=[{code: LS799, reason: r, until: 2099-01-01}]"],
            "did you mean 'LS70",
        ),
    ],
)
def test_what_cannot_be_asked(spec: Path, args: list[str], said: str) -> None:
    assert said in refused(spec, *args)


def test_shares() -> None:
    from rnncheck.cli.gate import parse_share

    assert [parse_share(text) for text in ("3%", "0.03", " 0 ", "12.5 %")] == [0.03, 0.03, 0, 0.125]


def accepting(until: str) -> list[str]:
    entry = f"{{code: BD302, reason: known, until: {until}}}"
    unused = "{code: BD301, where: nowhere, reason: old, until: 2099-01-01}"
    return ["--set", f"verify.accept=[{entry}, {unused}]", "--select", "BD301", "--select", "BD302"]


def test_a_known_finding_is_accepted_until_its_date(rnncheck: Runner, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    done = rnncheck(
        "gate", BROKEN, *accepting("2099-01-01"), "--report", f"json={out}", "--report", "console"
    )
    assert done.returncode == 0, done.stderr
    assert "accepted       BD302" in done.stdout
    assert gate(out) == [("acceptance of BD301 where 'nowhere'", "noted")]
    (known,) = [c for c in json.loads(out.read_text())["checks"] if c["code"] == "BD302"]
    assert (known["outcome"], known["accepted"]) == ("failed", "known (until 2099-01-01)")
    done = rnncheck("verify", BROKEN, *accepting("2020-01-01"))
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "acceptance of BD302 expired on 2020-01-01, its finding counts again" in said
    assert "acceptance of BD301 where 'nowhere' matches no finding" in said


def test_a_gate_that_looks_at_nothing_verified_nothing(rnncheck: Runner, spec: Path) -> None:
    done = rnncheck("gate", str(spec), "--select", "WR101", "--ignore", "WR101")
    assert done.returncode == 4, done.stderr
    assert "not run, by the command line" in done.stdout
    assert "no speed was measured" in done.stdout
