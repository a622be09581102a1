"""Other versions of TorchRL beside this torch: what was wrong in them is found, what they lack is
skipped by name.

Each version gets an environment of its own (see ``environment``); without a package index the tests
are skipped.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.versions.environment import NoPackage, make, run

pytestmark = [pytest.mark.versions, pytest.mark.slow]

SPECS, TRAINING, PIPELINES = "fixtures/specs", "fixtures/training", "fixtures/pipelines"
LSTM, GRU = f"{SPECS}/cartpole_dqn.yaml", f"{SPECS}/gru_actor_critic.yaml"
THERE = """
import json
from rnncheck.pipeline import compat
from rnncheck.pipeline.assembly import components as c
kinds = (c.ANY, c.TRANSFORM, c.ENV)
has = lambda name: any(name in c.class_names(kind) for kind in kinds)
found = [name for _, names in compat.CLASSES for name in names.split() if has(name)]
import torchrl.collectors, torchrl.data, torchrl.envs, torchrl.modules, torchrl.objectives.value
places = (
    torchrl.collectors, torchrl.data, torchrl.envs,
    torchrl.modules, torchrl.objectives, torchrl.objectives.value,
)
for _, owners, names in compat.NEW_ARGUMENTS:
    for owner in owners.split():
        (target, *_) = [vars(place)[owner] for place in places if owner in vars(place)]
        found += [f"{owner}.{name}" for name in names.split() if name in c.accepts(target).names]
print(json.dumps(found))
"""


def environment(version: str, folder: Path) -> Path:
    try:
        return make(version, folder)
    except NoPackage as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The oldest TorchRL that is supported."""
    return environment("0.12.0", tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one after it."""
    return environment("0.13.1", tmp_path_factory.mktemp("newer"))


def verify(python: Path | str, spec: str, *codes: str, sets: tuple[str, ...] = ()) -> Any:
    chosen = [part for code in codes for part in ("--select", code)]
    changed = [part for one in sets for part in ("--set", one)]
    done = run(
        Path(python), "-m", "rnncheck", "verify", spec, "--report", "json", *chosen, *changed
    )
    assert "Traceback" not in done.stderr, done.stderr
    result = json.loads(done.stdout)
    assert result["exit_code"] == done.returncode
    assert not [check for check in result["checks"] if check["outcome"] == "error"]
    return result


def outcomes(result: Any) -> dict[str, str]:
    return {check["code"]: check["outcome"] for check in result["checks"]}


def findings(result: Any, code: str) -> list[Any]:
    (found,) = [check["findings"] for check in result["checks"] if check["code"] == code]
    return list(found)


@pytest.mark.parametrize("spec", [LSTM, GRU])
def test_the_lost_end_states_of_0_12_are_found(old: Path, spec: str) -> None:
    result = verify(old, spec, "EQ201", "EQ202", "BD301")
    assert result["environment"]["packages"]["torchrl"] == "0.12.0"
    assert outcomes(result) == {"EQ201": "passed", "EQ202": "failed", "BD301": "passed"}
    for finding in findings(result, "EQ202"):
        assert finding["measured"] > 100 * finding["bound"]
        assert "issue 3711" in finding["cause"]
        assert "torchrl 0.13" in finding["fix"]


@pytest.mark.parametrize("spec", [LSTM, GRU])
def test_they_are_right_in_the_tested_version(spec: str) -> None:
    result = verify(sys.executable, spec, "EQ201", "EQ202", "BD301")
    assert set(outcomes(result).values()) == {"passed"}


def test_what_is_sound_in_0_12_passes(old: Path) -> None:
    result = verify(old, f"{SPECS}/nested_own_cell.yaml")
    assert (result["exit_code"], result["verdict"]) == (ExitCode.VERIFIED, "verified")


def test_slices_that_0_12_does_not_mark_are_found(old: Path) -> None:
    assert outcomes(verify(old, f"{TRAINING}/q_slices.yaml", "RP501")) == {"RP501": "failed"}
    assert outcomes(verify(sys.executable, f"{TRAINING}/q_slices.yaml", "RP501")) == {
        "RP501": "passed"
    }


def test_rows_that_0_12_joins_are_found(old: Path) -> None:
    result = verify(old, f"{TRAINING}/ppo_rows.yaml", "VL601")
    assert outcomes(result) == {"VL601": "failed"}
    assert "joins the rows" in findings(result, "VL601")[0]["cause"]


def test_a_policy_for_a_newer_version_is_skipped_by_name(old: Path) -> None:
    result = verify(old, f"{PIPELINES}/scan_backend.yaml")
    assert result["exit_code"] == ExitCode.NOT_SHOWN
    assert set(outcomes(result).values()) == {"could-not-look"}
    (reason,) = {check["reason"] for check in result["checks"]}
    assert "torchrl 0.12.0 has no argument 'recurrent_backend' of LSTMModule" in reason
    assert "it came with 0.13" in reason
    assert f"{PIPELINES}/scan_backend.yaml:14:" in reason


def test_an_argument_that_asks_for_what_the_old_version_does_is_taken(old: Path) -> None:
    pad = ("policy.modules.0.recurrent_backend=pad",)
    result = verify(old, f"{PIPELINES}/scan_backend.yaml", "EQ201", sets=pad)
    assert outcomes(result) == {"EQ201": "passed"}


LACKS = "could-not-look"


def test_a_later_stage_for_a_newer_version_is_skipped_alone(old: Path) -> None:
    newer = ("replay.sampler.use=StreamingSliceSampler",)
    codes = ("EQ201", "CL406", "RP501", "LS705")
    result = verify(old, f"{TRAINING}/ppo_slices.yaml", *codes, sets=newer)
    told = {"EQ201": "passed", "CL406": "passed", "RP501": LACKS, "LS705": LACKS}
    assert outcomes(result) == told
    reasons = {check["code"]: check["reason"] for check in result["checks"]}
    for code in ("RP501", "LS705"):
        assert "torchrl 0.12.0 has no StreamingSliceSampler: it came with 0.14" in reasons[code]


def test_the_next_version_is_sound(newer: Path) -> None:
    codes = ("EQ201", "EQ202", "RP501", "LS701")
    result = verify(newer, f"{TRAINING}/ppo_slices.yaml", *codes)
    assert result["environment"]["packages"]["torchrl"] == "0.13.1"
    assert set(outcomes(result).values()) == {"passed"}


def diagnosed(python: Path) -> Any:
    done = run(python, "-m", "rnncheck", "doctor", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_doctor_knows_the_old_version(old: Path) -> None:
    found = diagnosed(old)
    tried = {one["name"]: one for one in found["backends"]}
    assert tried["pad on cpu"]["works"]
    assert (
        "the end state of a trajectory shorter than the longest is 0"
        in (tried["pad on cpu"]["detail"])
    )
    for name in ("scan", "triton", "auto"):
        assert not tried[f"{name} on cpu"]["works"]
        assert "torchrl 0.12.0 has no argument" in tried[f"{name} on cpu"]["detail"]
    assert found["collector"]["works"]


def test_doctor_knows_the_newer_version(newer: Path) -> None:
    tried = {one["name"]: one for one in diagnosed(newer)["backends"]}
    for name in ("pad", "scan"):
        assert tried[f"{name} on cpu"]["works"]
        assert "end state" not in tried[f"{name} on cpu"]["detail"]


def test_what_is_said_to_be_newer_is_not_in_the_old_version(old: Path) -> None:
    done = run(old, "-c", THERE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_it_is_in_the_tested_version() -> None:
    from rnncheck.pipeline.compat import CLASSES, NEW_ARGUMENTS

    done = run(Path(sys.executable), "-c", THERE)
    assert done.returncode == 0, done.stderr
    named = [
        f"{owner}.{name}"
        for _, owners, names in NEW_ARGUMENTS
        for owner in owners.split()
        for name in names.split()
    ]
    known = [name for _, names in CLASSES for name in names.split()]
    assert json.loads(done.stdout) == [*known, *named]
