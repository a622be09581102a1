"""The worker process: what it answers, and that it neither hangs nor stays."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from rnncheck.pipeline.backends.case import short_case, standard_cases
from rnncheck.pipeline.backends.facts import Facts, new_module, rnn_parameters
from rnncheck.pipeline.backends.interpreter import Moved, adapt
from rnncheck.pipeline.backends.job import Job, Request, TrialAnswer
from rnncheck.pipeline.backends.process import NoAnswer, TrialWorker
from rnncheck.pipeline.backends.trial import Refused, TrialOutcome, from_weights, run_trial
from rnncheck.results.variant import Variant, parse_variant

ROOT = Path(__file__).parent.parent.parent.parent
LSTM, GRU = Facts("lstm", 3, 6), Facts("gru", 3, 17)
PATIENCE = 120.0  # seconds; a busy machine takes long to import TorchRL
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)


def job(facts: Facts, text: str, *, tiled: bool = False) -> Job:
    torch.manual_seed(0)
    return Job(
        facts,
        parse_variant(text),
        rnn_parameters(new_module(facts, Variant())),
        short_case(facts),
        tiled,
    )


def ask(
    jobs: list[Job],
    *,
    interpret: bool = False,
    seconds: float = PATIENCE,
    module: Path | None = None,
) -> list[TrialAnswer]:
    imports = () if module is None else ((str(module.parent), module.stem),)
    with TrialWorker(Request(jobs, interpret, imports)) as worker:
        answers = worker.answers(seconds)
        folder = worker.folder
    assert not folder.exists()
    return answers


def user_module(folder: Path, code: str) -> Path:
    path = folder / "theirs.py"
    path.write_text(code, encoding="utf-8")
    return path


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":  # ended, not yet waited for
            return True
        time.sleep(0.1)
    return False


def test_a_worker_gives_what_this_process_gives() -> None:
    jobs = [job(LSTM, "pad"), job(GRU, "pad-python"), job(LSTM, "pad-recompute")]
    one, two, three = ask(jobs)
    for asked, answer in zip(jobs, (one, two), strict=False):
        here = run_trial(asked.module(), asked.variant, asked.case)
        assert isinstance(answer, TrialOutcome)
        assert all(torch.equal(answer.values[k], v) for k, v in here.values.items())
        assert answer.gradients.keys() == here.gradients.keys()
    assert isinstance(three, TrialOutcome | Refused)


def test_a_worker_that_hangs_is_left_after_the_stated_time(tmp_path: Path) -> None:
    code = (
        "import subprocess, time, pathlib\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "pathlib.Path(__file__).with_suffix('.pid').write_text(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    module = user_module(tmp_path, code)
    with TrialWorker(Request([job(LSTM, "pad")], False, ((str(tmp_path), "theirs"),))) as worker:
        end = time.monotonic() + PATIENCE
        while not module.with_suffix(".pid").exists() and time.monotonic() < end:
            time.sleep(0.1)
        (answer,) = worker.answers(0.2)
    assert isinstance(answer, NoAnswer)
    assert "did not answer within 0.2 s" in str(answer)
    assert gone(int(module.with_suffix(".pid").read_text()))  # what it had started as well


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param("import os; os.abort()", "signal SIGABRT", marks=pytest.mark.slow),
        pytest.param("raise SystemExit(3)", "exit code 3", marks=pytest.mark.slow),
        ("import nothing_like_this", "ModuleNotFoundError"),
    ],
)
def test_a_worker_that_ends_early_says_why(tmp_path: Path, code: str, said: str) -> None:
    (answer,) = ask([job(LSTM, "pad")], module=user_module(tmp_path, code))
    assert isinstance(answer, NoAnswer)
    assert said in str(answer)


@pytest.mark.slow
def test_a_worker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    user_module(
        tmp_path,
        "import os, pathlib, time\n"
        "pathlib.Path(__file__).with_suffix('.pid').write_text(str(os.getpid()))\n"
        "time.sleep(600)\n",
    )
    code = (
        "import os, pathlib, sys, time\n"
        "from rnncheck.pipeline.backends.job import Request\n"
        "from rnncheck.pipeline.backends.process import TrialWorker\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "worker = TrialWorker(Request([], False, ((str(folder), 'theirs'),))).__enter__()\n"
        "while not (folder / 'theirs.pid').exists(): time.sleep(0.1)\n"
        "os._exit(0)\n"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, env=env, timeout=PATIENCE, check=True)
    assert gone(int((tmp_path / "theirs.pid").read_text()))


def test_the_interpreter_is_chosen_before_triton_is_imported() -> None:
    if torch.cuda.is_available():
        adapt()  # touches nothing
        return
    with pytest.raises(Moved, match="TRITON_INTERPRET"):
        adapt()


@needs_triton
def test_interpreted_kernels_are_the_equations_on_both_paths() -> None:
    large = Facts("lstm", 2, 40)
    jobs = [
        *(job(facts, text) for facts in (LSTM, GRU) for text in ("triton", "triton-recompute")),
        *(job(facts, "triton", tiled=True) for facts in (large, GRU)),
        job(Facts("gru", 3, 5, num_layers=2, bias=False), "triton"),
    ]
    for asked, answer in zip(jobs, ask(jobs, interpret=True), strict=True):
        assert isinstance(answer, TrialOutcome), answer
        truth = from_weights(asked.weights, asked.case)
        for name, value in truth.values.items():
            assert torch.allclose(answer.values[name].double(), value, rtol=0, atol=1e-6), name
        scale = max(float(g.abs().max()) for g in truth.gradients.values())
        for name, value in truth.gradients.items():
            found = answer.gradients[name].double()
            assert torch.allclose(found, value, rtol=0, atol=1e-5 * scale), (asked, name)


@pytest.mark.slow
@needs_triton
def test_products_in_bfloat16_and_modules_in_float16_are_interpreted() -> None:
    jobs = [job(LSTM, "triton-compute_bfloat16"), job(GRU, "triton-float16")]
    for asked, answer in zip(jobs, ask(jobs, interpret=True), strict=True):
        assert isinstance(answer, TrialOutcome), answer
        truth = from_weights(asked.weights, asked.case).values["output"]
        error = float((answer.values["output"].double() - truth).abs().max())
        assert 1e-6 < error < 2e-2  # rounded, and not wrong


@needs_triton
def test_internals_that_have_moved_are_a_reason(tmp_path: Path) -> None:
    code = (
        "from torchrl.modules.tensordict_module import _rnn_triton\n"
        "del _rnn_triton._lstm_fwd_kernel\n"
    )
    (answer,) = ask([job(LSTM, "triton")], interpret=True, module=user_module(tmp_path, code))
    assert isinstance(answer, NoAnswer)
    assert "has no _lstm_fwd_kernel" in str(answer)


@pytest.mark.gpu
@pytest.mark.parametrize("facts", [LSTM, GRU, Facts("lstm", 3, 512), Facts("gru", 3, 512)])
@pytest.mark.parametrize("text", ["pad", "scan", "triton-ieee", "triton-recompute-ieee"])
def test_the_real_kernels_are_the_equations(facts: Facts, text: str) -> None:
    module = new_module(facts, Variant())
    case = standard_cases(facts)[0]
    answer = run_trial(module, parse_variant(text), case, device="cuda")
    truth = from_weights(rnn_parameters(module), case)
    for name, value in truth.values.items():
        assert torch.allclose(answer.values[name].double(), value, rtol=0, atol=2e-3), name
