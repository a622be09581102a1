"""What a case consists of: tensors to the bit, overrides that are still meant, a bounded folder."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

from rnncheck.cases.model import Extent, Reduction, SawFault, StoredCase, fault_of
from rnncheck.cases.smaller import EPISODES, episodes_in, overrides_in, steps_of, still_meant
from rnncheck.cases.store import (
    CASE_FILE,
    CASES,
    MOST_CASES,
    TENSOR_FILE,
    case_folders,
    case_id,
    write_case,
)
from rnncheck.cases.tensors import Inputs, Packed, read_inputs
from rnncheck.errors import OutputError
from rnncheck.results.environment import current_environment
from rnncheck.results.model import Finding, Stage
from rnncheck.spec.load import spec_from_text
from tests.small import PIPELINE

TENSORS = {
    "float": torch.tensor([1.5, float("nan"), -0.0]),
    "half": torch.randn(3, 2).to(torch.bfloat16),
    "complex": torch.randn(2, 2, dtype=torch.complex64),
    "large complex": torch.randn(2, 2, dtype=torch.complex128).T.conj(),
    "eighth": torch.randn(3).to(torch.float8_e4m3fn),
    "flag": torch.tensor([[True], [False]]),
    "scalar": torch.tensor(7),
    "nothing": torch.zeros(0, 3),
}


def make_case(name: str = "LS701") -> StoredCase:
    return StoredCase(
        case_id(name, "x"), name, "a-fault", Stage.LOSS, SawFault("seen", "", 1.0, "", "why"),
        "a.yaml", {}, "hash", (), (), 0, False, True, current_environment(), "2026",
        Reduction(Extent()),
    )  # fmt: skip


def test_tensors_come_back_to_the_bit(tmp_path: Path) -> None:
    batch = TensorDict({"a": torch.randn(2, 3), "next": {"h": torch.randn(2, 3, 4)}}, [2, 3])
    packed = Packed()
    case = replace(make_case(), weights=packed.weights(TENSORS), collected=packed.batches([batch]))
    packed.write(tmp_path / "t.safetensors")
    found = read_inputs(case, tmp_path / "t.safetensors")
    assert found.same_as(Inputs(collected=[batch], weights=TENSORS))
    assert found.collected[0].batch_size == batch.batch_size
    changed = TENSORS | {"float": torch.tensor([1.5, float("nan"), 0.0])}
    assert not found.same_as(Inputs(collected=[batch], weights=changed))


def test_a_case_that_is_too_large_is_not_written(tmp_path: Path) -> None:
    packed = Packed()
    packed.weights({"w": torch.zeros(1).expand(2**25)})
    with pytest.raises(OSError, match="its tensors take 128 MiB"):
        packed.write(tmp_path / "t.safetensors")
    with pytest.raises(OutputError, match="its tensors take"):
        write_case(make_case(), tmp_path, lambda at: packed.write(at / TENSOR_FILE))
    assert list((tmp_path / CASES).iterdir()) == []


def test_the_oldest_cases_go(tmp_path: Path) -> None:
    for number in range(MOST_CASES + 2):
        one = replace(make_case(), id=case_id("LS701", str(number)))
        write_case(one, tmp_path, lambda at: (at / TENSOR_FILE).touch())
        os.utime(tmp_path / CASES / one.id, (number, number))
    left = case_folders(tmp_path)
    assert len(left) == MOST_CASES
    assert case_id("LS701", "0") not in {path.name for path in left}
    assert (tmp_path / CASES / one.id / CASE_FILE).is_file()


def test_a_reason_is_the_same_in_every_size() -> None:
    one = Finding("LS701", Stage.LOSS, "3 steps of others", cause="4 of 9 rows", fix="cut them")
    other = replace(one, message="31 steps of others", cause="40 of 99 rows")
    assert fault_of(one) == fault_of(other)
    assert fault_of(one) != fault_of(replace(one, fix="mark them"))


def test_what_the_user_changed_is_the_users() -> None:
    text = PIPELINE + "collect: {use: Collector, frames_per_batch: 64}\n"
    spec = spec_from_text(text, "a.yaml")
    (first, *_) = [s for s in steps_of(spec, Stage.COLLECT) if "collect" in str(s)]
    assert first.choices[0] == {"collect.frames_per_batch=4": "64"}
    texts = [f"{EPISODES}=2", "collect.frames_per_batch=4", "collect.batches=1"]
    was = ["as the env makes them", "64", "null"]
    assert still_meant(texts, was, spec) == texts
    assert (episodes_in(texts), overrides_in(texts)) == (2, texts[1:])
    changed = spec_from_text(text.replace("64", "96"), "a.yaml")
    assert still_meant(texts, was, changed) == [texts[0], texts[2]]


def test_networks_keep_the_size_of_a_state_that_the_spec_writes_out() -> None:
    def hidden(text: str) -> bool:
        return any("hidden_size" in str(s) for s in steps_of(spec_from_text(text, "a"), Stage.ENV))

    assert hidden(PIPELINE)
    assert not hidden(PIPELINE.replace("env:\n", "env:\n  primers: manual\n"))
