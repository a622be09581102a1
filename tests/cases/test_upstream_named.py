"""The pipelines of the programs in fixtures/upstream, as specs of stock parts: `verify` names each
fault by the code that the README beside them gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.results.causes import causes_of
from rnncheck.results.collect import RunCollector
from rnncheck.results.model import Outcome, Run
from rnncheck.spec.load import load_spec
from tests.cases.test_programs import PROGRAMS, STOCK, UPSTREAM

HEAD, _, LOSS = STOCK.rpartition("loss: ")
MARKS = 'batch: {factory: "marks:make_batch"}\nloss: '
MARKED = """\
def make_batch(data):
    data["next", "is_init"] = data["is_init"].clone()
    return data
"""
ROWS, _, _ = STOCK.replace("transforms: [", "workers: 2\n  transforms: [").rpartition("replay:")
CRITIC = """\
critic:
  modules:
    - use: LSTMModule
      in_keys: [observation, value_h, value_c]
      out_keys: [value_embed, [next, value_h], [next, value_c]]
      hidden_size: 16
    - {use: MLP, in_keys: [value_embed], out_keys: [state_value], num_cells: [], out_features: 1}
advantage: {use: GAE, gamma: 0.9, lmbda: 0.9, deactivate_vmap: true, recurrent_mode: false}
"""
PLAIN = HEAD.replace("replay:\n", "replay:\n  use: ReplayBuffer\n")
# By program: the check that names it, and its pipeline.
NAMED = {
    "dqn_target_crosses_slices": ("LS701", STOCK),
    "dqn_target_starts_from_zero": ("VL604", HEAD + MARKS + LOSS),
    "gae_forgets_at_every_step": ("VL604", ROWS + CRITIC),
    "replay_buffer_loses_slice_starts": ("RP501", PLAIN + "loss: " + LOSS),
}


def verified(folder: Path, text: str) -> Run:
    (folder / "marks.py").write_text(MARKED)
    (folder / "spec.yaml").write_text(text)
    spec, collector = load_spec(folder / "spec.yaml"), RunCollector()
    for event in verify_events(spec, select_rules(spec, ("RP", "VL", "LS"))):
        collector(event)
    return collector.finish(interrupted=False, seconds=0.0)


def test_every_program_has_a_pipeline() -> None:
    assert sorted(NAMED) == [path.stem for path in PROGRAMS]
    told = (UPSTREAM / "README.md").read_text(encoding="utf-8")
    for program, (code, _) in NAMED.items():
        _, _, paragraph = told.partition(f"`{program}.py`;")
        assert code in paragraph[:40]


@pytest.mark.slow
@pytest.mark.parametrize("program", NAMED)
def test_verify_names_the_fault_of_an_upstream_program(program: str, tmp_path: Path) -> None:
    code, text = NAMED[program]
    run = verified(tmp_path, text)
    assert [cause.code for cause in causes_of(run)] == [code]


@pytest.mark.slow
def test_gae_in_one_pass_in_recurrent_mode_forgets_nothing(tmp_path: Path) -> None:
    mended = CRITIC.replace("deactivate_vmap: true, recurrent_mode: false", "shifted: true")
    assert mended != CRITIC
    run = verified(tmp_path, ROWS + mended)
    assert {one.code: one.outcome for one in run.checks}["VL604"] is Outcome.PASSED
