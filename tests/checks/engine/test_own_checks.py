"""Checks of the user's own: by the spec's ``checks``, by entry points, and what may be wrong with
them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.small import PIPELINE

EXAMPLE = Path(__file__).parents[3] / "fixtures" / "own_checks" / "my001_hidden_too_small.py"
Runner = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A spec whose state has three features, and the example beside it."""
    shutil.copy(EXAMPLE, tmp_path)
    write(tmp_path, "my001_hidden_too_small", hidden=3)
    return tmp_path


def write(folder: Path, *modules: str, hidden: int = 8, more: str = "") -> None:
    spec = PIPELINE.replace("hidden_size: 8", f"hidden_size: {hidden}")
    (folder / "rnncheck.yaml").write_text(f"{spec}checks: [{', '.join(modules)}]\n{more}")


def verify(rnncheck: Runner, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return rnncheck("verify", "--select", "MY", *args, cwd=folder)


def variant(folder: Path, name: str, *changes: tuple[str, str]) -> str:
    text = EXAMPLE.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / f"{name}.py").write_text(text)
    return name


def test_it_finds_its_fault_and_leaves_a_near_miss_alone(rnncheck: Runner, folder: Path) -> None:
    done = verify(rnncheck, folder, "--strict", "--report", "json=run.json")
    assert done.returncode == 1, done.stderr
    run = json.loads((folder / "run.json").read_text())
    finding = run["checks"][0]["findings"][0]
    assert (finding["code"], finding["stage"]) == ("MY001", "policy")
    assert (finding["measured"], finding["bound"], finding["passing_bound"]) == (3.0, 4.0, 3.0)
    assert finding["source"]["path"].endswith("rnncheck.yaml")
    assert finding["source"]["line"] == 8
    assert run["rules"][0]["fix"] == "Raise `hidden_size`."
    write(folder, "my001_hidden_too_small", hidden=4)
    assert verify(rnncheck, folder, "--strict").returncode == 0


def test_it_stands_beside_the_others(rnncheck: Runner, folder: Path) -> None:
    done = rnncheck("verify", "--select", "WR102", "--select", "MY001", "-v", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "WR102" in done.stdout
    assert "MY001 hidden-too-small" in done.stdout


def test_it_can_be_ignored_and_accepted(rnncheck: Runner, folder: Path) -> None:
    done = rnncheck("verify", "--select", "WR102", "--ignore", "MY", "--strict", cwd=folder)
    assert done.returncode == 0
    variant(folder, "team_size", ("MY001", "TEAMS001"))
    accept = "verify: {accept: [{code: TEAMS001, reason: small on purpose, until: 2999-01-01}]}\n"
    write(folder, "team_size", hidden=3, more=accept)
    done = rnncheck("verify", "--select", "TEAMS", "--strict", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "small on purpose" in done.stdout


def test_a_package_brings_every_check_that_it_holds(rnncheck: Runner, folder: Path) -> None:
    package = folder / "team" / "checks"
    package.mkdir(parents=True)
    (folder / "team" / "__init__.py").write_text("raise RuntimeError('imported too early')\n")
    (package / "__init__.py").touch()
    variant(package, "one")
    variant(package, "two", ("MY001", "MY002"), ("hidden-too-small", "hidden-far-too-small"))
    (package / "helper.py").write_text("LEAST = 4\n")
    write(folder, "team.checks")
    done = rnncheck("rule", "MY", "--spec", "rnncheck.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "MY001" in done.stdout and "MY002" in done.stdout  # read, not run
    (folder / "team" / "__init__.py").write_text("")
    assert verify(rnncheck, folder).returncode == 0


def test_rule_explains_it(rnncheck: Runner, folder: Path) -> None:
    done = rnncheck("rule", "my001", "--spec", "rnncheck.yaml", cwd=folder)
    assert done.stdout.startswith("MY001 hidden-too-small")
    assert "cannot hold the one" in done.stdout
    assert rnncheck("rule", "my001", cwd=folder).returncode == 2


def test_an_installed_package_brings_its_own(
    rnncheck: Runner, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "rnncheck.yaml").write_text(PIPELINE)
    site = folder / "site"
    site.mkdir()
    (folder / "my001_hidden_too_small.py").rename(site / "my001_hidden_too_small.py")
    info = site / "team_checks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: team-checks\nVersion: 1.0\n")
    points = "[rnncheck.checks]\nteam = my001_hidden_too_small\n"
    (info / "entry_points.txt").write_text(points)
    start = f"import sys; sys.path.append({str(site)!r}); "
    monkeypatch.setattr("tests.conftest.START", start + _start())
    assert "MY001" in rnncheck("rule", cwd=folder).stdout
    done = verify(rnncheck, folder)
    assert done.returncode == 0, done.stderr
    (site / "my001_hidden_too_small.py").unlink()
    done = verify(rnncheck, folder)
    assert done.returncode == 2
    assert "team-checks, entry point 'team'" in done.stderr
    assert "there is no module 'my001_hidden_too_small' of checks" in done.stderr


def _start() -> str:
    from tests.small import START

    return START


BROKEN = {
    "no-module": ([], "there is no module 'mine' of checks"),
    "no-rule": ([("RULE = Rule(", "OTHER = Rule(")], "mine.py does not define RULE"),
    "no-text": ([('code="MY001"', 'code="MY" + "001"')], "RULE: code is written as a text"),
    "no-stage": ([("stage=Stage.POLICY", "stage=Stage.NOWHERE")], "RULE: stage is written as one"),
    "no-python": ([("RULE = Rule(", "RULE = = Rule(")], "are no Python: invalid syntax"),
    "our-family": ([('"MY001"', '"BD399"')], "'BD399' is no code for a check of your own"),
    "no-code": ([('"MY001"', '"my1"')], "'my1' is no code for a check of your own"),
    "no-name": ([('"hidden-too-small"', '"Too Small"')], "'Too Small' is no name for a check"),
    "known-name": ([('"hidden-too-small"', '"memory-dead"')], "is there already: BD306"),
    "raises": ([("RULE = Rule(", "1 / 0\nRULE = Rule(")], "ZeroDivisionError: division by zero"),
    "no-import": ([("Judgement, Obs", "Judgment, Obs")], "ImportError: cannot import name"),
    "another": ([("    run=run,\n", "")], "TypeError: Rule.__init__() missing"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_one_is_one_sentence(rnncheck: Runner, tmp_path: Path, case: str) -> None:
    changes, said = BROKEN[case]
    if changes:
        variant(tmp_path, "mine", *changes)
    write(tmp_path, "mine")
    done = rnncheck("verify", "--select", "WR102", cwd=tmp_path)
    if case in ("raises", "no-import", "another"):  # only an asked check is imported
        assert done.returncode == 0, done.stderr
        done = verify(rnncheck, tmp_path)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "mine.py" in done.stderr or "rnncheck.yaml:" in done.stderr


LAST = '    return Judgement(tuple(found), len(states), f"{len(states)} states are large enough")'
CRASHES = {
    "    1 / 0": "the check itself crashed: ZeroDivisionError",
    "    return 3": "TypeError: run returned 3, no Judgement",
    "    return Judgement((3,))": "TypeError: run found 3, no Observation",
}


@pytest.mark.parametrize("line", CRASHES)
def test_one_that_crashes_is_an_error_of_its_own(rnncheck: Runner, folder: Path, line: str) -> None:
    variant(folder, "my001_hidden_too_small", (LAST, line))
    done = rnncheck("verify", "--select", "MY", "--select", "WR102", cwd=folder)
    assert done.returncode == 3, done.stdout + done.stderr
    assert CRASHES[line] in " ".join(done.stdout.split())
    assert "wiring  1 of 1 hold" in done.stdout
    assert "Traceback" not in done.stderr


def test_one_whose_gradient_autograd_refuses_could_not_look(rnncheck: Runner, folder: Path) -> None:
    line = """    import torch
    weight = torch.ones(2, requires_grad=True)
    out = (held := weight * 1).square().sum()
    held.add_(1)
    out.backward()"""
    variant(folder, "my001_hidden_too_small", (LAST, line))
    done = rnncheck("verify", "--select", "MY", "--select", "WR102", cwd=folder)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "its gradient cannot be asked for afterwards" in " ".join(done.stdout.split())


def test_a_wrong_key_is_told_with_its_line(rnncheck: Runner, tmp_path: Path) -> None:
    write(tmp_path, "'not a module'")
    done = verify(rnncheck, tmp_path)
    assert done.returncode == 2
    assert "rnncheck.yaml:13:10: checks.0 must be the name of a module" in done.stderr
