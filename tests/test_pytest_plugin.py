"""The pytest plugin, run by pytest in a folder of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import warm

ROOT = Path(__file__).parent.parent
CARTPOLE = (ROOT / "fixtures" / "specs" / "cartpole_dqn.yaml").read_text()
SPEC = CARTPOLE.replace("frames_per_batch: 256", "frames_per_batch: 64")
SMALL = SPEC + "verify: {select: [WR101, WR102, WR106, BD301]}\n"
NO_PRIMER = SPEC.replace("  # primers: auto ", "  primers: manual #")
WARNING = """\
schema: 1
name: warns
env:
  use: GymEnv
  env_name: CartPole-v1
  primers: manual
  transforms:
    - InitTracker
    - {use: TensorDictPrimer, random: true, primers: {factory: "states:specs"}}
policy:
  modules:
    - {use: GRUModule, in_keys: [observation, h], out_keys: [f, [next, h]], hidden_size: 6}
    - {use: MLP, in_keys: [f], out_keys: [action_value], num_cells: [], out_features: auto}
    - QValueModule
verify: {select: [WR105]}
"""
STATES = """\
from torchrl.data import Composite, Unbounded

def specs():
    return Composite(h=Unbounded(shape=(1, 6)))
"""

PYTEST = "import sys, pytest; sys.exit(pytest.main())"
Result = subprocess.CompletedProcess[str]
Way = Callable[..., Result]


def run(folder: Path, *args: str, how: Way = warm.run, **files: str) -> Result:
    """pytest with the plugin, as a process: it must not share torch with this one."""
    for name, text in files.items():
        (folder / name.replace("_yaml", ".yaml").replace("_py", ".py")).write_text(text)
    loaded = [] if _is_installed() else ["-p", "rnncheck.pytest_plugin"]
    env = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    env.pop("PYTEST_ADDOPTS", None)
    return how(PYTEST, *loaded, "-p", "no:cacheprovider", *args, cwd=folder, env=env)


def _is_installed() -> bool:
    from importlib.metadata import entry_points

    return any(one.value == "rnncheck.pytest_plugin" for one in entry_points(group="pytest11"))


def test_one_test_for_each_check(tmp_path: Path) -> None:
    done = run(tmp_path, "--rnncheck", "a.yaml", "-v", "-rs", a_yaml=SMALL)
    assert done.returncode == 0, done.stdout
    assert "a.yaml::BD301 state-crosses-reset PASSED" in done.stdout
    assert "a.yaml::WR106 state-key-shared SKIPPED" in done.stdout
    assert "not applicable: there is at most one recurrent module" in done.stdout
    assert "4 passed, 1 skipped" in done.stdout


@pytest.mark.slow
def test_one_check_by_its_node_id(tmp_path: Path) -> None:
    node = "a.yaml::BD301 state-crosses-reset"
    done = run(tmp_path, "--rnncheck", "a.yaml", node, a_yaml=SMALL)
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_it_joins_the_other_tests_and_is_collected_once(tmp_path: Path) -> None:
    test = "def test_mine():\n    pass\n"
    files = {"a_yaml": SMALL, "test_mine_py": test}
    done = run(tmp_path, "--rnncheck", "a.yaml", "--collect-only", "-q", **files)
    assert "6 tests collected" in done.stdout, done.stdout
    done = run(tmp_path, "--rnncheck", "a.yaml", "test_mine.py", "--collect-only", "-q", **files)
    assert "6 tests collected" in done.stdout, done.stdout


@pytest.mark.slow
def test_findings_are_shown_as_in_the_console(tmp_path: Path) -> None:
    args = ("--rnncheck", "a.yaml", "-k", "WR103 or CL401", "-W", "ignore")
    done = run(tmp_path, *args, a_yaml=NO_PRIMER)
    assert done.returncode == 1, done.stdout
    assert "WR103 missing-state-primer  error" in done.stdout
    assert "  fix        " in done.stdout
    assert "Traceback" not in done.stdout
    assert "pytest_plugin.py" not in done.stdout


@pytest.mark.slow
def test_a_warning_passes_with_a_pytest_warning(tmp_path: Path) -> None:
    done = run(tmp_path, "--rnncheck", "a.yaml", a_yaml=WARNING, states_py=STATES)
    assert "RnncheckWarning: WR105" in done.stdout, done.stdout
    assert "2 passed" in done.stdout
    strict = WARNING.replace("[WR105]", "[WR105], strict: true")
    done = run(tmp_path, "--rnncheck", "a.yaml", a_yaml=strict, states_py=STATES)
    assert "1 failed" in done.stdout, done.stdout


@pytest.mark.slow
def test_an_accepted_finding_is_an_expected_failure(tmp_path: Path) -> None:
    accept = "accept: [{code: WR105, reason: known, until: 2099-01-01}]"
    spec = WARNING.replace("[WR105]", f"[WR105], strict: true, {accept}")
    done = run(tmp_path, "--rnncheck", "a.yaml", "-rx", a_yaml=spec, states_py=STATES)
    assert done.returncode == 0, done.stdout
    assert "accepted: known (until 2099-01-01)" in done.stdout


@pytest.mark.slow
def test_mistakes_are_told_without_a_traceback(tmp_path: Path) -> None:
    missing = run(tmp_path, "--rnncheck", "nowhere.yaml")
    assert missing.returncode == pytest.ExitCode.USAGE_ERROR
    assert "there is no such file" in missing.stderr
    typo = run(tmp_path, "--rnncheck", "a.yaml", a_yaml=SMALL.replace("policy:", "polici:"))
    assert typo.returncode == pytest.ExitCode.INTERRUPTED
    assert "did you mean 'policy'" in typo.stdout, typo.stdout
    wrong = SMALL.replace("hidden_size", "hiden_size")
    built = run(tmp_path, "--rnncheck", "a.yaml", a_yaml=wrong)
    assert built.returncode == 1
    assert "hidden_size" in built.stdout
    assert "Traceback" not in built.stdout


def test_torch_stays_out_without_the_option(tmp_path: Path) -> None:
    test = "import sys\ndef test_mine():\n    assert 'torch' not in sys.modules\n"
    done = run(tmp_path, how=warm.cold, test_mine_py=test)
    assert "1 passed" in done.stdout, done.stdout


COUNTING = """\
import sys

def pytest_collection_finish(session):
    hooks = session.config.hook.pytest_collect_file.get_hookimpls()
    ours = [hook for hook in hooks if "rnncheck" in hook.function.__module__]
    loaded = [name for name in sys.modules if name.startswith("rnncheck.")]
    print("OURS", len(ours), loaded)
"""


@pytest.mark.slow
def test_without_the_option_nothing_of_ours_is_asked_about_any_file(tmp_path: Path) -> None:
    files = {"conftest_py": COUNTING, "test_mine_py": "def test_mine():\n    pass\n"}
    done = run(tmp_path, "-s", **files)
    assert "OURS 0 ['rnncheck.pytest_plugin']" in done.stdout, done.stdout
    done = run(tmp_path, "-s", "--rnncheck", "a.yaml", "--collect-only", a_yaml=SMALL, **files)
    assert "OURS 1 " in done.stdout, done.stdout


@pytest.mark.slow
def test_a_spec_that_is_a_link_is_collected(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SMALL)
    (tmp_path / "b.yaml").symlink_to(tmp_path / "a.yaml")
    done = run(tmp_path, "--rnncheck", "b.yaml", "--collect-only", "-q")
    assert "a.yaml::BD301 state-crosses-reset" in done.stdout, done.stdout


@pytest.mark.slow
def test_the_fixture_fails_with_the_findings(tmp_path: Path) -> None:
    test = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from test_api import make_deaf_policy, make_env, make_policy

def test_sound(rnncheck_verify):
    assert rnncheck_verify(policy=make_policy, env=make_env, select=["BD301"]).verdict == "verified"

def test_deaf(rnncheck_verify):
    rnncheck_verify(policy=make_deaf_policy, env=make_env, select=["BD301"])
"""
    done = run(tmp_path, test_mine_py=test)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "BD301 state-crosses-reset: " in done.stdout


@pytest.mark.slow
def test_a_pipeline_that_breaks_does_not_look_verified(tmp_path: Path) -> None:
    factory = '\nenv: {factory: "broken:make_env"}\n'
    head, _, tail = SMALL.partition("\nenv:\n")
    text = head + factory + "policy:" + tail.partition("\npolicy:")[2]
    broken = """
from torchrl.envs import GymEnv, InitTracker, TransformedEnv
from torchrl.modules import LSTMModule

class Motor(GymEnv):
    steps = 0
    def _step(self, td):
        self.steps += 1
        if self.steps > 40:
            raise RuntimeError("the motor broke")
        return super()._step(td)

def make_env():
    env = TransformedEnv(Motor("CartPole-v1", categorical_action_encoding=True), InitTracker())
    primer = LSTMModule(4, 64, in_key="a", out_key="b").make_tensordict_primer()
    return env.append_transform(primer)
"""
    select = text.replace("[WR101, WR102, WR106, BD301]", "[CL404]")
    done = run(tmp_path, "--rnncheck", "a.yaml", a_yaml=select, broken_py=broken)
    assert "2 failed" in done.stdout, done.stdout
    assert "the motor broke" in done.stdout


SETTINGS = """\
import random, torch
from torchrl.envs import GymEnv, InitTracker, TransformedEnv

def make_env():
    torch.set_float32_matmul_precision("medium")
    torch.backends.cudnn.allow_tf32 = False
    return TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), InitTracker())
"""
MINE = """\
import random, torch

def drawn():
    return torch.rand(1).item(), random.random()

def test_before():
    torch.manual_seed(3), random.seed(3)

def test_after():
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.backends.cudnn.allow_tf32
    found = drawn()
    torch.manual_seed(3), random.seed(3)
    assert found == drawn()
"""


@pytest.mark.slow
def test_what_a_factory_sets_stays_with_its_spec(tmp_path: Path) -> None:
    env = SPEC[SPEC.index("env:") : SPEC.index("policy:")]
    spec = SPEC.replace(env, 'env: {factory: "settings:make_env"}\n')
    spec += "verify: {select: [WR102, BD306]}\n"
    files = {"settings_py": SETTINGS, "test_mine_py": MINE, "a_yaml": spec}
    order = ("test_mine.py::test_before", "a.yaml", "test_mine.py::test_after")
    done = run(tmp_path, "--rnncheck", "a.yaml", *order, "-v", "-p", "no:randomly", **files)
    assert "5 passed" in done.stdout, done.stdout


NEWER = """\
import torchrl

def make_policy(env):
    torchrl.__version__ = "0.12.0"
    raise ImportError("cannot import name 'TQCLoss' from 'torchrl.objectives' (__init__.py)")
"""


@pytest.mark.slow
def test_what_needs_a_newer_torchrl_is_skipped_as_in_verify(tmp_path: Path) -> None:
    policy = SPEC[SPEC.index("policy:") : SPEC.index("collect:")]
    spec = SPEC.replace(policy, 'policy: {factory: "newer:make_policy"}\n')
    spec += "verify: {select: [WR102, BD306]}\n"
    done = run(tmp_path, "--rnncheck", "a.yaml", "-rs", a_yaml=spec, newer_py=NEWER)
    assert done.returncode == 1, done.stdout  # the guarantees are not shown
    assert "1 failed, 2 skipped" in done.stdout
    assert "torchrl 0.12.0 has no TQCLoss: it came with 0.14" in done.stdout
