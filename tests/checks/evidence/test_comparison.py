"""Comparing outputs: within a bound of the oracle, or to the bit."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from rnncheck.checks.evidence.comparison import changes, is_same, mismatches
from rnncheck.checks.evidence.trajectory_replay import Replayed
from rnncheck.pipeline.recording.recording import Trajectory

VALUE, ACTION = ("value",), ("action",)


def outputs(value: Tensor | None = None, action: Tensor | None = None) -> TensorDict:
    """Outputs ``[rows, steps]``."""
    given = {key: item for key, item in ((VALUE, value), (ACTION, action)) if item is not None}
    shape = next(iter(given.values())).shape[:2]
    return TensorDict(given, batch_size=shape)


def exact() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 10, 3, generator=generator, dtype=torch.float64)


def test_rounding_is_no_mismatch_and_more_is() -> None:
    oracle = exact()
    truth, other = outputs(oracle.float()), outputs((oracle + 1e-7).float())
    assert mismatches(other, truth, outputs(oracle), [VALUE]) == []
    wrong = oracle.float()
    wrong[1, 4, 2] += 0.01
    (found,) = mismatches(outputs(wrong), truth, outputs(oracle), [VALUE])
    d = found.difference
    assert (found.key, d.row, d.step, d.feature, d.first_step) == (VALUE, 1, 4, (2,), 4)
    assert 0 < found.bound < 0.01 <= d.worst * 1.0001


def test_steps_outside_the_mask_do_not_count() -> None:
    oracle = exact()
    wrong = oracle.float()
    wrong[0, 3] += 1
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[0, 3] = False
    truth = outputs(oracle.float())
    assert mismatches(outputs(wrong), truth, outputs(oracle), [VALUE]) != []
    assert mismatches(outputs(wrong), truth, outputs(oracle), [VALUE], mask) == []


def test_a_choice_that_flips_at_a_tie_is_no_mismatch_beside_right_values() -> None:
    value, action = exact().float(), torch.zeros(2, 10, dtype=torch.int64)
    truth = outputs(value, action)
    assert mismatches(outputs(value, action + 1), truth, None, [VALUE, ACTION]) == []


def test_choices_alone_are_compared_up_to_a_share_of_ties() -> None:
    action = torch.zeros(2, 20, dtype=torch.int64)
    few, many = action.clone(), action.clone()
    few[0, 3] = 1
    many[:, ::2] = 1
    assert mismatches(outputs(action=few), outputs(action=action), None, [ACTION]) == []
    (found,) = mismatches(outputs(action=many), outputs(action=action), None, [ACTION])
    assert found.difference.differing == 20


def test_a_key_that_one_side_lacks_is_left_out() -> None:
    value, action = exact().float(), torch.zeros(2, 10, dtype=torch.int64)
    assert mismatches(outputs(value), outputs(value, action), None, [VALUE, ACTION]) == []


def test_nan_on_one_side_is_a_mismatch_on_both_it_is_none() -> None:
    oracle = exact()
    nan = oracle.float()
    nan[0, 5] = torch.nan
    assert mismatches(outputs(nan), outputs(oracle.float()), outputs(oracle), [VALUE]) != []
    assert mismatches(outputs(nan), outputs(nan), None, [VALUE]) == []


def test_a_change_of_one_bit_is_seen_where_one_looks() -> None:
    before = exact().float()
    after = before.clone()
    after[1, 2, 0] = torch.nextafter(after[1, 2, 0], torch.tensor(torch.inf))
    everywhere = torch.ones(2, 10, dtype=torch.bool)
    (found,) = changes(outputs(before), outputs(after), [VALUE], everywhere)
    assert found.changed.nonzero().tolist() == [[1, 2]]
    elsewhere = everywhere.clone()
    elsewhere[1, 2] = False
    assert changes(outputs(before), outputs(after), [VALUE], elsewhere) == []
    assert changes(outputs(before), outputs(before), [VALUE], everywhere) == []


def test_a_change_from_number_to_nan_is_one() -> None:
    before = exact().float()
    after = before.clone()
    after[0, 0] = torch.nan
    everywhere = torch.ones(2, 10, dtype=torch.bool)
    (found,) = changes(outputs(before), outputs(after), [VALUE], everywhere)
    assert found.difference.worst == float("inf")


@pytest.mark.parametrize("seed", range(20))
def test_what_is_equal_is_in_the_bound_of_every_oracle(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    size = 10.0 ** (seed - 10)
    value = torch.randn(1, 6, 3, generator=draw) * size
    value[0, 3, 1] = [torch.nan, torch.inf, 0.0, 1.0][seed % 4]
    exact = value.double() + size * torch.randn(1, 6, 3, generator=draw).double() ** 9
    truth = TensorDict({"x": value}, [1, 6])
    candidate, oracle = truth.clone(), TensorDict({"x": exact}, [1, 6])
    assert is_same(candidate, truth, [("x",)])
    for known in (None, oracle):
        assert not mismatches(candidate, truth, known, [("x",)])
    candidate["x"][0, 2, 0] += size
    assert not is_same(candidate, truth, [("x",)])


def test_a_replay_in_float64_is_made_only_where_it_decides() -> None:
    asked: list[TensorDict] = []

    def in_double() -> TensorDict:
        asked.append(TensorDict({"x": torch.ones(1, 4, 2).double()}, [1, 4]))
        return asked[-1]

    truth = TensorDict({"x": torch.ones(1, 4, 2)}, [1, 4])
    item = Replayed(Trajectory((), fresh=True), truth, truth, in_double, {})
    assert item.unlike(truth.clone(), [("x",)]) == []
    assert not asked
    other = TensorDict({"x": torch.full((1, 4, 2), 1.5)}, [1, 4])
    for _ in range(2):
        assert [one.key for one in item.unlike(other, [("x",)])] == [("x",)]
    assert len(asked) == 1
