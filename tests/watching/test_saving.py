"""``rnncheck run --save FILE`` and ``rnncheck verify FILE``: the same verdict without the script,
and what could not be kept is never passed."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.saving.again import folders_of
from rnncheck.watching.saving.decoding import Decoder, Malformed
from rnncheck.watching.saving.encoding import Encoder
from rnncheck.watching.saving.import_paths import CannotKeep, Home, found_at
from tests.small import START
from tests.watching.scripts import SCRIPTS, planted, run
from tests.watching.test_endings import ACTS

ROOT = Path(__file__).parents[2]
CONTENT = ("saved.json", "tensors.bin")
# Which stages of a script's run are not kept: its own code, where importing it would run it.
LOST = {
    "dqn_cartpole.py": {"loss"},
    "own_actor_critic.py": {"policy"},
    "own_switch.py": {"policy"},
    "padded_trajs.py": {"loss"},
    "r2d2_slices.py": {"loss"},
}


def again(rnncheck: Any, path: Path, *args: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, stored run and messages of ``rnncheck verify PATH``."""
    done = rnncheck("verify", "--report", "json", *args, str(path))
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {check["code"]: check["outcome"] for check in found["checks"]}


def standings(found: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["standing"] for one in found["guarantees"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in SCRIPTS.glob("*.py")))
def test_a_saved_run_is_judged_as_the_script_was(rnncheck: Any, tmp_path: Path, name: str) -> None:
    file = tmp_path / "seen.rnncheck"
    before, told, _ = run(rnncheck, "--save", file, SCRIPTS / name)
    after, found, _ = again(rnncheck, file)
    if name not in LOST:
        assert (after, outcomes(found)) == (before, outcomes(told))
        assert standings(found) == standings(told)
        return
    assert (before, after) == (ExitCode.VERIFIED, ExitCode.NOT_SHOWN)
    assert any(" is not kept: " in notice for notice in found["notices"])
    now = standings(found)
    assert {"shown", "not-shown"} >= set(now.values())
    assert now["learning"] == "not-shown"
    known = outcomes(told)
    assert all(known[code] == "passed" for code, one in outcomes(found).items() if one == "passed")


@pytest.mark.slow
def test_a_fault_is_found_again(rnncheck: Any, tmp_path: Path) -> None:
    drops = ("td = env.reset() if ended else step_mdp(td)", "td = env.reset()")
    path = planted(tmp_path, "step_loop.py", drops)
    file = tmp_path / "seen.rnncheck"
    before, told, _ = run(rnncheck, "--select", "CL4", "--save", file, path)
    after, found, _ = again(rnncheck, file, "--select", "CL4")
    assert (after, outcomes(found)) == (before, outcomes(told))


DEFINES = "import torch\n\n\ndef loss_of(batch):\n    return batch\n\n\nvalue = torch.ones(3)\n"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved run of a script that only acts."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "script.py").write_text(ACTS)
    file = folder / "seen.rnncheck"
    args = ["run", "-q", "--select", "WR103", "--save", str(file), str(folder / "script.py")]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", START, *args], cwd=folder, env=env, check=True)
    return file


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read(CONTENT[0])), file.read(CONTENT[1])


def with_parts(told: object, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(CONTENT[0], told if isinstance(told, str) else json.dumps(told))
        file.writestr(CONTENT[1], data)
    return buffer.getvalue()


def test_it_holds_no_pickle_and_runs_without_the_script(rnncheck: Any, saved: Path) -> None:
    told, data = parts(saved)
    assert sorted(zipfile.ZipFile(saved).namelist()) == sorted(CONTENT)
    assert b"\x80\x04" not in json.dumps(told).encode()
    (saved.parent / "script.py").unlink(missing_ok=True)
    code, found, _ = again(rnncheck, saved, "--select", "WR103")
    assert (code, outcomes(found)) == (ExitCode.VERIFIED, {"WR103": "passed"})
    assert found["command"] == "verify"
    assert len(data) > 0


Change = Callable[[dict[str, Any]], object]
BROKEN: dict[str, tuple[Change, str]] = {
    "other version": (lambda told: told | {"format": 7}, "this has format 7, and this rnncheck"),
    "no JSON": (lambda _: "{", "this is not JSON"),
    "no mapping": (lambda _: [1], "this is no saved run"),
    "a key too many": (lambda told: told | {"more": 1}, "this is no saved run: more"),
    "nodes cut off": (lambda told: told | {"nodes": told["nodes"][:3]}, "this is no saved run"),
    "tensors cut off": (lambda told: told, "a tensor is cut off"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_gets_one_sentence(
    rnncheck: Any, tmp_path: Path, saved: Path, how: str
) -> None:
    change, words = BROKEN[how]
    told, data = parts(saved)
    file = tmp_path / "seen.rnncheck"
    file.write_bytes(with_parts(change(told), b"" if how == "tensors cut off" else data))
    code, _, said = again(rnncheck, file, "--select", "WR103")
    assert (code, words in said) == (ExitCode.USAGE, True), said


def test_a_file_that_was_cut_off_is_no_spec(rnncheck: Any, tmp_path: Path, saved: Path) -> None:
    file = tmp_path / "seen.rnncheck"
    file.write_bytes(saved.read_bytes()[:500])
    code, _, said = again(rnncheck, file)
    assert (code, "this is no saved run" in said) == (ExitCode.USAGE, True), said


def test_a_stranger_sends_nobody_to_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine" / "inner").mkdir(parents=True)
    (tmp_path / "file").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    file, mine = tmp_path / "file", tmp_path / "mine"
    assert folders_of(file, "../mine/inner") == (mine / "inner", file, mine)
    assert folders_of(file, ".") == (file, mine)
    for told in ("..", "/", "../other", "../minerals"):
        assert folders_of(file, told) == (file, mine)


def test_tensors_take_no_more_than_their_bytes() -> None:
    kept = torch.arange(6.0)
    encoder = Encoder(Home("train", Path()), {})
    form = encoder.whole([kept, kept[:3].clone()])
    data = bytes(encoder.data)
    assert Decoder(encoder.nodes, data, (Path(),)).whole(form)[0].tolist() == kept.tolist()
    nodes = [one if one is None or one["kind"] != "tensor" else one | {"begin": 0, "shape": [9]}
             for one in encoder.nodes]  # fmt: skip
    with pytest.raises(Malformed, match="tensors share their bytes"):
        Decoder(nodes, data, (Path(),)).whole(form)


@pytest.mark.slow
def test_what_is_for_specs_is_refused(rnncheck: Any, saved: Path) -> None:
    code, _, said = again(rnncheck, saved, "--set", "seed=1")
    assert code == ExitCode.USAGE
    assert "--set is for specs" in said


FORBIDDEN = (
    "os:system",
    "subprocess:Popen",
    "builtins:eval",
    "builtins:open",
    "torch:load",
    "torch.nn.modules.module:torch.load",
    "torch.nn.modules.module:functools.partial",
    "torchrl.envs.libs.gym:warnings.warn",
    "train:os.system",
    "train:loss_of.__globals__",
    "train:value",
    "train",
    "../train:loss_of",
)


@pytest.mark.parametrize("told", FORBIDDEN)
def test_a_stranger_names_nothing_but_modules_and_what_is_defined_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    (tmp_path / "train.py").write_text("import os\n" + DEFINES)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CannotKeep):
        found_at(told, (tmp_path,))


def test_a_function_in_a_module_is_named_and_never_read_as_a_pickle() -> None:
    kept = TensorDictModule(torch.nn.functional.relu, in_keys=["x"], out_keys=["y"])
    encoder = Encoder(Home("train", Path()), {})
    form = encoder.whole(kept)
    made = Decoder(encoder.nodes, bytes(encoder.data), (Path(),)).whole(form)
    assert made(TensorDict(x=-torch.ones(2)))["y"].tolist() == [0.0, 0.0]
    unnamed = TensorDictModule(lambda x: x, in_keys=["x"], out_keys=["y"])
    with pytest.raises(CannotKeep, match="<lambda> has no name that it can be imported by"):
        encoder.whole(unnamed)


def test_what_is_defined_here_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_training.py").write_text(DEFINES)
    monkeypatch.syspath_prepend(tmp_path)
    found = found_at("my_own_training:loss_of", (tmp_path,))
    assert found(3) == 3
    made = Decoder([{"kind": "name", "of": "my_own_training:loss_of"}], b"", (tmp_path,))
    assert made.whole({"at": 0}) is found
