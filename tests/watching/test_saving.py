"""``rnncheck run --save FILE`` and ``rnncheck verify FILE``: the same verdict without the script,
and what could not be kept is never passed."""

from __future__ import annotations

import io
import json
import os
import sys
import types
import zipfile
from collections.abc import Callable, Iterator
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
from rnncheck.watching.saving.import_paths import CannotKeep, Home, found_at, home_of
from tests import warm
from tests.small import START
from tests.watching.scripts import SCRIPTS, planted, run
from tests.watching.test_endings import ACTS
from tests.watching.test_run import NOTHING

ROOT = Path(__file__).parents[2]
CONTENT = ("saved.json", "tensors.bin")


def again(rnncheck: Any, path: Path, *args: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, stored run and messages of ``rnncheck verify PATH``."""
    done = rnncheck("verify", "--report", "json", *args, str(path))
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {check["code"]: check["outcome"] for check in found["checks"]}


def standings(found: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["standing"] for one in found["guarantees"]}


# Lines ahead of the loss make its advantages: they are not kept, and cannot be asked again.
MADE_AHEAD = ("time_first.py",)
SAVED = sorted(path.name for path in SCRIPTS.glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVED)
def test_a_saved_run_is_judged_as_the_script_was(rnncheck: Any, tmp_path: Path, name: str) -> None:
    file = tmp_path / "seen.rnncheck"
    before, told, _ = run(rnncheck, "--save", file, SCRIPTS / name)
    after, found, _ = again(rnncheck, file)
    if name in MADE_AHEAD:
        assert after == ExitCode.NOT_SHOWN
        others = {code: (outcomes(told)[code], one) for code, one in outcomes(found).items()}
        assert {one for before, one in others.values() if before != one} == {"could-not-look"}
        return
    assert (after, outcomes(found)) == (before, outcomes(told))
    assert standings(found) == standings(told)


UNKEPT = """
actor.module[0].extra = eval("lambda: 0")
"""


@pytest.mark.slow
def test_what_could_not_be_kept_is_not_shown(rnncheck: Any, tmp_path: Path) -> None:
    script, file = tmp_path / "script.py", tmp_path / "seen.rnncheck"
    script.write_text(ACTS.replace("with torch.no_grad():", UNKEPT + "with torch.no_grad():"))
    run(rnncheck, "--select", "WR103", "--save", file, script)
    code, found, _ = again(rnncheck, file, "--report", f"console={tmp_path / 'told.txt'}")
    assert code == ExitCode.NOT_SHOWN
    assert any("no name that it can be imported by" in one for one in found["notices"])
    assert "shown" not in standings(found).values()
    said = " ".join((tmp_path / "told.txt").read_text().split())
    assert "next: rnncheck run SCRIPT, which also judges what the file does not keep" in said


def test_a_saved_run_in_which_nobody_acted_says_what_to_do(rnncheck: Any, tmp_path: Path) -> None:
    script, file = tmp_path / "nothing.py", tmp_path / "seen.rnncheck"
    script.write_text(NOTHING)
    run(rnncheck, "--save", file, script)
    code, found, _ = again(rnncheck, file, "--report", f"console={tmp_path / 'told.txt'}")
    assert (code, found["verdict"]) == (ExitCode.NOT_SHOWN, "nothing-verified")
    said = " ".join((tmp_path / "told.txt").read_text().split())
    assert "next: let a collector, env.rollout or a loop over env.step act, then" in said
    assert said.endswith(f"rnncheck run --save {file} SCRIPT")


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
    warm.run(START, *args, cwd=folder, env=env).check_returncode()
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
    unnamed = TensorDictModule(eval("lambda x: x"), in_keys=["x"], out_keys=["y"])
    with pytest.raises(CannotKeep, match="<lambda> has no name that it can be imported by"):
        encoder.whole(unnamed)


INNER = """
import torch
print("it runs")

SCALE = 2.0
offset = torch.ones(3)


def shifted(x):
    return x * SCALE + offset


class Twice:
    def __call__(self, x):
        return shifted(shifted(x))


def make(weight, calls):
    def inner(x, more=1):
        calls.append(x)
        return weight * x + more if x < 3 else inner(x - 1)

    return inner, lambda x: weight - x
"""


@pytest.fixture
def kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, Any, Callable[[Any], Any]]]:
    """A script that runs when it is imported: its file, what it has as ``__main__``, and what makes
    an object of it again from its form."""
    path = tmp_path / "runs_at_once.py"
    path.write_text(INNER)
    main = types.ModuleType("__main__")
    exec(compile(INNER, str(path), "exec"), main.__dict__)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", main)

    def again(value: Any) -> Any:
        encoder = Encoder(home_of(str(path), module=False), {})
        form = encoder.whole(value)
        data = bytes(encoder.data)
        decoder = Decoder(encoder.nodes, data, (tmp_path,), "runs_at_once")
        for name, one in encoder.globals.items():
            setattr(decoder.module("runs_at_once"), name, decoder.whole(one))
        return decoder.whole(form)

    yield path, main, again
    sys.modules.pop("runs_at_once", None)


Kept = tuple[Path, Any, Callable[[Any], Any]]


def test_a_script_that_runs_at_once_gives_its_definitions_without_it(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    _, main, again = kept
    capsys.readouterr()
    main.offset += 4  # what it was when it was kept, not what its line says
    made = again([main.shifted, main.Twice()])
    assert capsys.readouterr().out == ""
    assert made[0](1.0).tolist() == [7.0, 7.0, 7.0]
    assert made[1](1.0).tolist() == [19.0, 19.0, 19.0]
    assert made[0] is not main.shifted


def test_what_a_kept_function_reads_is_kept_or_it_is_not(kept: Kept) -> None:
    _, main, again = kept
    main.offset = (one for one in ())
    with pytest.raises(CannotKeep, match="shifted reads offset: generator: cannot pickle"):
        again(main.Twice())


def test_inner_functions_are_kept_by_their_code_and_what_they_hold(kept: Kept) -> None:
    path, main, again = kept
    calls: list[int] = []
    inner, less = main.make(5, calls)
    made = again([inner, less, calls])
    assert (made[0](4), made[1](1), made[2], calls) == (11, 4, [4, 3, 2], [])
    path.write_text(INNER.replace("weight - x", "weight + x"))
    with pytest.raises(CannotKeep, match="is not in its file"):
        again(less)


def test_what_is_defined_here_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_training.py").write_text(DEFINES)
    monkeypatch.syspath_prepend(tmp_path)
    found = found_at("my_own_training:loss_of", (tmp_path,))
    assert found(3) == 3
    made = Decoder([{"kind": "name", "of": "my_own_training:loss_of"}], b"", (tmp_path,))
    assert made.whole({"at": 0}) is found
