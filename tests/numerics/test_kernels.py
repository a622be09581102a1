"""What is said of a processor's kernels is what torch does there, on this one and on a lesser."""

from __future__ import annotations

import pytest

from rnncheck.numerics.kernels import missing_kernel
from tests.processor import IS_X86, LAYERS, PLAIN, said_by

OURS = """\
import json
import torch
from rnncheck.numerics.kernels import LAYER_TRIALS, cannot_run, missing_kernel
torch.manual_seed(0)
state = torch.get_rng_state()
sentences = {trial.label: cannot_run(trial) for trial in LAYER_TRIALS}
same = torch.equal(state, torch.get_rng_state())
print(json.dumps([sentences, same, missing_kernel(TEXT)]))
"""
PROCESSORS = pytest.mark.parametrize("variables", [{}, PLAIN], ids=["this one", "a lesser one"])


@PROCESSORS
def test_a_layer_cannot_run_exactly_where_torch_raises(variables: dict[str, str]) -> None:
    raised = said_by(LAYERS, **variables)
    said, same, _ = said_by(OURS.replace("TEXT", "''"), **variables)
    assert {label for label in said if said[label]} == {label for label in raised if raised[label]}
    assert same, "trying took random numbers from the user's stream"
    for label, sentence in said.items():
        dtype = label.partition(" ")[0]
        assert not sentence or sentence.startswith(f"{dtype} cannot run here: this processor (")
        assert sentence.count(raised[label].partition(". ")[0]) >= bool(sentence)


@pytest.mark.skipif(not IS_X86, reason="only x86 has a lesser processor to pretend")
def test_the_words_of_the_library_are_translated() -> None:
    raised = said_by(LAYERS, **PLAIN)["bfloat16 LSTM under autocast"]
    assert raised.startswith("could not create a primitive")
    _, _, said = said_by(OURS.replace("TEXT", repr(raised)), **PLAIN)
    assert said.startswith("bfloat16 cannot run here: this processor (AVX2) has no LSTM kernel")
    assert "under autocast, nor for float16 (could not create a primitive" in said
    assert "outside autocast a layer that is bfloat16 itself runs" in said
    assert "ONEDNN_VERBOSE" not in said


@pytest.mark.parametrize(
    "text",
    [
        "mat1 and mat2 shapes cannot be multiplied (1x4 and 5x20)",
        "could not create a primitive descriptor for the softmax forward propagation primitive",
    ],
)
def test_other_errors_keep_their_words(text: str) -> None:
    assert missing_kernel(text) == ""
